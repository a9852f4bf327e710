"""Many differently parametrised copies of a robot follow one log of targets, in one `mujoco.batch` rollout.

The servo law is the one of the simulator: torque = clip(gain kp (target - q) - kd qd, +-effort limit) at each physics
step, the target delayed by a time that need not be a multiple of the step. It is expressed as MuJoCo's affine actuator,
so a whole rollout is one call in float64. MuJoCo integrates the kd term implicitly; with kd = 0 both are the same to
rounding.

An Euler step moves a joint with the velocity at the end of the step: it answers half a step early. Targets are delayed by
that half step, so that `latency_s` is the machine's and not the integrator's.
"""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np
from mujoco.batch import Batch

from isthmus.hardware.robot import RobotSpec
from isthmus.sim.mujoco_scene import build_model
from isthmus.sim.scene import Scene

PARAMETERS = ("friction_scale", "gain_scale", "payload_kg", "latency_s")  # names of the simulator
NOMINAL = np.array([1.0, 1.0, 0.0, 0.0])  # the model as it is written, in the order of PARAMETERS


@dataclass(frozen=True)
class Targets:
    """Joint targets as a staircase in time: `joint_target[k]` is sent at `written_s[k]`."""

    written_s: np.ndarray  # (T,) s
    joint_target: np.ndarray  # (T, n) rad

    @cached_property
    def _integral(self) -> np.ndarray:
        held = np.diff(self.written_s)[:, None] * self.joint_target[:-1]
        return np.concatenate([np.zeros((1, held.shape[1])), np.cumsum(held, axis=0)])

    def mean_between(self, edges_s: np.ndarray) -> np.ndarray:
        """Mean over each interval: edges_s (K+1,) s -> (K, n) rad. The first target holds before its time, too."""
        index = np.clip(np.searchsorted(self.written_s, edges_s, side="right") - 1, 0, None)
        since = edges_s - self.written_s[index]
        integral = self._integral[index] + since[:, None] * self.joint_target[index]
        return np.diff(integral, axis=0) / np.diff(edges_s)[:, None]


class ServoRollout:
    """Batched open-loop replay of joint targets on a robot's model."""

    def __init__(self, robot: RobotSpec, *, physics_dt_s: float = 0.005) -> None:
        """Compile the model; raises ValueError where it has not one motor per joint."""
        self.robot = robot
        self.physics_dt_s = physics_dt_s
        self._model = servo_model(robot, physics_dt_s)
        self._qpos = np.array([self._model.joint(name).qposadr[0] for name in robot.joint_names])
        self._payload = self._model.body("payload").id
        self._batches: dict[int, Batch] = {}

    def __call__(
        self, parameters: np.ndarray, targets: Targets, start_pos: np.ndarray, times_s: np.ndarray
    ) -> np.ndarray:
        """Joint positions at given times.

        Args:
            parameters: (s, 4), columns in the order of PARAMETERS; one simulation a row.
            targets: what was commanded.
            start_pos: (n,) or (s, n) rad, at rest at `times_s[0]`.
            times_s: (T,) s, increasing.

        Returns:
            (s, T, n) rad, interpolated linearly between physics steps.
        """
        return self._run([targets] * len(parameters), parameters, start_pos, times_s)

    def shifted(
        self, parameters: np.ndarray, targets: Targets, shift: np.ndarray, start_pos: np.ndarray, times_s: np.ndarray
    ) -> np.ndarray:
        """As `__call__`, in arms whose encoders read `shift` (s, n) rad too much; returns what those encoders read."""
        each = [Targets(targets.written_s, targets.joint_target - row) for row in shift]
        return self._run(each, parameters, start_pos - shift, times_s) + shift[:, None, :]

    def _run(
        self, targets: list[Targets], parameters: np.ndarray, start_pos: np.ndarray, times_s: np.ndarray
    ) -> np.ndarray:
        steps = int(np.ceil((times_s[-1] - times_s[0]) / self.physics_dt_s))
        edges = times_s[0] + self.physics_dt_s * np.arange(steps + 1)
        lead = self.physics_dt_s / 2  # see the module's text
        control = np.stack([t.mean_between(edges - row[3] - lead) for t, row in zip(targets, parameters, strict=True)])
        batch = self._prepare(parameters)
        qpos, qvel = batch.bind("qpos"), batch.bind("qvel")
        qpos[:, self._qpos] = start_pos
        qvel[:] = 0.0
        record = batch.rollout(steps, control, mujoco.mjtState.mjSTATE_CTRL, ["qpos"])["qpos"][:, :, self._qpos]
        start = np.broadcast_to(start_pos, (len(parameters), record.shape[2]))[:, None, :]
        return _interpolate(np.concatenate([start, record], axis=1), edges, times_s)

    def _prepare(self, parameters: np.ndarray) -> Batch:
        """A reset batch with one simulation per row of parameters."""
        count = len(parameters)
        if count not in self._batches:
            self._batches[count] = Batch(self._model, count)
        batch, model = self._batches[count], self._model
        friction, gain, payload = parameters[:, 0], parameters[:, 1], parameters[:, 2]
        batch.reset(stage=mujoco.mjtStage.mjSTAGE_NONE)
        batch.expand("dof_frictionloss")[:] = friction[:, None] * model.dof_frictionloss
        batch.expand("dof_damping")[:] = friction[:, None] * model.dof_damping
        batch.expand("actuator_gainprm")[:, :, 0] = gain[:, None] * model.actuator_gainprm[:, 0]
        batch.expand("actuator_biasprm")[:, :, 1] = gain[:, None] * model.actuator_biasprm[:, 1]
        batch.expand("body_mass")[:, self._payload] = model.body_mass[self._payload] + payload
        batch.set_const()
        return batch


def servo_model(robot: RobotSpec, physics_dt_s: float) -> mujoco.MjModel:
    """The simulator's model (payload body at the tip) with position servos at the robot's gains.

    Raises:
        ValueError: the model has not one motor per joint.
    """
    model = build_model(Scene(robot=robot), physics_dt_s)
    joint_ids = model.actuator_trnid[:, 0].tolist()
    if joint_ids != [model.joint(name).id for name in robot.joint_names]:
        raise ValueError(f"{robot.model_path}: expected one motor per joint, in the order {robot.joint_names}")
    model.actuator_gainprm[:, 0] = robot.array("kp")
    model.actuator_biastype[:] = mujoco.mjtBias.mjBIAS_AFFINE
    model.actuator_biasprm[:, 1] = -robot.array("kp")
    model.actuator_biasprm[:, 2] = -robot.array("kd")
    model.actuator_forcelimited[:] = True
    model.actuator_forcerange[:] = robot.array("effort_limit")[:, None] * [-1.0, 1.0]
    return model


def _interpolate(values: np.ndarray, grid_s: np.ndarray, times_s: np.ndarray) -> np.ndarray:
    """Linear interpolation along axis 1. values (s, K, n) at an even grid (K,) -> (s, T, n) at times (T,)."""
    place = (times_s - grid_s[0]) / (grid_s[1] - grid_s[0])
    index = np.clip(place.astype(int), 0, len(grid_s) - 2)
    weight = (place - index)[None, :, None]
    return (1.0 - weight) * values[:, index] + weight * values[:, index + 1]
