"""motrix-deploy's own HardwareRuntime, ControlSession and PolicyController, on a robot of its interface.

Its tasks are a package that is not published; the one here builds the observation as plainly as numpy allows.
"""

import importlib.metadata
import sys
import time

import numpy as np

from .peer import ACTION_SCALE, DEFAULT, EFFORT, KD, KP, LOWER, NAMES, UPPER, Job, Joints, f32

N = len(NAMES)
FIELDS = ("joint_position", "joint_velocity", "base_orientation_xyzw", "base_angular_velocity")


def robot_of(joints: Joints):  # noqa: ANN201
    """A robot of motrix-deploy's interface."""
    from motrix_deploy.contracts import (  # pyright: ignore[reportMissingImports]
        HealthStatus,
        JointControlMode,
        RobotCapabilities,
        RobotSpec,
        RobotState,
    )
    from motrix_deploy.robot.interface import RobotInterface  # pyright: ignore[reportMissingImports]

    level, zero = f32([0, 0, 0, 1]), np.zeros(3, np.float32)

    class Robot(RobotInterface):
        spec = RobotSpec(
            base_link_name="base",
            joint_names=NAMES,
            default_joint_position=DEFAULT,
            position_lower=LOWER,
            position_upper=UPPER,
            torque_limit=np.full(N, EFFORT, np.float32),
        )
        capabilities = RobotCapabilities(control_modes=(JointControlMode.SERVO,), state_fields=frozenset(FIELDS))
        _heard_ns = 0

        def open(self) -> None: ...

        def read_state(self, timeout_s: float) -> RobotState:
            joints.read()
            now = self._heard_ns = time.monotonic_ns()
            return RobotState(now, now, joints.position, joints.velocity, level, zero, zero)

        def write_command(self, command) -> None:  # noqa: ANN001
            joints.write(command.joint_position)

        def health(self) -> HealthStatus:
            return HealthStatus(True, "", self._heard_ns)

        def stop(self) -> None: ...

        def close(self) -> None: ...

    return Robot()


def processor():  # noqa: ANN201
    """Observation and command of a policy in motrix-deploy's terms."""
    from motrix_deploy.contracts import JointServoCommand  # pyright: ignore[reportMissingImports]
    from motrix_deploy.policy.processing import PolicyProcessor  # pyright: ignore[reportMissingImports]

    class Processor(PolicyProcessor):
        def __init__(self) -> None:
            self.last, self.zero = np.zeros(N, np.float32), np.zeros(N, np.float32)
            self.kp, self.kd = np.full(N, KP, np.float32), np.full(N, KD, np.float32)

        def reset(self, state, context) -> None: ...  # noqa: ANN001

        def build_observation(self, state, context) -> np.ndarray:  # noqa: ANN001
            x, y, z, w = state.base_orientation_xyzw
            down = -f32([2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)])
            command = f32([0.5, 0.0, 0.0])
            joints = (state.joint_position - DEFAULT, np.float32(0.05) * state.joint_velocity)
            return np.concatenate([state.base_angular_velocity, down, command, *joints, self.last])

        def process_action(self, action: np.ndarray) -> JointServoCommand:
            self.last = action
            target = np.clip(DEFAULT + np.float32(ACTION_SCALE) * action, LOWER, UPPER)
            return JointServoCommand(target, self.zero, self.zero, self.kp, self.kd)

        def validate_command(self, command: object) -> None: ...

    return Processor()


def main(job: Job) -> None:
    """Run it."""
    from motrix_deploy.contracts import TensorSpec  # pyright: ignore[reportMissingImports]
    from motrix_deploy.policy import OnnxPolicy  # pyright: ignore[reportMissingImports]
    from motrix_deploy.runtime import (  # pyright: ignore[reportMissingImports]
        ControlSession,
        HardwareRuntime,
        PolicyController,
    )

    joints = Joints(job)
    robot = robot_of(joints)
    policy = OnnxPolicy(job.network, TensorSpec("actor_obs", (1, 9 + 3 * N)), TensorSpec("actions", (1, N)))
    session = ControlSession(
        robot=robot,
        controller=PolicyController(processor(), policy, steps=job.ticks),
        period_s=1.0 / job.rate_hz,
        state_timeout_s=0.5,
    )
    runtime = HardwareRuntime(robot)
    runtime.bind_session(session)
    result = runtime.run()
    stopped = "" if result.success else f"{result.exit_reason}: {result.error}"
    joints.save(f"motrix-deploy {importlib.metadata.version('motrix-deploy')}", stopped=stopped)


if __name__ == "__main__":
    main(Job.from_words(sys.argv))
