"""A run of the loop made of known numbers and of recordings of a fake arm; and a reader of the page that is made of it."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
from deploy_fakes import CHAIN, SPEC, FakeClock, FakeRobot, ReachPolicy

from isthmus.calibration.identified import Estimate, Identified, JointError
from isthmus.deploy.commands.attempts import AttemptRow, Attempts
from isthmus.deploy.lockstep import LockstepSession
from isthmus.deploy.loop_results import LoopConfig, LoopResults, Rate, StageTime
from isthmus.deploy.operators.scripted import ScriptedOperator
from isthmus.hardware.kinematics import tip_position

ARM = """
seed = 1
payload_kg = 0.1
friction_scale = 1.5
gain_scale = 0.8
latency_ms = 35.0
backlash_deg = { shoulder_pan = 0, shoulder_lift = 0, elbow_flex = 0, wrist_flex = 0, wrist_roll = 0, gripper = 0 }

[encoder_offset_deg]
shoulder_pan = 2.0
shoulder_lift = -2.2
elbow_flex = 2.5
wrist_flex = -1.8
wrist_roll = 1.4
gripper = -1.0
"""
VOID = {"meta", "img", "br", "link", "input", "hr"}
TARGETS = np.array([[0.25, 0.1, 0.15], [0.28, -0.06, 0.12], [0.22, 0.02, 0.2]])


class Page(HTMLParser):
    """What a reader sees of a page, and whether its tags close in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.images: list[dict[str, str | None]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._caption = ""
        self.text = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        assert len(values) == len(attrs), f"<{tag}> has an attribute twice"
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [value or "" for name, value in attrs if name in ("href", "src")]
        if tag == "img" or values.get("role") == "img":
            self.images.append(values)
        if tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")
        elif tag == "table":
            self._rows, self._caption = [], ""
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        if "style" not in self.open and "svg" not in self.open:
            self.text += data
        if self.open and self.open[-1] == "caption":
            self._caption += data
        elif any(tag in self.open for tag in ("td", "th")) and "svg" not in self.open:
            self._rows[-1][-1] += data

    def table(self, words: str) -> dict[str, list[str]]:
        """Cells by the name of the row, of the table whose caption has these words."""
        (rows,) = [rows for caption, rows in self.tables.items() if words in caption]
        return {row[0]: row[1:] for row in rows}


def attempts(name: str, errors_mm: list[float]) -> Attempts:
    rows = [
        AttemptRow(
            target=(0.2, 0.0, 0.1), success=error <= 10, final_error_m=error * 1e-3, seconds=2.0, intervened=False
        )
        for error in errors_mm
    ]
    return Attempts(policy_id=name, rows=tuple(rows))


RESULTS = LoopResults(
    config=LoopConfig(
        arm="hard",
        seed=3,
        lockstep=True,
        targets=10,
        corrections=(2, 1),
        train_iterations=3,
        train_seconds=None,
        retrain_iterations=2,
    ),
    simulation=Rate(successes=980, episodes=1000),
    zero_shot=attempts("base", [4, 8, 12, 16, 20, 24, 28, 32, 36, 40]),
    calibrated=attempts("calibrated", [3, 7, 9, 12, 16, 20, 24, 28, 32, 36]),
    corrected=attempts("offsets", [1, 2, 3, 4, 5, 6, 7, 8, 9, 14]),
    residual=attempts("residual", [1, 1, 2, 2, 3, 3, 4, 5, 13, 15]),
    promoted="offsets",
    verdict="the residual loses <one> target & wins none",
    offsets_rad={"shoulder_pan": 0.0349, "shoulder_lift": -0.0384},
    offset_std_rad={"shoulder_pan": 0.002, "shoulder_lift": 0.003},
    interventions=(2, 1),
    ticks=1000,
    missed=1,
    rate_error=2e-5,
    times=(StageTime(stage="training", seconds=120.5), StageTime(stage="zero-shot <arm>", seconds=30.25)),
)


def identified() -> Identified:
    def estimate(value: float, half: float, identifiable: bool = True) -> Estimate:
        return Estimate(value=value, lower=value - half, upper=value + half, std=half / 1.96, identifiable=identifiable)

    return Identified(
        robot="so101",
        log_id="0" * 64,
        physics_dt_s=0.005,
        friction_scale=estimate(1.45, 0.1),
        gain_scale=estimate(0.9, 0.05),
        payload_kg=estimate(0.07, 0.05, identifiable=False),
        latency_s=estimate(0.0345, 0.001),
        payload_per_gain=estimate(0.125, 0.004),
        heldout=(JointError(joint="elbow_flex", before_rad=0.02, after_rad=0.005),),
        train_rmse_rad=0.004,
        heldout_before_rad=0.02,
        heldout_after_rad=0.005,
    )


def record(path: Path, *, operator: bool) -> None:
    """Three attempts of a slow policy on a first-order arm, written by the session's own recorder."""
    clock = FakeClock()
    robot = FakeRobot(clock)

    def advance(dt: float) -> None:
        clock.time_ns += round(dt * 1e9)

    def see() -> np.ndarray:
        index = [SPEC.joint_names.index(name) for name in CHAIN.joint_names]
        return tip_position(CHAIN, robot.joint_pos[index])

    with LockstepSession(robot, [ReachPolicy(gain=0.3)], advance, log_path=path) as session:
        session.arm()
        for target in TARGETS:
            session.run_episode(
                target, 8.0, operator=(lambda view: ScriptedOperator(view, see=see)) if operator else None
            )
