"""What `run` and `correct` do alike: arm, and attempt target after target before the eyes of a person."""

from dataclasses import replace

import numpy as np

from ..attempt import EpisodeResult, EpisodeRunner, Referee
from ..operators.operator import OperatorFactory
from ..snapshot import Scene
from ..status import Status
from .attempts import AttemptRow, attempt_all, row_of


class TimeIsUp(Exception):
    """The seconds that a command was given have passed."""


def drive(
    session: EpisodeRunner,
    targets: np.ndarray,
    *,
    title: str,
    policy_id: str,
    referee: Referee | None,
    operator: OperatorFactory | None,
    rows: list[AttemptRow],
    scene: Scene | None = None,
    seconds: float | None = None,
) -> None:
    """Arm and attempt every target, shape (k, 3), m, base frame; `rows` gets each attempt as it ends, whatever comes after it.

    Args:
        session: not yet armed.
        targets: shape (k, 3), m, base frame.
        title: what the attempts are called.
        policy_id: for the rows.
        referee: see `EpisodeRunner.run_episode`.
        operator: who may take over.
        rows: filled.
        scene: for the dashboard; None: nothing is known of the joints.
        seconds: how long to attempt, on the runtime's clock; None: until every target had its turn.

    Raises:
        TimeIsUp: `seconds` have passed in the midst of an attempt, in which the arm is still driven.
        StoppedByOperator: nothing is attempted any more, the arm holds.
        SessionError: see `EpisodeRunner.run_episode`.
    """
    from ..live_dashboard import dashboard

    if scene is None:
        scene = Scene(spec=None, robot="", policies=(), episodes=len(targets), period_ns=None)
    scene = replace(scene, keyboard=uses_keyboard(operator), operator_lines=operator_lines(operator))
    for line in scene.operator_lines:
        print(line)
    print("the arm stays where it is" if scene.dry_run else "moving to the ready pose", flush=True)
    session.arm()
    end_ns = None if seconds is None else session.status().monotonic_ns + round(seconds * 1e9)
    with dashboard(title, scene) as (show, draw):

        def ended(index: int, result: EpisodeResult) -> None:
            rows.append(row_of(targets[index], result))
            show(index, result)

        def look(status: Status, tip: np.ndarray, left_s: float) -> None:
            if end_ns is not None and status.monotonic_ns >= end_ns:
                raise TimeIsUp
            draw(status, tip, left_s)

        attempt_all(
            session, targets, policy_id=policy_id, referee=referee, operator=operator, on_result=ended, on_tick=look
        )


def uses_keyboard(operator: OperatorFactory | None) -> bool:
    """Whether somebody at this terminal's keyboard may take over."""
    from ..operators.keyboard import KeyboardOperator

    return operator is KeyboardOperator or "keyboard" in getattr(operator, "name", "").split("+")


def operator_lines(operator: OperatorFactory | None) -> tuple[str, ...]:
    """What a person must know of their device before anything moves."""
    from ..operators.keyboard import KEYS_HELP

    return getattr(operator, "first_lines", (KEYS_HELP,) if uses_keyboard(operator) else ())
