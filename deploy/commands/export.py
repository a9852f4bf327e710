"""`isthmus export`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from .checks import check_bundle_name, check_range


@dataclass(frozen=True, kw_only=True)
class Export:
    """Write a trained policy as one bundle: an ONNX graph from raw signals to joint targets, checked against the trainer.

    `isthmus export c BUNDLE` compiles a bundle to C99.
    """

    directory: Annotated[Path, Positional, arg(metavar="DIRECTORY")]
    """Directory of the training run."""
    out: Path
    """The .onnx file to write."""
    evaluate: int = 400
    """Simulated episodes behind the success rate that is written into the bundle."""

    def run(self) -> int:
        """Export, replay, describe."""
        from isthmus.policies.bundle import target_output
        from isthmus.policies.learning.recipe import Run

        check_range("--evaluate", self.evaluate, 1)
        check_bundle_name("--out", self.out)
        run = Run.look_at(self.directory)
        run.check_deployable()
        rate = run.evaluate(self.evaluate).rate
        bundle = run.export(self.out, simulated_success=rate)
        contract, size = bundle.manifest.contract, self.out.stat().st_size / 1024
        rows = len(bundle.golden[target_output(contract)])
        following = f"run {self.out} --arm soft" if contract.robot == "so101" else f"play {self.out} --out film.gif"
        print(
            f"{self.out}: {contract.task} for {contract.robot}, {size:.0f} kB, {1e9 / contract.period_ns:.0f} Hz, "
            f"{100 * rate:.1f} % in simulation\n{rows} golden rows replayed; sha256 {bundle.sha256}\n"
            f"next: isthmus {following}"
        )
        return 0
