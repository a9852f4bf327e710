"""Every importer, by name, and finding the one that reads a file."""

from pathlib import Path

from . import bare, efferent, holosoma, isaaclab, kinfer, leapp, mjlab, motrix, rl_sar, unitree, unitree_rl_gym
from .checked import checked
from .common import Importer, ImportFailed
from .declined import check_no_bundle, reasons

IMPORTERS: dict[str, Importer] = {
    importer.name: checked(importer)
    for importer in (
        mjlab.IMPORTER,
        isaaclab.IMPORTER,
        unitree.IMPORTER,
        leapp.IMPORTER,
        holosoma.IMPORTER,
        unitree_rl_gym.IMPORTER,
        kinfer.IMPORTER,
        efferent.IMPORTER,
        rl_sar.IMPORTER,
        motrix.IMPORTER,
        bare.IMPORTER,
    )
}


def find_importer(path: Path) -> Importer:
    """The importer of a file or directory; raises ImportFailed where there is none, or more than one, saying why."""
    check_no_bundle(path)
    found = _readers(path)
    if len(found) > 1:
        raise ImportFailed(f"{path}: read by {', '.join(found)}; choose one with --format")
    if not found:
        why = "".join(f"\n  - {line}" for line in reasons(path, _readers))
        known = "".join(f"\n  - {importer.name}: {importer.description}" for importer in IMPORTERS.values())
        raise ImportFailed(f"{path}: read by no importer:{why}\n  - known are:{known}")
    return IMPORTERS[found[0]]


def _readers(path: Path) -> list[str]:
    return [importer.name for importer in IMPORTERS.values() if importer.recognises(path)]
