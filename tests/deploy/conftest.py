"""Makes the helpers beside the tests importable, also in processes that a test spawns."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(scope="session")
def reach_bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy that comes near its target, and on the soft arm reaches some."""
    from reach_bundle import write_reach_bundle

    path = tmp_path_factory.mktemp("bundle") / "reach.onnx"
    write_reach_bundle(path)
    return path
