"""holosoma-inference's own LocomotionPolicy and its `run`, on a robot of its interface; no joystick, no keyboard."""

import importlib.metadata
import sys
import types
from dataclasses import replace

import numpy as np

from .peer import ACTION_SCALE, DEFAULT, KD, KP, NAMES, Job, Joints, f32

N = len(NAMES)
TERMS = {
    "base_ang_vel": (3, 0.25),
    "projected_gravity": (3, 1.0),
    "command_lin_vel": (2, 1.0),
    "command_ang_vel": (1, 1.0),
    "dof_pos": (N, 1.0),
    "dof_vel": (N, 0.05),
    "actions": (N, 1.0),
}


class Interface:
    """The robot's interface as the policy uses it."""

    backend, kp_level = "bench", 1.0

    def __init__(self, joints: Joints) -> None:
        self._joints = joints
        self._before, self._between = f32([0, 0, 0, 1, 0, 0, 0]), np.zeros(6, np.float32)

    def update_config(self, config: object) -> None:
        """Gains: of no use here."""

    def get_low_state(self) -> np.ndarray:
        """Base position, orientation wxyz, joints, base velocity, rates, joint velocities: shape (1, 13 + 2 n)."""
        self._joints.read()
        parts = [self._before, self._joints.position, self._between, self._joints.velocity]
        return np.concatenate(parts)[None].astype(np.float64)

    def send_low_command(self, q: np.ndarray, *_: object, **__: object) -> None:
        """Follow q (n,)."""
        self._joints.write(q.astype(np.float32))


def made_policy(job: Job, joints: Joints):  # noqa: ANN201
    """The tool's policy for a small robot, told to start."""
    for unused in ("pinocchio", "wandb"):  # of motion tracking, and of downloads
        sys.modules.setdefault(unused, types.ModuleType(unused))
    from holosoma_inference.config.config_types.inference import InferenceConfig  # pyright: ignore
    from holosoma_inference.config.config_types.observation import ObservationConfig  # pyright: ignore
    from holosoma_inference.config.config_values import robot as robots  # pyright: ignore
    from holosoma_inference.config.config_values import task as tasks  # pyright: ignore
    from holosoma_inference.policies import base  # pyright: ignore
    from holosoma_inference.policies.locomotion import LocomotionPolicy  # pyright: ignore

    observation = ObservationConfig(
        obs_dict={"actor_obs": list(TERMS)},
        obs_dims={term: width for term, (width, _) in TERMS.items()},
        obs_scales={term: scale for term, (_, scale) in TERMS.items()},
        history_length_dict={"actor_obs": 1},
    )
    task = replace(tasks.locomotion, model_path=str(job.network), rl_rate=job.rate_hz, use_phase=False)
    task = replace(task, policy_action_scale=ACTION_SCALE, velocity_input="injected", state_input="injected")
    base.create_interface = lambda *_: Interface(joints)
    silent = types.SimpleNamespace(
        start=lambda: None, zero=lambda: None, poll_velocity=lambda: None, poll_commands=list
    )
    LocomotionPolicy._injected_velocity_input = LocomotionPolicy._injected_command_provider = silent
    policy = LocomotionPolicy(InferenceConfig(robot=small_robot(robots), observation=observation, task=task))
    policy.stand_command[0, 0] = 1
    policy._handle_start_policy()
    return policy


def small_robot(robots: types.ModuleType):  # noqa: ANN201
    """The tool's G1, cut down."""
    order, pose = tuple(range(N)), tuple(map(float, DEFAULT))
    return replace(
        robots.g1_29dof,
        robot_type="bench",
        robot="bench",
        num_motors=N,
        num_joints=N,
        default_dof_angles=pose,
        default_motor_angles=pose,
        motor2joint=order,
        joint2motor=order,
        dof_names=NAMES,
        dof_names_upper_body=(),
        dof_names_lower_body=NAMES,
        motor_kp=(KP,) * N,
        motor_kd=(KD,) * N,
        default_per_joint_action_scale=None,
        joint_offsets_deg=None,
    )


def main(job: Job) -> None:
    """Run it until the robot says that it is enough."""
    joints = Joints(job, endless=True)
    made_policy(job, joints).run()
    joints.save(f"holosoma-inference {importlib.metadata.version('holosoma-inference')}")


if __name__ == "__main__":
    main(Job.from_words(sys.argv))
