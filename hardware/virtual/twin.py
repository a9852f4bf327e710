"""The physics twin: servos and arm of one specimen, in simulated time."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

from collections import deque
from dataclasses import dataclass

import mujoco
import numpy as np

from isthmus.hardware.robot import RobotSpec

from .hidden import HiddenParameters
from .servo_bus import ServoCommand, Telemetry
from .twin_model import TIMESTEP_S, build_model, play_name

REST_POSE = (0.0, -1.745, 1.69, 1.01, 0.0, 0.0)  # rad, folded, the jaw on the table; gravity finishes the job
SETTLE_STEPS = 5000
VELOCITY_FILTER_S = 0.012
AMBIENT_C = 30.0
HEAT_C_PER_S = 0.2  # at full torque
COOLING_S = 300.0
THERMAL_STEPS = 50
STALL_CURRENT = 415.0  # 2.7 A in the register's unit of 6.5 mA


class TwinError(RuntimeError):
    """A request that this arm cannot follow now."""


@dataclass(frozen=True, kw_only=True)
class TwinTruth:
    """Where the arm really is."""

    tip_pos: np.ndarray  # (3,) m, robot base frame
    joint_pos: np.ndarray  # (n,) rad, of the links
    motor_pos: np.ndarray  # (n,) rad, of the motors before the gear play
    time_s: float  # simulated


class Twin:
    """An arm whose servos run the firmware's position law in encoder counts.

    counts = middle + direction * (angle + offset) * counts_per_turn / 2 pi, rounded;
    torque = clip(kp * P / P_nominal * gain_scale * (goal - counts), +-effort_limit * torque limit register / 1000).
    """

    def __init__(self, spec: RobotSpec, hidden: HiddenParameters) -> None:
        self._spec, self._hidden = spec, hidden
        self._model = build_model(spec, hidden)
        self._data = mujoco.MjData(self._model)
        self._motor = np.array([self._qpos_address(name) for name in spec.joint_names])
        self._output = np.zeros((len(spec.joints), self._model.nq))  # qpos -> angle of the output shafts
        for index, name in enumerate(spec.joint_names):
            self._output[index, self._motor[index]] = 1.0
            if hidden.backlash_deg[name] > 0:
                self._output[index, self._qpos_address(play_name(name))] = 1.0
        self._init_encoders()
        self._init_servos()
        self._settle()

    def _qpos_address(self, joint: str) -> int:
        return int(self._model.joint(joint).qposadr[0])

    def _init_encoders(self) -> None:
        spec, n = self._spec, len(self._spec.joints)
        slope = spec.array("direction") * spec.counts_per_turn / (2 * np.pi)
        self._counts_per_qpos = slope[:, None] * self._output
        offset = self._hidden.per_joint("encoder_offset_deg", spec.joint_names)
        self._count_zero = spec.counts_per_turn / 2 + slope * offset
        self._rng = np.random.default_rng(self._hidden.seed)
        self._counts, self._previous, self._velocity, self._scratch = (np.zeros(n) for _ in range(4))

    def _init_servos(self) -> None:
        n = len(self._spec.joints)
        self._effort = self._spec.array("effort_limit")
        self._goal, self._gain, self._limit, self._torque = (np.zeros(n) for _ in range(4))
        self._torque_on = np.zeros(n, dtype=bool)
        self._temperature = np.full(n, AMBIENT_C)
        self._queue: deque[tuple[float, int, ServoCommand]] = deque()
        self._steps = 0
        self._guided = False

    def _settle(self) -> None:
        self._data.qpos[self._motor] = REST_POSE
        for _ in range(SETTLE_STEPS):
            mujoco.mj_step(self._model, self._data)
        self._data.time = 0.0
        self._data.qvel[:] = 0.0
        self._measure()
        self._previous[:] = self._counts
        self._velocity[:] = 0.0
        self._goal[:] = self._counts

    @property
    def time_s(self) -> float:
        """Simulated time."""
        return self._steps * TIMESTEP_S

    def command(self, index: int, command: ServoCommand, time_s: float) -> None:
        """Let a servo act on what was written at `time_s`, after its latency. Times must not decrease."""
        self._queue.append((time_s + self._hidden.latency_ms * 1e-3, index, command))

    def advance(self, steps: int) -> None:
        """Simulate `steps` time steps."""
        for _ in range(steps):
            while self._queue and self._queue[0][0] <= self.time_s + 1e-9:
                self._act(*self._queue.popleft()[1:])
            self._steps += 1
            if not self._guided:  # a held arm stands still
                self._drive()
                mujoco.mj_step(self._model, self._data)
            self._measure()
            if self._steps % THERMAL_STEPS == 0:
                self._heat()

    def _act(self, index: int, command: ServoCommand) -> None:
        joint = self._spec.joints[index]
        radians_per_count = joint.direction * 2 * np.pi / self._spec.counts_per_turn
        self._goal[index] = command.goal_counts
        self._gain[index] = joint.kp * command.p_gain / joint.p_gain * self._hidden.gain_scale * radians_per_count
        self._limit[index] = joint.effort_limit * command.torque_limit if command.torque_on else 0.0
        self._torque_on[index] = command.torque_on
        self._guided = self._guided and not command.torque_on

    def _drive(self) -> None:
        torque = self._torque
        np.subtract(self._goal, self._counts, out=torque)
        torque *= self._gain
        np.minimum(torque, self._limit, out=torque)
        np.negative(self._limit, out=self._scratch)
        np.maximum(torque, self._scratch, out=torque)
        self._data.ctrl[:] = torque

    def _measure(self) -> None:
        counts, scratch = self._counts, self._scratch
        self._previous[:] = counts
        np.dot(self._counts_per_qpos, self._data.qpos, out=counts)
        counts += self._count_zero
        if self._hidden.encoder_noise_counts > 0:
            counts += self._rng.normal(0.0, self._hidden.encoder_noise_counts, counts.shape)
        np.rint(counts, out=counts)
        np.subtract(counts, self._previous, out=scratch)
        scratch /= TIMESTEP_S
        scratch -= self._velocity
        scratch *= TIMESTEP_S / (VELOCITY_FILTER_S + TIMESTEP_S)
        self._velocity += scratch

    def _heat(self) -> None:
        dt = THERMAL_STEPS * TIMESTEP_S
        duty = np.abs(self._torque) / self._effort
        self._temperature += dt * (HEAT_C_PER_S * duty - (self._temperature - AMBIENT_C) / COOLING_S)

    def telemetry(self, index: int) -> Telemetry:
        """What a servo knows of itself now."""
        # The sign of a drive is the encoder's: positive drives the counts up.
        duty = self._spec.joints[index].direction * self._torque[index] / self._effort[index]
        return Telemetry(
            position=int(self._counts[index]),
            velocity=round(self._velocity[index]),
            load=round(1000 * duty),
            temperature=round(self._temperature[index]),
            current=round(STALL_CURRENT * abs(duty)),
        )

    def truth(self) -> TwinTruth:
        """Tip and links, free of every sensor."""
        mujoco.mj_kinematics(self._model, self._data)
        tip = self._data.site(self._spec.reach_site()).xpos.copy()
        qpos = self._data.qpos
        return TwinTruth(
            tip_pos=tip, joint_pos=self._output @ qpos, motor_pos=qpos[self._motor].copy(), time_s=self.time_s
        )

    def guide(self, joint_pos: np.ndarray) -> None:
        """A person takes the limp arm to a pose, shape (n,), rad, and holds it there until `release` or torque on.

        Raises:
            TwinError: a servo drives its joint, or the pose is not one of this arm.
        """
        spec = self._spec
        driven = [name for name, on in zip(spec.joint_names, self._torque_on, strict=True) if on]
        if driven:
            raise TwinError(
                f"nobody can guide the arm while torque is on ({', '.join(driven)}): switch torque off first"
            )
        if joint_pos.shape != (len(spec.joints),):
            raise TwinError(f"a pose has {len(spec.joints)} angles, got shape {joint_pos.shape}")
        for joint, angle in zip(spec.joints, joint_pos, strict=True):
            if not joint.lower <= angle <= joint.upper:
                raise TwinError(f"{joint.name} = {angle} rad lies outside its range {joint.lower} .. {joint.upper} rad")
        self._data.qpos[:] = 0.0
        self._data.qpos[self._motor] = joint_pos
        self._data.qvel[:] = 0.0
        self._torque[:] = 0.0
        self._guided = True
        self._measure()

    def release(self) -> None:
        """The person lets go."""
        self._guided = False
