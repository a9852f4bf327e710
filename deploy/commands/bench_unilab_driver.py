"""Run by another Python, which has UniLab: its own training command, one iteration for each line on standard input.

Answers on the file descriptor that is the first argument, in lines of JSON: its version and torch's threads, then of each iteration its
times and the mean of its velocity-tracking reward, exp(-(error / 0.5 m/s)^2) with a weight of 1. The other arguments are UniLab's.
Works in the current folder, which becomes what UniLab takes for its source checkout.
"""

import importlib.metadata
import json
import os
import re
import runpy
import shutil
import sys
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any

TRACKING = "reward/tracking_lin_vel"
ROBOT = "unilab/assets/robots/go2"
STAND_IN = "v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 3 2\nf 1 2 4\nf 2 3 4\nf 3 1 4\n"  # a tetrahedron


def main() -> None:
    """Time rsl-rl's PPO, which UniLab trains by, from inside: collection until `update` is called, then the update."""
    import torch
    from rsl_rl.algorithms import PPO
    from unilab.managers.reward_manager import RewardManager  # pyright: ignore[reportMissingImports]

    pipe = os.fdopen(int(sys.argv.pop(1)), "w", buffering=1)
    act, update, compute = PPO.act, PPO.update, RewardManager.compute
    began: list[float] = []
    tracking: list[float] = []

    def waiting_act(self: Any, *arguments: Any, **keywords: Any) -> Any:
        if not began:
            if not sys.stdin.readline():
                os._exit(0)  # nobody asks for more
            began.append(time.perf_counter())
        return act(self, *arguments, **keywords)

    def reading_compute(self: Any, *arguments: Any, **keywords: Any) -> Any:
        rewards = compute(self, *arguments, **keywords)
        tracking.append(self.step_reward_extras()[TRACKING])
        return rewards

    def timed_update(self: Any, *arguments: Any, **keywords: Any) -> Any:
        collected = time.perf_counter()
        losses = update(self, *arguments, **keywords)
        times = {"collect": collected - began.pop(), "update": time.perf_counter() - collected}
        pipe.write(json.dumps(times | {"tracking": sum(tracking) / len(tracking)}) + "\n")
        tracking.clear()
        return losses

    PPO.act, PPO.update, RewardManager.compute = waiting_act, timed_update, reading_compute
    pipe.write(json.dumps({"version": importlib.metadata.version("unilab"), "threads": torch.get_num_threads()}) + "\n")
    script = _installed("unilab/scripts/train_rsl_rl.py")
    copy_robot(_installed(ROBOT), Path("src") / ROBOT)
    sys.argv[0] = str(script)
    runpy.run_path(str(script), run_name="__main__")  # as a script, or its configuration is not found


def copy_robot(source: Path, to: Path) -> None:
    """The robot's description, with a stand-in for each mesh that is not there: meshes are only drawn, and here nothing is."""
    shutil.copytree(source, to, dirs_exist_ok=True)
    folder = to / "assets"
    folder.mkdir(exist_ok=True)
    for model in to.glob("*.xml"):
        for name in re.findall(r'<mesh[^>]*file="([^"/]+\.obj)"', model.read_text()):
            if not (folder / name).exists():
                (folder / name).write_text(STAND_IN)


def _installed(path: str) -> Path:
    """A file or folder of the installed UniLab, found without importing it."""
    spec = find_spec("unilab")
    assert spec is not None and spec.origin is not None
    return Path(spec.origin).parents[1] / path


if __name__ == "__main__":
    main()
