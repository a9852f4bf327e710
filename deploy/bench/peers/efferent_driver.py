"""efferent's own Runner with soft start and clamps, on a backend of its protocol."""

import importlib.metadata
import sys

import numpy as np

from .peer import ACTION_SCALE, DEFAULT, EFFORT, KD, KP, LOWER, NAMES, UPPER, Job, Joints, f32

COMMAND = ["vel_x", "vel_y", "yaw_rate"]


class Backend:
    """The backend protocol, in real time."""

    advances_time = False

    def __init__(self, joints: Joints) -> None:
        from efferent.types import RobotState  # pyright: ignore[reportMissingImports]

        self._joints, self._state = joints, RobotState
        self._still = {"quat": f32([1, 0, 0, 0]), "gyro": np.zeros(3, np.float32)}

    def connect(self, descriptor: object) -> None:
        """Nothing to connect to."""

    def read(self) -> object:
        """A snapshot."""
        self._joints.read()
        return self._state(self._joints.position, self._joints.velocity, **self._still)

    def write(self, command) -> None:  # noqa: ANN001
        """Follow the command's positions."""
        self._joints.write(command.q_des)

    def estop(self) -> None:
        """Nothing to stop."""

    def close(self) -> None:
        """Nothing to close."""


def main(job: Job) -> None:
    """Run it."""
    from efferent.runtime.loop import Runner  # pyright: ignore[reportMissingImports]
    from efferent.runtime.policy import PolicySession  # pyright: ignore[reportMissingImports]
    from efferent.spec.binding import Binding  # pyright: ignore[reportMissingImports]
    from efferent.types import Command  # pyright: ignore[reportMissingImports]

    manifest, robot = specification(job)
    joints = Joints(job)
    command = Command(names=COMMAND, values=f32([0.5, 0.0, 0.0]))
    session = PolicySession(manifest, job.network, job.network.parent)
    runner = Runner(Binding(manifest, robot), session, Backend(joints), lambda _: command)
    result = runner.run((job.ticks + 0.5) / job.rate_hz, soft_start=False)
    joints.save(f"efferent {importlib.metadata.version('efferent')}", stopped=result.estop_reason)


def specification(job: Job) -> tuple:
    """Manifest and robot as efferent wants them."""
    from efferent.spec.descriptor import RobotDescriptor  # pyright: ignore[reportMissingImports]
    from efferent.spec.manifest import PolicyManifest  # pyright: ignore[reportMissingImports]

    terms = [
        *(
            {"term": "base_ang_vel", "scale": 0.25},
            {"term": "projected_gravity"},
            {"term": "command", "names": COMMAND},
        ),
        *({"term": "joint_pos_rel"}, {"term": "joint_vel", "scale": 0.05}, {"term": "last_action"}),
    ]
    control = {
        "rate_hz": job.rate_hz,
        "action_type": "joint_position_delta",
        "action_scale": ACTION_SCALE,
        "gains": {"kp": KP, "kd": KD},
        "max_action_rate": 0.5,
    }
    policy = {"file": job.network.name, "input": "actor_obs", "output": "actions"}
    joints = [{"name": name, "default": float(default)} for name, default in zip(NAMES, DEFAULT, strict=True)]
    limits = [
        {"name": name, "pos_limit": (float(low), float(high)), "torque_limit": EFFORT}
        for name, low, high in zip(NAMES, LOWER, UPPER, strict=True)
    ]
    manifest = {"name": "bench", "policy": policy, "control": control, "observation": terms, "joints": joints}
    robot = {"robot": "bench", "backend": {"id": "bench"}, "joints": limits}
    return PolicyManifest.model_validate(manifest), RobotDescriptor.model_validate(robot)


if __name__ == "__main__":
    main(Job.from_words(sys.argv))
