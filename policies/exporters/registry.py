"""Every exporter, by the name of the tool whose files it writes."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import onnx

from isthmus.hardware.files import write_whole

from ..bundle import load_bundle
from ..manifest import Manifest
from .holosoma import export_holosoma
from .mjlab import export_mjlab
from .network import Exported, ExportFailed

EXPORTERS: dict[str, Callable[[onnx.ModelProto, Manifest], Exported]] = {
    "mjlab": export_mjlab,
    "holosoma": export_holosoma,
}


def export_bundle(bundle: Path, flavour: str, target: Path) -> Exported:
    """Write a bundle in another tool's form: the model at `target`, and what belongs to it beside.

    Raises:
        BundleError: the bundle cannot be trusted.
        ExportFailed: an unknown tool, a contract that its format cannot say, or another file where one has to lie; nothing is written then.
    """
    if flavour not in EXPORTERS:
        raise ExportFailed(f"no exporter for {flavour!r}; known: {', '.join(EXPORTERS)}")
    manifest = load_bundle(bundle).manifest
    made = EXPORTERS[flavour](onnx.load(str(bundle)), manifest)
    beside = {target.with_suffix(ending): text.encode() for ending, text in made.files.items()}
    for path, data in beside.items():
        if path == target or (path.exists() and path.read_bytes() != data):
            raise ExportFailed(
                f"{path}: has to lie beside {target}, but is another file; move it away, or choose another --out"
            )
    write_whole(target, made.model.SerializeToString())
    for path, data in beside.items():
        write_whole(path, data)
    return replace(made, files={path.name: made.files[path.suffix] for path in beside})
