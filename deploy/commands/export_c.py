"""`isthmus export c`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, arg

from .checks import check_folder


@dataclass(frozen=True, kw_only=True)
class ExportC:
    """Compile a bundle to C99 for a microcontroller: one source and header, no allocation, its golden rows as a self-test."""

    bundle: Annotated[Path, Positional, arg(metavar="BUNDLE")]
    """The .onnx file that `isthmus export` wrote."""
    out: Path
    """Directory for the source and the header."""
    weights: Literal["float32", "int8"] = "float32"
    """Of the network's layers; int8 is a third of the size, and its error is measured and said."""
    name: str | None = None
    """Name of the files, and beginning of every name in them; the bundle's where it is not given."""

    def run(self) -> int:
        """Compile, write, describe."""
        from isthmus.policies.c99.export import export_c

        check_folder("--out", self.out)
        done = export_c(self.bundle, self.out, precision=self.weights, name=self.name)
        source, header = done.paths
        sizes = ", ".join(f"{count} {kind}" for kind, count in done.source.layout.sizes.items())
        print(
            f"{source}, {header}: {done.bundle.manifest.name} with {self.weights} weights, scratch of {sizes or 'nothing'}"
        )
        for error in done.errors:
            print(
                f"{error.output}: off by {error.golden:.2g} on the golden rows, {error.random:.2g} on random rows, "
                f"of {error.largest:.3g} at most"
            )
        print(f"next: cc -std=c99 -O2 -DISTHMUS_SELFTEST {source} -o selftest -lm && ./selftest")
        return 0
