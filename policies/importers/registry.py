"""Every importer, by name, and finding the one that reads a file."""

from pathlib import Path

from . import bare, efferent, holosoma, isaaclab, kinfer, leapp, mjlab, motrix, rl_sar, unitree, unitree_rl_gym
from .common import Importer, ImportFailed

IMPORTERS: dict[str, Importer] = {
    importer.name: importer
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
    """The importer of a file or directory; raises ImportFailed where there is none, or more than one."""
    found = [importer for importer in IMPORTERS.values() if importer.recognises(path)]
    if len(found) != 1:
        known = "".join(f"\n  - {importer.name}: {importer.description}" for importer in IMPORTERS.values())
        names = [importer.name for importer in found]
        raise ImportFailed(f"{path}: read by {names or 'no importer'}; name one of these:{known}")
    return found[0]
