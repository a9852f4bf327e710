"""Makes the helpers beside the tests importable, and good bundles and logs once."""

import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).parent))

if TYPE_CHECKING:
    from benches import Good


@pytest.fixture(scope="session")
def good(tmp_path_factory: pytest.TempPathFactory) -> "Callable[[str, int], Good]":
    """A good bundle and what a robot recorded under it, by kind and seed."""
    from benches import benches, make_good

    folder, made = tmp_path_factory.mktemp("good"), {}

    def find(name: str, seed: int) -> "Good":
        if (name, seed) not in made:
            bench = next(b for b in benches(seed) if b.name == name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # constants in traced networks are meant
                made[name, seed] = make_good(bench, folder, seed=seed, logs=1, met=12)
        return made[name, seed]

    return find
