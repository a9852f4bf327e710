"""A policy bound to a robot by joint names: robot order in, robot order out, failures as one error."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from isthmus.hardware.errors import IsthmusError
from isthmus.hardware.interface import JointState, Robot
from isthmus.policies.episode import Further
from isthmus.policies.policy import InPlacePolicy, Policy

OF_JOINTS = ("joint_pos", "joint_vel", "joint_target")
COMMAND_WIDTH = 3  # numbers of a command, at most


class BindingError(IsthmusError, ValueError):
    """A policy does not fit the robot or the runtime."""


class PolicyFault(Exception):
    """A policy failed, or proposed values that are not finite."""


@dataclass(frozen=True, kw_only=True)
class Body:
    """What a policy must know of a robot to be bound to it."""

    name: str
    joint_names: tuple[str, ...]
    senses: Mapping[str, int]  # signals beyond those of joints, and their widths


def body_of(robot: Robot) -> Body:
    """A robot's body."""
    return Body(name=robot.spec.name, joint_names=robot.spec.joint_names, senses=robot.senses)


class _InPlace:
    """Any other policy as one that stays in place."""

    def __init__(self, policy: Policy) -> None:
        n, a = len(policy.joint_names), policy.num_actions
        self._policy = policy
        self.inputs = {name: np.zeros(n) for name in OF_JOINTS} | {"command.target": np.zeros(3)}
        self.outputs = {
            "base_action": np.zeros(a), "residual_action": np.zeros(a), "gate_prob": np.zeros(1), "gate": np.zeros(1),
        }  # fmt: skip

    def step(self, signals: Mapping[str, np.ndarray]) -> np.ndarray:
        """See InPlacePolicy."""
        out = self._policy.act(signals)
        for name, values in self.outputs.items():
            values[:] = getattr(out, name)
        return out.joint_target


