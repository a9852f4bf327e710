"""Processes that save without end and are killed: after each, what is there must load. Prints how often which file was found."""

import os
import random
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import torch

from isthmus.policies.learning.checkpoint import (
    CHECKPOINT_FILE,
    PREVIOUS_FILE,
    publish_checkpoint,
    read_state,
    resume_file,
    write_state,
)


def state(iteration: int) -> dict[str, object]:
    return {"iteration": iteration, "weights": torch.full((200_000,), float(iteration))}


def save_for_ever(folder: Path, iteration: int) -> None:
    while True:
        iteration += 1
        write_state(resume_file(folder, iteration, 0), state(iteration))
        publish_checkpoint(folder, state(iteration))


def check(folder: Path, name: str) -> int:
    """That a file and what belongs to it are whole; its iteration."""
    found = read_state(folder / name)
    for each in (found, read_state(resume_file(folder, int(str(found["iteration"])), 0))):
        assert each["iteration"] == found["iteration"], name
        weights = each["weights"]
        assert isinstance(weights, torch.Tensor) and bool((weights == float(str(found["iteration"]))).all()), name
    return int(str(found["iteration"]))


def main(folder: Path, kills: int) -> None:
    torch.set_num_threads(1)
    for iteration in (0, 1):
        write_state(resume_file(folder, iteration, 0), state(iteration))
        publish_checkpoint(folder, state(iteration))
    last, seen, chance = 1, Counter(), random.Random(0)
    for _ in range(kills):
        child = os.fork()
        if child == 0:
            save_for_ever(folder, last)
        time.sleep(chance.uniform(0.0, 0.04))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        now = check(folder, CHECKPOINT_FILE)
        assert now >= last
        seen["while writing"] += any(folder.glob("*.tmp"))
        seen["went on"] += now > last
        last = now
        assert check(folder, PREVIOUS_FILE) <= now
    write_state(resume_file(folder, last + 1, 0), state(last + 1))
    publish_checkpoint(folder, state(last + 1))
    left = sorted(path.name for path in folder.iterdir())
    assert len(left) <= 4 and not any(name.startswith("resume") and name.endswith(".tmp") for name in left), left
    print(dict(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
