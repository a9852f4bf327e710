"""MuJoCo on the CPU, many environments on a thread pool (`mujoco.batch`). Same seed, same bits at any thread count."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import math

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch

from .columns import Columns, columns
from .engine import ENGINE_PARAMETERS, EngineState, FreeState, unknown
from .mujoco_parameters import MujocoParameters
from .mujoco_scene import build_model
from .rendering import OffscreenRenderer, chase_camera, named_camera
from .rotations import rotate_inverse
from .scene import Scene


class MujocoEngine:
    """Engine on `mujoco.batch.Batch`."""

    def __init__(self, scene: Scene, num_envs: int, *, dt: float = 0.005, threads: int = 0) -> None:
        """Args: threads: engine threads, 0 = all cores."""
        self.scene, self.num_envs, self.dt = scene, num_envs, dt
        self.device = torch.device("cpu")
        self.model = build_model(scene, dt)
        self.batch = Batch(self.model, num_envs, threads)
        self.parameters = MujocoParameters(self.model, self.batch, scene)
        self._pos = torch.from_numpy(self.batch.bind("qpos"))
        self._vel = torch.from_numpy(self.batch.bind("qvel"))
        self._ctrl = self.batch.bind("ctrl")
        joints = [self.model.joint(name) for name in scene.robot.joint_names]
        self._qpos = columns([int(joint.qposadr[0]) for joint in joints])
        self._dof = columns([int(joint.dofadr[0]) for joint in joints])
        self._free = {name: self._free_index(name) for name in scene.free_bodies}
        self._contacts = len(scene.robot.contact_bodies)
        self._sensors = self.batch.bind("sensordata") if self._contacts else np.zeros((num_envs, 0))
        self._wrench = self.batch.bind("xfrc_applied") if scene.free_bodies else None
        self._acceleration = self.batch.bind("qacc") if scene.robot.floating else None
        self._reads_forces = self._contacts > 0 or scene.robot.floating
        self._servo: torch.Tensor | None = None  # (3, N, n) gains that the actuators have; None for plain efforts
        self._given: list[tuple[int, int | None]] = []  # which tensors they came in
        self._kept: tuple[torch.Tensor, ...] = ()
        self._gain, self._bias, self._range = (
            self.batch.expand(f"actuator_{name}") for name in ("gainprm", "biasprm", "forcerange")
        )
        self._record: dict[str, np.ndarray] = {}
        self._renderer: OffscreenRenderer | None = None
        self.batch.forward()

    def joint_pos(self) -> torch.Tensor:
        """See Engine."""
        return self._pos[:, self._qpos].float()

    def joint_vel(self) -> torch.Tensor:
        """See Engine."""
        return self._vel[:, self._dof].float()

    def free_state(self, name: str) -> FreeState:
        """See Engine."""
        q, v, _ = self._free_body(name)
        pos, vel = self._pos[:, q : q + 7].float(), self._vel[:, v : v + 6].float()
        return FreeState(pos=pos[:, :3], quat=pos[:, 3:], lin_vel=vel[:, :3], ang_vel=vel[:, 3:])

    def fixed_pos(self, name: str) -> torch.Tensor:
        """See Engine."""
        return torch.from_numpy(self.batch.expand("body_pos")[:, self._fixed_body(name)]).float()

    def contact_force(self) -> torch.Tensor:
        """See Engine."""
        count = 3 * self._contacts
        return torch.from_numpy(-self._sensors[:, :count].astype(np.float32)).view(self.num_envs, self._contacts, 3)

    def contact_pos(self) -> torch.Tensor:
        """See Engine."""
        count = 3 * self._contacts
        places = self._sensors[:, count : 2 * count].astype(np.float32)
        return torch.from_numpy(places).view(self.num_envs, self._contacts, 3)

    def specific_force(self) -> torch.Tensor:
        """See Engine."""
        if self._acceleration is None:
            raise unknown("floating base", self.scene.robot.name, ())
        _, v, _ = self._free["base"]
        world = torch.from_numpy(self._acceleration[:, v : v + 3].astype(np.float32)) - self.parameter("gravity_m_s2")
        return rotate_inverse(self.free_state("base").quat, world)

    def robot_mass(self) -> float:
        """See Engine."""
        return self.parameters.robot_mass()

    def rotor_frames(self) -> tuple[torch.Tensor, torch.Tensor]:
        """See Engine."""
        model, data = self.model, mujoco.MjData(self.model)
        mujoco.mj_forward(model, data)
        body = model.body(self.scene.robot.base_body).id
        turn = data.xmat[body].reshape(3, 3)
        sites = [model.site(rotor.site).id for rotor in self.scene.robot.rotors]
        arms = np.stack([turn.T @ (data.site_xpos[site] - data.xipos[body]) for site in sites])
        axes = np.stack([turn.T @ data.site_xmat[site].reshape(3, 3)[:, 2] for site in sites])
        return torch.from_numpy(arms).float(), torch.from_numpy(axes).float()

    def set_wrench(self, body: str, force: torch.Tensor, torque: torch.Tensor) -> None:
        """See Engine."""
        _, _, index = self._free_body(body)
        assert self._wrench is not None
        self._wrench[:, index, :3] = force.numpy()
        self._wrench[:, index, 3:] = torque.numpy()

    def add_velocity(self, body: str, change: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine."""
        _, v, _ = self._free_body(body)
        self._vel[ids, v : v + 3] += change.double()

    def step(self, effort: torch.Tensor) -> None:
        """See Engine."""
        if self._servo is not None:
            self._gain[:, :, 0], self._bias[:] = 1.0, 0.0
            self._range[:, :, 0], self._range[:, :, 1] = -1e9, 1e9
            self._servo = None
        self.parameters.flush()
        self._ctrl[:] = effort.numpy()
        self.batch.step()

    def step_servo(
        self, targets: torch.Tensor, kp: torch.Tensor, kd: torch.Tensor, effort_limit: torch.Tensor
    ) -> torch.Tensor:
        """See Engine. The law runs inside MuJoCo: its affine actuators are exactly it."""
        self._set_servo(kp, kd, effort_limit)
        self.parameters.flush()
        steps = targets.shape[1]
        record = self._record.get(str(steps))
        if record is None:
            record = self._record[str(steps)] = np.empty((self.num_envs, steps, self.model.nq))
        control = targets.double().numpy()
        self.batch.rollout(steps, control, int(mujoco.mjtState.mjSTATE_CTRL), record=("qpos",), out={"qpos": record})
        return torch.from_numpy(record)[:, :, self._qpos].float()

    def state(self) -> EngineState:
        """See Engine."""
        return EngineState(
            joint_pos=self.joint_pos(),
            joint_vel=self.joint_vel(),
            free={name: self.free_state(name) for name in self._free},
            fixed_pos={name: self.fixed_pos(name) for name in self.scene.fixed_objects},
        )

    def reset(self, ids: torch.Tensor, state: EngineState) -> None:
        """See Engine."""
        if ids.numel() == 0:
            return
        rows = ids.numpy()
        self.batch.reset(rows, stage=mujoco.mjtStage.mjSTAGE_NONE.value)
        self._pos[ids[:, None], _columns(self._qpos)] = state.joint_pos.double()
        self._vel[ids[:, None], _columns(self._dof)] = state.joint_vel.double()
        for name, (q, v, _) in self._free.items():
            free = state.free[name]
            self._pos[ids, q : q + 7] = torch.cat([free.pos, free.quat], dim=-1).double()
            self._vel[ids, v : v + 6] = torch.cat([free.lin_vel, free.ang_vel], dim=-1).double()
        for name, pos in state.fixed_pos.items():
            self.batch.expand("body_pos")[rows, self._fixed_body(name)] = pos.numpy()
        self.batch.warning[rows] = 0
        self.parameters.flush()
        if self._reads_forces:
            self.batch.forward(rows)  # contact forces and accelerations of the new state, not of the old one

    def save(self) -> dict[str, torch.Tensor]:
        """See Engine."""
        saved = {f"parameter.{name}": value.clone() for name, value in self.parameters.values.items()}
        saved["state"] = torch.from_numpy(self.batch.state.copy())
        saved["warning"] = torch.from_numpy(np.array(self.batch.warning))
        for name in self.scene.fixed_objects:
            saved[f"fixed_pos.{name}"] = self.fixed_pos(name)
        return saved

    def restore(self, saved: dict[str, torch.Tensor]) -> None:
        """See Engine."""
        every = torch.arange(self.num_envs)
        for name in ENGINE_PARAMETERS:
            self.parameters.set(name, saved[f"parameter.{name}"], every)
        for name in self.scene.fixed_objects:
            self.batch.expand("body_pos")[:, self._fixed_body(name)] = saved[f"fixed_pos.{name}"].numpy()
        self.parameters.flush()
        self.batch.state[:] = saved["state"].numpy()
        self.batch.forward()
        self.batch.state[:] = saved["state"].numpy()  # forward() warms the solver's start, which is state too
        self.batch.warning[:] = saved["warning"].numpy()

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine."""
        self.parameters.set(name, values, ids)

    def parameter(self, name: str) -> torch.Tensor:
        """See Engine."""
        return self.parameters.read(name)

    def failed(self) -> torch.Tensor:
        """See Engine."""
        finite = math.isfinite((self._pos.sum() + self._vel.sum()).item())
        if finite and not self.batch.warning.any():  # as nearly always; by environment it takes several times as long
            return torch.zeros(self.num_envs, dtype=torch.bool)
        warned = self.batch.warning.reshape(self.num_envs, -1).any(axis=-1)
        return torch.from_numpy(warned) | ~torch.isfinite(self._pos.sum(-1) + self._vel.sum(-1))

    def render(self, env: int, *, width: int = 640, height: int = 480, camera: str | None = None) -> np.ndarray:
        """See Engine. Needs EGL or OSMesa where there is no screen; raises RenderingError without them."""
        data = self.batch.get_data(env)
        mujoco.mj_forward(self.batch.get_model(env), data)
        if self._renderer is None or self._renderer.size != (width, height):
            self._renderer = OffscreenRenderer(self.model, width=width, height=height)
        if camera is not None:
            return self._renderer.draw(data, named_camera(self.model, camera))
        size = min(max(2.0 * float(self.model.stat.extent), 0.3), 2.0)
        return self._renderer.draw(data, chase_camera(data.body(self.scene.robot.base_body).xpos, size))

    def _set_servo(self, *gains: torch.Tensor) -> None:
        """Give the actuators gains (kp, kd, effort limit), (N, n) or (n,) each, in the environments where they changed."""
        given = [(id(gain), _version(gain)) for gain in gains]
        if self._servo is not None and given == self._given and None not in dict(given).values():
            return  # the very tensors, as nearly always
        now = torch.stack([gain.expand(self.num_envs, -1) for gain in gains])
        if self._servo is None:
            rows = np.arange(self.num_envs)
        else:
            rows = (now != self._servo).any(-1).any(0).nonzero().flatten().numpy()
        self._servo, self._given, self._kept = now, given, gains  # kept: an id is of one tensor while that is alive
        kp, kd, limit = now[:, rows].double().numpy()
        self._gain[rows, :, 0] = kp
        self._bias[rows, :, 1], self._bias[rows, :, 2] = -kp, -kd
        self._range[rows, :, 0], self._range[rows, :, 1] = -limit, limit

    def _free_index(self, name: str) -> tuple[int, int, int]:
        """Address in qpos, address in qvel, body id."""
        body = self.model.body(self.scene.robot.base_body if name == "base" else name)
        joint = self.model.joint(int(body.jntadr[0]))
        return int(joint.qposadr[0]), int(joint.dofadr[0]), int(body.id)

    def _free_body(self, name: str) -> tuple[int, int, int]:
        if name not in self._free:
            raise unknown("free body", name, tuple(self._free))
        return self._free[name]

    def _fixed_body(self, name: str) -> int:
        if name not in self.scene.fixed_objects:
            raise unknown("fixed object", name, self.scene.fixed_objects)
        return int(self.model.body(name).id)


def _version(tensor: torch.Tensor) -> int | None:
    """How often a tensor was changed in place; None where torch does not count."""
    return None if tensor.is_inference() else tensor._version


def _columns(index: Columns) -> torch.Tensor:
    return torch.arange(index.start, index.stop) if isinstance(index, slice) else torch.tensor(index, dtype=torch.long)