class BoundPolicy:
    """Calls a policy with signals in its own joint order and keeps its last proposal in robot order, in preallocated arrays."""

    def __init__(
        self, policy: Policy, body: Body, period_ns: int, num_actions: int, told: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Bind by name.

        Args:
            policy: to be called.
            body: of the robot whose signals it sees.
            period_ns: of the runtime; the policy's own is a whole number of those.
            num_actions: width of the action arrays, at least the policy's.
            told: where proposals go, by the names of a tick's fields; None: into arrays of its own.

        Raises:
            BindingError: joints or signals that the robot does not have, or a control period that does not fit.
        """
        self.policy = policy
        self._name = f"policy {policy.policy_id[:12]}"
        self._core = policy if isinstance(policy, InPlacePolicy) else _InPlace(policy)
        self._check_target()
        self._check_joints(body)
        self.every = self._ticks(period_ns)
        indices = np.array([body.joint_names.index(name) for name in policy.joint_names])
        self._indices = indices
        self._in_order = bool((indices == np.arange(len(body.joint_names))).all()) and len(indices) == len(
            body.joint_names
        )
        inputs = self._core.inputs
        self._joints = [(inputs[name], name) for name in OF_JOINTS if name in inputs]
        self._commands = [values for name, values in inputs.items() if name.startswith("command.")]
        self._sensed = [(values, name) for name, values in inputs.items() if self._is_sensed(name, values, body)]
        widths = {"policy_target": len(body.joint_names), "base_action": num_actions, "residual_action": num_actions}
        told = {name: np.full(width, np.nan) for name, width in widths.items()} if told is None else told
        self.joint_target, self.base_action, self.residual_action = (told[name] for name in widths)
        self.gate_prob = self.gate = self.inference_us = 0.0
        self._proposed = False
        out = self._core.outputs
        self._base, self._residual, self._gate_prob, self._gate = (
            out[name] for name in ("base_action", "residual_action", "gate_prob", "gate")
        )
        self.parts = {name: values for name, values in out.items() if name.startswith("part.")}

    @property
    def part_widths(self) -> Further:
        """What it tells of its parts."""
        return tuple((name, len(values)) for name, values in self.parts.items())

    @property
    def proposed(self) -> bool:
        """Whether there is a proposal."""
        return self._proposed

    def reset(self) -> None:
        """Forget history."""
        self.clear()
        self.policy.reset()

    def clear(self) -> None:
        """Forget the last proposal."""
        self._proposed = False
        for array in (self.joint_target, self.base_action, self.residual_action):
            array.fill(np.nan)
        self.gate_prob = self.gate = self.inference_us = 0.0

    def act(self, state: JointState, executed: np.ndarray, command: np.ndarray) -> None:
        """Propose.

        Args:
            state: as read.
            executed: targets of the previous tick, (n,) rad, robot order.
            command: (3,), the policy's command first, in its unit.

        Raises:
            PolicyFault: says what the policy did. The last proposal is NaN then.
        """
        self._fill(state, executed, command)
        started = time.perf_counter_ns()
        try:
            proposal = self._core.step(self._core.inputs)
        except Exception as error:  # whatever a policy raises, the robot must hold and the cause be reported
            self.clear()
            raise PolicyFault(f"{self._name} failed: {type(error).__name__}: {error}") from error
        self.inference_us = (time.perf_counter_ns() - started) * 1e-3
        if proposal.shape != self._indices.shape or not math.isfinite(proposal.dot(proposal)):
            self.clear()
            raise PolicyFault(
                f"{self._name} proposed {proposal.tolist()}, expected {len(self._indices)} finite joint targets; "
                "run another policy, or retrain this one where it is asked to work"
            )
        if self._in_order:
            self.joint_target[:] = proposal
        else:
            self.joint_target[:] = executed
            self.joint_target[self._indices] = proposal
        self.base_action[: len(self._base)] = self._base
        self.residual_action[: len(self._residual)] = self._residual
        self.gate_prob, self.gate = float(self._gate_prob[0]), float(self._gate[0])
        self._proposed = True

    def _fill(self, state: JointState, executed: np.ndarray, command: np.ndarray) -> None:
        for row, name in self._joints:
            values = executed if name == "joint_target" else getattr(state, name)
            row[:] = values if self._in_order else values[self._indices]
        for row in self._commands:
            row[:] = command[: len(row)]
        for row, name in self._sensed:
            row[:] = state.signals[name]

    def _check_target(self) -> None:
        targets = [name for name in self._core.outputs if name.endswith("_next")]
        if targets not in ([], ["joint_target_next"]):
            raise BindingError(
                f"{self._name} gives {targets}; this runtime drives robots by joint positions only (joint_target_next)"
            )

    def _check_joints(self, body: Body) -> None:
        names = body.joint_names
        missing = [name for name in self.policy.joint_names if name not in names]
        if missing:
            raise BindingError(
                f"{self._name} has joints {missing} that robot {body.name!r} lacks (it has {list(names)})"
            )

    def _ticks(self, period_ns: int) -> int:
        """Ticks of the runtime for each of the policy's."""
        every, rest = divmod(self.policy.period_ns, period_ns)
        if every < 1 or rest:
            raise BindingError(
                f"{self._name} wants a period of {self.policy.period_ns} ns, the runtime has {period_ns} ns; "
                "use one period, or a runtime whose period goes into the policy's a whole number of times"
            )
        return every

    def _is_sensed(self, name: str, values: np.ndarray, body: Body) -> bool:
        """Whether the robot's driver must give this signal; raises BindingError where nobody gives it."""
        if name in OF_JOINTS:
            return False
        if name.startswith("command."):
            if len(values) > COMMAND_WIDTH:
                raise BindingError(
                    f"{self._name} wants {len(values)} numbers of {name}, at most {COMMAND_WIDTH} can be given"
                )
            return False
        if body.senses.get(name) != len(values):
            known = ", ".join([*OF_JOINTS, *body.senses])
            raise BindingError(
                f"{self._name} needs the signal {name!r} ({len(values)} values), which {body.name!r} does not give (but {known}); "
                "use a robot with that sensor, or train without it"
            )
        return True


def further_fields(body: Body, policies: Sequence[BoundPolicy]) -> Further:
    """What a tick of this robot and these policies holds besides its usual fields."""
    widths = dict(body.senses)
    for policy in policies:
        for name, width in policy.part_widths:
            widths[name] = max(width, widths.get(name, 0))
    return tuple(widths.items())
