"""Joint friction as a torque that stops, bounded by a budget: it slows and holds a joint, and never drives it."""

from dataclasses import dataclass, fields, replace

import torch

from isthmus.hardware.actuator_spec import FrictionSpec, per_joint

from .state import TensorState

_TORQUES = ("coulomb", "viscous", "stribeck", "load", "load_stribeck")  # fields that scale the friction


@dataclass(frozen=True, kw_only=True)
class FrictionParams:
    """Tensors that broadcast to (num_envs, n), as FrictionSpec."""

    coulomb: torch.Tensor  # N m
    viscous: torch.Tensor  # N m s/rad
    inertia: torch.Tensor  # kg m^2
    stribeck: torch.Tensor  # N m
    stribeck_speed: torch.Tensor  # rad/s
    stribeck_exponent: torch.Tensor  # 1
    load: torch.Tensor  # 1
    load_stribeck: torch.Tensor  # 1
    fades: bool  # whether any joint has a Stribeck term, which costs as much as all the rest


def friction_params(spec: FrictionSpec, num_joints: int, device: torch.device | None = None) -> FrictionParams:
    """The numbers of a file as tensors (n,)."""
    return FrictionParams(
        fades=any(value > 0 for value in (*spec.stribeck, *spec.load_stribeck)),
        **{
            field.name: torch.tensor(per_joint(getattr(spec, field.name), num_joints), device=device)
            for field in fields(FrictionSpec)
        },
    )


def friction_budget(joint_vel: torch.Tensor, gear_load: torch.Tensor, params: FrictionParams) -> torch.Tensor:
    """Most torque that friction can bring up.

    coulomb + viscous |qd| + load |gear_load| + exp(-|qd / stribeck_speed|^exponent) (stribeck + load_stribeck |gear_load|). The levels of
    BAM: M1 is the first two terms, M2 adds stribeck, M3 instead adds load, M4 has everything.

    Args:
        joint_vel: (..., n) rad/s.
        gear_load: (..., n) N m, torque that the gears carry: motor minus external, which oppose each other where a motor lifts a load.
        params: of the joints.

    Returns:
        (..., n) N m, not negative.
    """
    speed, load = joint_vel.abs(), gear_load.abs()
    lasting = params.coulomb + params.viscous * speed + params.load * load
    if not params.fades:
        return lasting
    at_rest = torch.exp(-((speed / params.stribeck_speed) ** params.stribeck_exponent))
    return lasting + at_rest * (params.stribeck + params.load_stribeck * load)


def friction_effort(
    motor_effort: torch.Tensor,
    external_effort: torch.Tensor | None,
    joint_vel: torch.Tensor,
    params: FrictionParams,
    dt: float,
) -> torch.Tensor:
    """Friction torque during the next physics step: what would stop the joint within it, clipped to the budget.

    An explicit step of v' = v + dt/J (motor + external + friction) is stable at any coefficient while `params.inertia` is at most J, what
    the joint really has: with J itself v' is the frictionless speed brought towards zero and never beyond, with less it takes some
    steps more to stop, and |v'| is never above both |v| and the frictionless speed. (A viscous torque -c v without the clip needs
    dt c < 2 J.)

    Args:
        motor_effort: (..., n) N m.
        external_effort: (..., n) N m from gravity, contact and the other joints; None: none acts. See `external_estimate`.
        joint_vel: (..., n) rad/s at the start of the step.
        params: of the joints.
        dt: physics step, s.

    Returns:
        (..., n) N m to be added to the motor's.
    """
    external = torch.zeros_like(motor_effort) if external_effort is None else external_effort
    budget = friction_budget(joint_vel, motor_effort - external, params)
    stopping = -(params.inertia * joint_vel / dt + motor_effort + external)
    return torch.clamp(stopping, -budget, budget)


def external_estimate(
    joint_vel: torch.Tensor,
    earlier_vel: torch.Tensor,
    applied_effort: torch.Tensor,
    params: FrictionParams,
    dt: float,
) -> torch.Tensor:
    """External torque of the last physics step, from how the joint's speed changed in it.

    With it friction holds a load that it knows nothing of. Hold and estimate together come to rest while `params.inertia` is less than
    4/3 of what the joint really has. Inertia that `params.inertia` leaves out counts as external: it loads the gears too.

    Args:
        joint_vel: (..., n) rad/s now.
        earlier_vel: (..., n) rad/s one physics step ago.
        applied_effort: (..., n) N m, motor and friction, during that step.
        params: of the joints.
        dt: physics step, s.

    Returns:
        (..., n) N m.
    """
    return params.inertia * (joint_vel - earlier_vel) / dt - applied_effort


class HeldFriction(TensorState):
    """Friction at the joints of all environments, with the memory that its estimate of the external torque needs."""

    _changing = ("_earlier_vel", "_applied", "_fresh", "_any_fresh")

    def __init__(self, params: FrictionParams, num_envs: int, dt: float) -> None:
        """Args: params: tensors (n,). dt: physics step, s."""
        self._nominal, self._params, self._dt = params, params, dt
        self._earlier_vel = torch.zeros(num_envs, len(params.coulomb), device=params.coulomb.device)
        self._applied = torch.zeros_like(self._earlier_vel)
        self._fresh = torch.ones(num_envs, 1, dtype=torch.bool, device=params.coulomb.device)
        self._any_fresh = True

    def scale(self, factor: torch.Tensor) -> None:
        """Multiply every torque of the friction by `factor` (num_envs, n)."""
        self._params = replace(self._nominal, **{name: getattr(self._nominal, name) * factor for name in _TORQUES})

    def reset(self, ids: torch.Tensor) -> None:
        """Forget what environments `ids` were loaded with."""
        self._fresh[ids] = True
        self._any_fresh = True

    def added_to(self, motor_effort: torch.Tensor, joint_vel: torch.Tensor) -> torch.Tensor:
        """Motor and friction torque for the next physics step, (num_envs, n) N m; call it once per step.

        Args:
            motor_effort: (num_envs, n) N m.
            joint_vel: (num_envs, n) rad/s.
        """
        external = external_estimate(joint_vel, self._earlier_vel, self._applied, self._params, self._dt)
        if self._any_fresh:  # nothing is known yet: as in balance, so that friction only slows
            external = torch.where(self._fresh, -motor_effort, external)
            self._fresh[:] = self._any_fresh = False
        applied = motor_effort + friction_effort(motor_effort, external, joint_vel, self._params, self._dt)
        self._earlier_vel.copy_(joint_vel)
        self._applied.copy_(applied)
        return applied
