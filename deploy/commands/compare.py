"""`isthmus compare`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
from tyro.conf import Positional, arg

from .attempts import Attempts, load_attempts

if TYPE_CHECKING:
    from isthmus.policies.learning.promote import Verdict


@dataclass(frozen=True, kw_only=True)
class Compare:
    """Whether a new policy should replace the one in use, from a run of each on the same targets (`isthmus run --out`).

    Only a win counts, a tie does not. Exits with 0 when the challenger wins and with 1 when not.
    """

    champion: Annotated[Path, Positional, arg(metavar="CHAMPION")]
    """Results of the policy in use."""
    challenger: Annotated[Path, Positional, arg(metavar="CHALLENGER")]
    """Results of the policy that may replace it, with the same --targets and --seed."""

    def run(self) -> int:
        """Compare and say why."""
        champion, challenger = load_attempts(self.champion), load_attempts(self.challenger)
        verdict = compare_attempts(champion, challenger)
        low, high = (1e3 * value for value in verdict.error_interval_m)
        print(f"champion: {champion.line()}")
        print(f"challenger: {challenger.line()}")
        print(
            f"mean miss changes by {1e3 * verdict.error_change_m:+.1f} mm (95 % interval {low:+.1f} to {high:+.1f} mm); "
            f"such a gain in successes by chance: p = {verdict.success_p_value:.2g}"
        )
        print(f"{'the challenger wins' if verdict.promote else 'keep the champion'}: {verdict.reason}")
        return 0 if verdict.promote else 1


def compare_attempts(champion: Attempts, challenger: Attempts) -> "Verdict":
    """The verdict on two evaluations; raises PromotionError where their targets differ or are none."""
    from isthmus.policies.learning.promote import EvaluationResults, compare

    def results(attempts: Attempts) -> EvaluationResults:
        return EvaluationResults(
            policy_id=attempts.policy_id,
            targets=np.array([row.target for row in attempts.rows]),
            success=np.array([row.success for row in attempts.rows]),
            final_error_m=np.array([row.final_error_m for row in attempts.rows]),
        )

    return compare(results(champion), results(challenger))
