# pyright: reportArgumentType=false
"""Several processes train one policy."""

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

from isthmus.policies.learning.checkpoint import CHECKPOINT_FILE, read_state
from isthmus.policies.learning.distributed import DistributedError, Process, launch, this_process
from isthmus.policies.learning.ppo_config import PPOConfig
from isthmus.policies.learning.trainer import Trainer

CONFIG = PPOConfig(hidden_dims=(16,), normalise=True, steps_per_iteration=8, save_every=1)


def train_toy(directory, iterations, seed, resume):
    sys.path.insert(0, str(Path(__file__).parent))  # a fresh process does not know pytest's paths
    from toy_env import PointMassEnv

    process = this_process()
    run = Trainer(PointMassEnv(8, seed=process.rank), CONFIG, directory, seed=seed)
    if resume:
        run.load(directory / CHECKPOINT_FILE, resume=True)
    run.train(iterations)
    mine = torch.cat([p.detach().flatten() for p in run.policy.state_dict().values()]).double()
    everyones = [torch.zeros_like(mine) for _ in range(process.count)]
    torch.distributed.all_gather(everyones, mine)
    worlds = run.env.get_observations()["actor"].flatten()
    others = [torch.zeros_like(worlds) for _ in range(process.count)]
    torch.distributed.all_gather(others, worlds)
    return everyones, others, run.steps


def fail_in_one(message):
    if this_process().rank == 1:
        raise ValueError(message)


def test_two_processes_end_with_equal_weights_from_worlds_of_their_own_and_resume_to_the_bit(tmp_path):
    handler = signal.getsignal(signal.SIGINT)
    weights, worlds, steps = launch(train_toy, (tmp_path / "straight", 4, 0, False), 2)
    assert signal.getsignal(signal.SIGINT) is handler
    assert torch.equal(weights[0], weights[1]) and not torch.equal(worlds[0], worlds[1])
    assert steps == 4 * 8 * 8 * 2
    launch(train_toy, (tmp_path / "cut", 2, 0, False), 2)
    assert {path.name for path in (tmp_path / "cut").glob("resume-2-*")} == {"resume-2-0.pt", "resume-2-1.pt"}
    resumed, _, _ = launch(train_toy, (tmp_path / "cut", 4, 9, True), 2)
    assert torch.equal(resumed[0], weights[0]) and torch.equal(resumed[1], weights[0])


def test_a_process_that_fails_ends_the_run_and_is_named():
    with pytest.raises(DistributedError, match=r"process 1 of 2 failed: .*out of luck"):
        launch(fail_in_one, ("out of luck",), 2)


def test_alone_there_is_nobody_to_ask():
    assert this_process() == Process(rank=0, count=1)
    assert Process().any(True) and not Process().any(False) and Process().multi_gpu is None


SAVER = """
    import sys
    from pathlib import Path
    import torch
    from isthmus.policies.learning.checkpoint import publish_checkpoint, resume_file, write_state
    folder = Path(sys.argv[1])
    iteration = 0
    while True:
        iteration += 1
        state = {"iteration": iteration, "weights": torch.full((200_000,), float(iteration))}
        write_state(resume_file(folder, iteration, 0), state)
        publish_checkpoint(folder, state)
        if iteration == 3:
            print("going", flush=True)
"""


@pytest.mark.parametrize("after", [0.02, 0.11, 0.23])
def test_a_run_killed_while_it_saves_leaves_whole_checkpoints_with_their_resume_files(after, tmp_path):
    saver = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SAVER), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert saver.stdout is not None and saver.stdout.readline() == "going\n"
    with contextlib.suppress(subprocess.TimeoutExpired):
        saver.wait(after)
    os.kill(saver.pid, signal.SIGKILL)
    saver.communicate()
    for name in ("checkpoint.pt", "checkpoint.previous.pt"):
        state = read_state(tmp_path / name)
        iteration = state["iteration"]
        for whole in (state, read_state(tmp_path / f"resume-{iteration}-0.pt")):
            assert whole["iteration"] == iteration
            assert torch.equal(whole["weights"], torch.full((200_000,), float(iteration)))


TOGETHER = """
    import sys
    from pathlib import Path
    from isthmus.policies.learning.distributed import launch
    if __name__ == "__main__":
        from test_distributed import train_toy
        launch(train_toy, (Path(sys.argv[1]), 1_000_000, 0, False), 2)
"""


def test_ctrl_c_lets_every_process_end_the_same_iteration_and_saves_it(tmp_path):
    script = tmp_path / "together.py"
    script.write_text(textwrap.dedent(TOGETHER))
    command = [sys.executable, str(script), str(tmp_path / "run")]
    paths = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
    together = subprocess.Popen(command, env=paths, stderr=subprocess.PIPE, text=True, start_new_session=True)
    deadline = time.monotonic() + 120.0
    while not (tmp_path / "run" / "checkpoint.previous.pt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(together.pid, signal.SIGINT)  # as a terminal does
    _, errors = together.communicate(timeout=60)
    assert "KeyboardInterrupt" in errors
    iteration = read_state(tmp_path / "run" / CHECKPOINT_FILE)["iteration"]
    assert [read_state(tmp_path / "run" / f"resume-{iteration}-{rank}.pt")["iteration"] for rank in (0, 1)] == [
        iteration
    ] * 2
