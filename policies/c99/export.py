"""A bundle as C99: compiled, with its golden rows as a test."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from isthmus.hardware.files import write_whole

from ..bundle import GOLDEN_TOLERANCE, Bundle, load_bundle, target_output
from .compiler import Precision, compile_model
from .notes import bundle_notes
from .rounding import RoundingError, rounding_errors
from .selftest import with_selftest
from .source import CSource

RESIDUAL_OUTPUTS = ("residual_action", "gate_prob", "gate")


@dataclass(frozen=True, kw_only=True)
class CExport:
    """What was written."""

    bundle: Bundle
    source: CSource
    paths: tuple[Path, Path]  # source, header
    errors: tuple[RoundingError, ...]  # of int8 weights against float32; empty for float32


def export_c(path: Path, folder: Path, *, precision: Precision = "float32", name: str | None = None) -> CExport:
    """Compile a bundle to `<folder>/<name>.c` and `.h`.

    Args:
        path: the bundle; it is loaded, checked and replayed first.
        folder: an existing folder.
        precision: of the weights of layers.
        name: beginning of every name in C; None: the bundle's.

    Raises:
        BundleError: the file is no bundle that can be trusted.
        CExportError: something in its graph cannot be compiled.
    """
    bundle = load_bundle(path)
    data = path.read_bytes()
    kept = wanted_outputs(bundle)
    signals = {signal: bundle.golden[signal] for signal in bundle.manifest.contract.signals}
    results = {output: bundle.golden[output] for output in kept if output in bundle.golden}
    errors = rounding_errors(data, signals, tuple(results)) if precision == "int8" else ()
    states = [f"next.{state.name}" for state in bundle.manifest.states]
    source = compile_model(
        data,
        name=name or bundle.manifest.name,
        outputs=(*kept, *states),
        precision=precision,
        notes=bundle_notes(bundle, _about(precision, errors)),
    )
    folder_paths = source.write(folder)
    write_whole(folder_paths[0], with_selftest(source, signals, results, _tolerance(results, errors)).encode("ascii"))
    return CExport(bundle=bundle, source=source, paths=folder_paths, errors=errors)


def wanted_outputs(bundle: Bundle) -> tuple[str, ...]:
    """The target, the network's action and, of composed policies, what residual and gate do."""
    residual = RESIDUAL_OUTPUTS if bundle.manifest.residual is not None else ()
    return (target_output(bundle.manifest.contract), "base_action", *residual)


def _about(precision: Precision, errors: tuple[RoundingError, ...]) -> tuple[str, ...]:
    if precision == "float32":
        return ("Weights are float32.",)
    lines = [
        f"{e.output}: off by {e.golden:.2g} on the golden rows, {e.random:.2g} on random rows, of {e.largest:.3g} at most."
        for e in errors
    ]
    return ("Weights of layers are int8, one scale a row; largest errors against float32:", *lines)


def _tolerance(results: dict[str, np.ndarray], errors: tuple[RoundingError, ...]) -> float:
    """Of the golden rows. Twice the measured error of int8: inside of GRU and LSTM the code rounds a little more."""
    shares = [e.golden / max(1.0, float(np.abs(results[e.output]).max(axis=1).min())) for e in errors]
    return GOLDEN_TOLERANCE + 2.0 * max(shares, default=0.0)
