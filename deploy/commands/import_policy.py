"""`isthmus import`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .checks import check_bundle_name, check_not_input


@dataclass(frozen=True, kw_only=True)
class Import:
    """Make a bundle of another tool's policy; what its files do not say is listed, and comes from --facts or --robot.

    Without --out, says what was read, and writes nothing.
    """

    path: Annotated[Path, Positional, arg(metavar="PATH")]
    """File or directory that the other tool wrote."""
    out: Path | None = None
    """The .onnx bundle to write."""
    format: str | None = None
    """Whose files they are; found out by looking at them where it is not given."""
    robot: str | None = None
    """Robot that ships with isthmus or is installed: its own limits stand where nobody says otherwise."""
    facts: Path | None = None
    """TOML file with what the format lacks."""
    name: str | None = None
    """Name of the policy; that of its file where it is not given."""

    def run(self) -> int:
        """Read, merge, replay, describe."""
        from isthmus.policies.importers.common import Facts, read_facts, robot_facts
        from isthmus.policies.importers.imported_bundle import write_imported

        from .bundle import summary

        if self.out is not None:
            check_bundle_name("--out", self.out)
            check_not_input("--out", self.out, self.path, "the policy that is imported")
        importer = self._importer()
        facts = Facts() if self.facts is None else read_facts(self.facts)
        facts = facts if self.robot is None else robot_facts(self.robot, facts)
        imported = importer.load(self.path, facts)
        contract = imported.contract
        print(
            f"{self.path}: {importer.name}, {contract.task} for {contract.robot}, {1e9 / contract.period_ns:g} Hz, {contract.action.kind}"
        )
        for note in imported.notes:
            print(f"note: {note}")
        if self.out is None:
            for value in imported.sources:
                printed = f", printed to {value.resolution:g}" if value.resolution else ""
                print(f"{value.path}: {value.source}{printed}")
            return 0
        bundle = write_imported(self.out, imported, name=self.name or self.path.stem, tool=importer.name)
        for line in summary(bundle):
            print(line)
        return 0

    def _importer(self):  # noqa: ANN202
        from isthmus.policies.importers.common import ImportFailed
        from isthmus.policies.importers.registry import IMPORTERS, find_importer

        from .checks import OptionError

        if not self.path.exists():
            raise ImportFailed(f"{self.path}: there is no such file or directory")
        if self.format is None:
            return find_importer(self.path)
        if self.format not in IMPORTERS:
            raise OptionError(f"--format is {self.format!r}, expected one of {', '.join(IMPORTERS)}")
        return IMPORTERS[self.format]
