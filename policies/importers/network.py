"""The network of formats that keep it in a file of its own: ONNX, or TorchScript."""

from pathlib import Path

import onnx

from .common import ImportFailed
from .files import read_onnx
from .torchscript_graph import torchscript_network


def read_network(folder: Path, name: str, source: str, observations: int) -> tuple[onnx.ModelProto, dict[str, int]]:
    """A network by its file's name and the width of each state that it keeps.

    Args:
        folder: where the file must lie.
        name: as the configuration gives it; no path.
        source: file and key that give it.
        observations: size of the observation.
    """
    if name in ("", ".", "..") or name != Path(name).name or "\\" in name:
        raise ImportFailed(f"{source}: {name!r}; only a file in {folder} is read, give its name alone")
    if name.endswith(".onnx"):
        return read_onnx(folder / name), {}
    if name.endswith(".pt"):
        return torchscript_network(folder / name, observations)
    raise ImportFailed(f"{source}: {name!r} is neither .onnx nor .pt; nothing else is read")
