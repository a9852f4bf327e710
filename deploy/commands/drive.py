"""What `run` and `correct` do alike: arm, and attempt target after target before the eyes of a person."""

import numpy as np

from ..attempt import EpisodeResult, EpisodeRunner, Referee
from ..operators.operator import OperatorFactory
from .attempts import AttemptRow, attempt_all, row_of


def drive(
    session: EpisodeRunner,
    targets: np.ndarray,
    *,
    title: str,
    policy_id: str,
    referee: Referee | None,
    operator: OperatorFactory | None,
    rows: list[AttemptRow],
) -> None:
    """Arm and attempt every target, shape (k, 3), m, base frame; `rows` gets each attempt as it ends, whatever comes after it.

    Raises:
        StoppedByOperator: nothing is attempted any more, the arm holds.
        SessionError: see `EpisodeRunner.run_episode`.
    """
    from ..operators.keyboard import KeyboardOperator
    from ..progress import operated_progress

    print("moving to the ready pose", flush=True)
    session.arm()
    with operated_progress(title, len(targets), keyboard=operator is KeyboardOperator) as (show, on_tick):

        def ended(index: int, result: EpisodeResult) -> None:
            rows.append(row_of(targets[index], result))
            show(index, result)

        attempt_all(
            session,
            targets,
            policy_id=policy_id,
            referee=referee,
            operator=operator,
            on_result=ended,
            on_tick=on_tick,
        )
