"""MuJoCo on the CPU, many environments on a thread pool (`mujoco.batch`). Same seed, same bits at any thread count."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch

from isthmus.hardware.robot import RobotSpec

from .engine import ENGINE_PARAMETERS


def load_model(robot: RobotSpec, dt: float) -> mujoco.MjModel:
    """The robot's MJCF with a payload body of no mass at the tip site, at physics step `dt` s."""
    spec = mujoco.MjSpec.from_file(str(robot.model_path))
    spec.option.timestep = dt
    site = spec.site(robot.reach_site())
    payload = site.parent.add_body(name="payload", pos=site.pos)
    payload.ipos = [0.0, 0.0, 0.0]  # else the compiler puts it at pos once more
    payload.mass, payload.inertia, payload.explicitinertial = 1e-9, [1e-12] * 3, True
    return spec.compile()


class MujocoEngine:
    """Engine on `mujoco.batch.Batch`."""

    def __init__(self, robot: RobotSpec, num_envs: int, *, dt: float = 0.005, threads: int = 0) -> None:
        """Args: threads: engine threads, 0 = all cores."""
        self.robot, self.num_envs, self.dt = robot, num_envs, dt
        self.device = torch.device("cpu")
        self.model = load_model(robot, dt)
        self.batch = Batch(self.model, num_envs, threads)
        joints = [self.model.joint(name) for name in robot.joint_names]
        self._dofs = np.array([int(joint.dofadr[0]) for joint in joints])
        if not np.array_equal(self._dofs, np.arange(self.model.nv)) or self.model.nq != self.model.nv:
            raise ValueError(
                f"{robot.model_path}: hinges must come in robot order, one per joint of {robot.joint_names}"
            )
        self._pos = torch.from_numpy(self.batch.bind("qpos"))
        self._vel = torch.from_numpy(self.batch.bind("qvel"))
        self._effort = torch.from_numpy(self.batch.bind("ctrl"))
        self._payload = self.model.body("payload").id

    def joint_pos(self) -> torch.Tensor:
        """See Engine."""
        return self._pos.float()

    def joint_vel(self) -> torch.Tensor:
        """See Engine."""
        return self._vel.float()

    def step(self, effort: torch.Tensor) -> None:
        """See Engine."""
        self._effort.copy_(effort)
        self.batch.step()

    def reset(self, ids: torch.Tensor, joint_pos: torch.Tensor, joint_vel: torch.Tensor) -> None:
        """See Engine."""
        if ids.numel() == 0:
            return
        self.batch.reset(ids.numpy(), stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._pos[ids] = joint_pos.double()
        self._vel[ids] = joint_vel.double()
        self.batch.warning[ids.numpy()] = 0

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine."""
        if name not in ENGINE_PARAMETERS:
            raise KeyError(f"unknown engine parameter {name!r}; known: {', '.join(ENGINE_PARAMETERS)}")
        rows = ids.numpy()
        if rows.size == 0:
            return
        scale = values.double().numpy()
        if name == "friction_scale":
            for field in ("dof_frictionloss", "dof_damping"):
                self.batch.expand(field)[rows] = getattr(self.model, field) * scale[:, None]
            return
        if name == "armature_scale":
            self.batch.expand("dof_armature")[rows] = self.model.dof_armature * scale[:, None]
        elif name == "payload_kg":
            self.batch.expand("body_mass")[rows, self._payload] = scale + 1e-9
        else:
            mass = self.batch.expand("body_mass")
            payload = mass[rows, self._payload]
            mass[rows] = self.model.body_mass * scale[:, None]
            mass[rows, self._payload] = payload
            self.batch.expand("body_inertia")[rows] = self.model.body_inertia * scale[:, None, None]
        self.batch.set_const(rows)

    def failed(self) -> torch.Tensor:
        """See Engine."""
        warned = (self.batch.warning.reshape(self.num_envs, -1) != 0).any(axis=-1)
        return torch.from_numpy(warned) | ~torch.isfinite(self._pos).all(-1) | ~torch.isfinite(self._vel).all(-1)
