"""`isthmus bench c`."""

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from isthmus.hardware.structure import write_json


@dataclass(frozen=True, kw_only=True)
class CRow:
    """A policy on a microcontroller."""

    policy: str
    weights: str
    board: str
    instructions: int  # a step
    flash: int  # bytes, with the mathematical library
    ram: int  # bytes of state, scratch, inputs and outputs


@dataclass(frozen=True, kw_only=True)
class CTable:
    """The whole bench."""

    compiler: str
    rows: tuple[CRow, ...]


@dataclass(frozen=True, kw_only=True)
class BenchC:
    """Measure bundles as C99 on emulated Cortex-M4F and M7: instructions a step, flash and RAM. Their golden rows must come out."""

    bundles: Annotated[tuple[Path, ...], Positional, arg(metavar="BUNDLE")]
    """The .onnx files."""
    out: Path = Path("runs/bench-c")
    """Directory for c.json."""

    def run(self) -> int:
        """Measure, print the table, write it."""
        from rich.console import Console

        from .checks import OptionError, check_folder

        if not self.bundles:
            raise OptionError("no bundle was given; name at least one .onnx file")
        check_folder("--out", self.out)
        rows = tuple(row for bundle in self.bundles for row in measure_bundle(bundle))
        from isthmus.policies.c99.board import FLAGS

        write_json(self.out / "c.json", CTable(compiler=" ".join(FLAGS), rows=rows))
        Console().print(c_table(rows))
        return 0


def measure_bundle(bundle: Path) -> list[CRow]:
    """Both kinds of weights on every board."""
    from isthmus.policies.c99.board import BOARDS, measure
    from isthmus.policies.c99.export import export_c

    rows = []
    for weights in ("float32", "int8"):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            done = export_c(bundle, folder, precision=weights)
            for board in BOARDS:
                figures = measure(done.paths[0], done.source.name, board, folder)
                rows.append(
                    CRow(
                        policy=bundle.stem,
                        weights=weights,
                        board=board.name,
                        instructions=figures.instructions,
                        flash=figures.flash,
                        ram=figures.ram,
                    )
                )
    return rows


def c_table(rows: tuple[CRow, ...]):  # noqa: ANN201
    """The rows as a table of rich."""
    from rich.table import Table

    table = Table("policy", "weights", "board", "instructions", "flash, bytes", "RAM, bytes", title="One step in C99")
    for row in rows:
        table.add_row(row.policy, row.weights, row.board, f"{row.instructions:,}", f"{row.flash:,}", f"{row.ram:,}")
    return table
