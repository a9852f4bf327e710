from collections.abc import Callable

import numpy as np
import pytest

from isthmus.calibration.excitation import excitation
from isthmus.calibration.log import JointLog
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.hardware.virtual.hidden import HiddenParameters, load_hidden
from isthmus.hardware.virtual.servo_bus import ServoCommand
from isthmus.hardware.virtual.twin import Twin

TwinLog = Callable[..., JointLog]


@pytest.fixture(scope="session")
def robot() -> RobotSpec:
    return load_robot("so101")


@pytest.fixture(scope="session")
def targets(robot: RobotSpec) -> np.ndarray:
    return excitation(robot, seed=0)


@pytest.fixture(scope="session")
def record(robot: RobotSpec, targets: np.ndarray) -> TwinLog:
    """Drives the virtual arm's twin (2 ms steps, gear play, 4096 counts, its own servo law) through the excitation."""

    def run(hidden: HiddenParameters | str, *, jitter: bool = False, write_s: float = 0.002) -> JointLog:
        twin = Twin(robot, load_hidden(hidden) if isinstance(hidden, str) else hidden)
        rng = np.random.default_rng(0)
        counts = 4096 / (2 * np.pi) * robot.array("direction")

        def write(pose: np.ndarray, time_s: float) -> None:
            for index, joint in enumerate(robot.joints):
                goal = round(2048 + counts[index] * pose[index])
                command = ServoCommand(goal_counts=goal, torque_on=True, p_gain=joint.p_gain, torque_limit=1.0)
                twin.command(index, command, time_s)

        def read() -> np.ndarray:
            return (np.array([twin.telemetry(i).position for i in range(len(robot.joints))]) - 2048) / counts

        start = read()
        for step in range(150):
            write(start + (targets[0] - start) * min(1.0, (step + 1) / 100), twin.time_s)
            twin.advance(10)
        time_s, joint_pos, written_s = [], [], []
        for pose in targets:
            time_s.append(twin.time_s)
            joint_pos.append(read())
            written_s.append(twin.time_s + write_s)
            write(pose, written_s[-1])
            twin.advance(10 + (int(rng.integers(-2, 3)) if jitter else 0))
        begin = time_s[0]
        return JointLog(
            time_s=np.array(time_s) - begin,
            joint_pos=np.array(joint_pos),
            joint_target=targets,
            written_s=np.array(written_s) - begin,
            joint_names=robot.joint_names,
        )

    return run


def random_hidden(seed: int, joint_names: tuple[str, ...]) -> HiddenParameters:
    """A specimen from anywhere in the ranges that the virtual arm allows."""
    rng = np.random.default_rng(seed)
    return HiddenParameters(
        seed=seed,
        payload_kg=rng.uniform(0.0, 0.15),
        friction_scale=rng.uniform(0.5, 2.0),
        gain_scale=rng.uniform(0.6, 1.4),
        latency_ms=rng.uniform(5.0, 40.0),
        backlash_deg={name: rng.uniform(0.0, 1.0) for name in joint_names},
        encoder_offset_deg={name: rng.uniform(-3.0, 3.0) for name in joint_names},
    )


@pytest.fixture(scope="session")
def specimen() -> Callable[[int, tuple[str, ...]], HiddenParameters]:
    return random_hidden
