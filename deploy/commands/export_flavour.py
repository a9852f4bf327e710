"""`isthmus export mjlab` and `isthmus export holosoma`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .checks import check_bundle_name, check_not_input


@dataclass(frozen=True, kw_only=True)
class ExportMjlab:
    """Write a bundle as mjlab does: the network alone, its contract as comma-separated metadata, at full precision."""

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
    """The .onnx bundle."""
    out: Path
    """The .onnx file to write."""

    def run(self) -> int:
        """Convert, say what the other tool does otherwise."""
        return _export(self.bundle, "mjlab", self.out)


@dataclass(frozen=True, kw_only=True)
class ExportHolosoma:
    """Write a bundle as holosoma does: the network alone, JSON metadata, and its observation settings as TOML beside it."""

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
    """The .onnx bundle."""
    out: Path
    """The .onnx file to write."""

    def run(self) -> int:
        """Convert, say what the other tool does otherwise."""
        return _export(self.bundle, "holosoma", self.out)


def _export(bundle: Path, flavour: str, out: Path) -> int:
    from isthmus.policies.exporters.registry import export_bundle

    check_bundle_name("--out", out)
    check_not_input("--out", out, bundle, "the bundle")
    made = export_bundle(bundle, flavour, out)
    print("\n".join([f"wrote {name}" for name in (out, *made.files)] + [f"note: {note}" for note in made.notes]))
    return 0
