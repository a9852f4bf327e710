"""Genesis: many environments on a CPU core or a GPU, in float32. Optional: `pip install 'isthmus[genesis]'`."""

# genesis builds much of itself at run time and ships no complete type stubs.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false, reportMissingImports=false

import numpy as np
import torch

from .actuators import position_servo_effort
from .engine import ENGINE_PARAMETERS, EngineState, FreeState, unknown
from .genesis_parameters import GenesisParameters
from .genesis_scene import GenesisScene, build_scene, start, view
from .mujoco_engine import MujocoEngine
from .rotations import rotate_inverse
from .scene import Scene


class GenesisEngine:
    """Engine on Genesis. All engines of a process run on one device."""

    def __init__(self, scene: Scene, num_envs: int, *, dt: float = 0.005, device: str = "cpu") -> None:
        """Args: device: "cpu" or "cuda"."""
        self.scene, self.num_envs, self.dt = scene, num_envs, dt
        self.device = start(device)
        built = build_scene(scene, num_envs, dt)
        self._genesis, self._solver = built.scene, built.scene.rigid_solver
        self._index(built)
        self._bind()
        self.parameters = GenesisParameters(built, scene, self._dof, self.device)
        self._start_pos = self._qpos[0].clone()
        self._failed = torch.zeros(num_envs, dtype=torch.bool, device=self.device)
        self._wrench = {name: torch.zeros(num_envs, 6, device=self.device) for name in scene.free_bodies}
        self._pushed: set[str] = set()  # bodies whose wrench may differ from zero
        self._picture: MujocoEngine | None = None

    def joint_pos(self) -> torch.Tensor:
        """See Engine."""
        return self._qpos[:, self._q]

    def joint_vel(self) -> torch.Tensor:
        """See Engine."""
        return self._vel[:, self._dof]

    def free_state(self, name: str) -> FreeState:
        """See Engine."""
        q, v, _ = self._free_body(name)
        pos, vel = self._qpos[:, q : q + 7].clone(), self._vel[:, v : v + 6].clone()
        return FreeState(pos=pos[:, :3], quat=pos[:, 3:], lin_vel=vel[:, :3], ang_vel=vel[:, 3:])

    def fixed_pos(self, name: str) -> torch.Tensor:
        """See Engine."""
        _, link, _ = self._fixed_object(name)
        return self._links_pos[:, link].clone()

    def contact_force(self) -> torch.Tensor:
        """See Engine."""
        return self._contact_force[:, self._contacts]

    def contact_pos(self) -> torch.Tensor:
        """See Engine."""
        return self._links_pos[:, self._contacts]

    def specific_force(self) -> torch.Tensor:
        """See Engine."""
        if not self.scene.robot.floating:
            raise unknown("floating base", self.scene.robot.name, ())
        _, v, _ = self._free["base"]
        world = self._acc[:, v : v + 3] - self._solver.get_gravity()
        return rotate_inverse(self.free_state("base").quat, world)

    def robot_mass(self) -> float:
        """See Engine."""
        return self.parameters.robot_mass()

    def rotor_frames(self) -> tuple[torch.Tensor, torch.Tensor]:
        """See Engine."""
        arms, axes = self._mujoco().rotor_frames()
        return arms.to(self.device), axes.to(self.device)

    def set_wrench(self, body: str, force: torch.Tensor, torque: torch.Tensor) -> None:
        """See Engine."""
        self._free_body(body)
        self._wrench[body][:, :3], self._wrench[body][:, 3:] = force, torque
        self._pushed.add(body)

    def add_velocity(self, body: str, change: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine."""
        _, v, _ = self._free_body(body)
        if ids.numel() == 0:
            return
        ids, dofs = ids.to(self.device), torch.arange(v, v + 3, device=self.device)
        self._solver.set_dofs_velocity(self._vel[ids, v : v + 3] + change, dofs, ids)

    def step(self, effort: torch.Tensor) -> None:
        """See Engine."""
        self.parameters.flush()
        self._failed |= self._error > 0
        self._error.zero_()  # else Genesis raises for all environments when one has failed
        for name in self._pushed:
            self._push(name)
        self._effort[:, self._dof] = effort
        self._genesis.step(update_visualizer=False)

    def step_servo(
        self, targets: torch.Tensor, kp: torch.Tensor, kd: torch.Tensor, effort_limit: torch.Tensor
    ) -> torch.Tensor:
        """See Engine."""
        after = torch.empty(targets.shape, device=self.device)
        for step in range(targets.shape[1]):
            self.step(
                position_servo_effort(
                    targets[:, step], self.joint_pos(), self.joint_vel(), kp=kp, kd=kd, effort_limit=effort_limit
                )
            )
            after[:, step] = self.joint_pos()
        return after

    def state(self) -> EngineState:
        """See Engine."""
        return EngineState(
            joint_pos=self.joint_pos(),
            joint_vel=self.joint_vel(),
            free={name: self.free_state(name) for name in self._free},
            fixed_pos={name: self.fixed_pos(name) for name in self._fixed},
        )

    def reset(self, ids: torch.Tensor, state: EngineState) -> None:
        """See Engine."""
        if ids.numel() == 0:
            return
        ids = ids.to(self.device)
        self.parameters.flush()
        pos = self._start_pos.repeat(len(ids), 1)
        vel = torch.zeros(len(ids), self._vel.shape[1], device=self.device)
        pos[:, self._q], vel[:, self._dof] = state.joint_pos.to(self.device), state.joint_vel.to(self.device)
        for name, (q, v, _) in self._free.items():
            free = state.free[name]
            pos[:, q : q + 7] = torch.cat([free.pos, free.quat], dim=-1)
            vel[:, v : v + 6] = torch.cat([free.lin_vel, free.ang_vel], dim=-1)
        for name, fixed in state.fixed_pos.items():
            self._place(name, fixed.to(self.device), ids)
        self._put(ids, pos, vel)
        self._acc[ids] = 0.0
        self._failed[ids] = False
        for wrench in self._wrench.values():
            wrench[ids] = 0.0

    def save(self) -> dict[str, torch.Tensor]:
        """See Engine."""
        self.parameters.flush()
        saved = {f"parameter.{name}": value.clone() for name, value in self.parameters.values.items()}
        saved |= {f"wrench.{name}": value.clone() for name, value in self._wrench.items()}
        saved |= {f"fixed_pos.{name}": self.fixed_pos(name) for name in self._fixed}
        saved |= {f"genesis.{name}": memory.clone() for name, memory in self._memory.items()}
        return saved | {"qpos": self._qpos.clone(), "vel": self._vel.clone(), "failed": self._failed.clone()}

    def restore(self, saved: dict[str, torch.Tensor]) -> None:
        """See Engine."""
        every = torch.arange(self.num_envs, device=self.device)
        for name in ENGINE_PARAMETERS:
            self.parameters.set(name, saved[f"parameter.{name}"], every)
        self.parameters.flush()
        for name in self._fixed:
            self._place(name, saved[f"fixed_pos.{name}"], every)
        self._put(every, saved["qpos"], saved["vel"])
        for name, memory in self._memory.items():
            memory.copy_(saved[f"genesis.{name}"])
        self._failed.copy_(saved["failed"])
        for name, wrench in self._wrench.items():
            wrench.copy_(saved[f"wrench.{name}"])
        self._pushed = set(self._wrench)

    def set_parameter(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine."""
        self.parameters.set(name, values, ids)

    def parameter(self, name: str) -> torch.Tensor:
        """See Engine."""
        return self.parameters.read(name)

    def failed(self) -> torch.Tensor:
        """See Engine."""
        return self._failed | (self._error > 0) | ~torch.isfinite(self._qpos.sum(-1) + self._vel.sum(-1))

    def render(self, env: int, *, width: int = 640, height: int = 480, camera: str | None = None) -> np.ndarray:
        """See Engine. MuJoCo draws the state of this engine, with the cameras of the model."""
        row = slice(env, env + 1)
        state = EngineState(
            joint_pos=self.joint_pos()[row].cpu(),
            joint_vel=self.joint_vel()[row].cpu(),
            free={name: _row(self.free_state(name), row) for name in self._free},
            fixed_pos={name: self.fixed_pos(name)[row].cpu() for name in self._fixed},
        )
        picture = self._mujoco()
        picture.reset(torch.zeros(1, dtype=torch.long), state)
        return picture.render(0, width=width, height=height, camera=camera)

    def _mujoco(self) -> MujocoEngine:
        """The same scene in MuJoCo, once: for pictures, and for what Genesis does not know, such as sites."""
        if self._picture is None:
            self._picture = MujocoEngine(self.scene, 1, dt=self.dt, threads=1)
        return self._picture

    def _index(self, built: GenesisScene) -> None:
        """Where joints, bodies and objects are in the solver's arrays."""
        robot, spec = built.robot, self.scene.robot
        joints = [robot.get_joint(name) for name in spec.joint_names]
        self._q = torch.tensor([robot.q_start + joint.qs_idx_local[0] for joint in joints], device=self.device)
        self._dof = torch.tensor([robot.dof_start + joint.dofs_idx_local[0] for joint in joints], device=self.device)
        self._q, self._dof = self._q.long(), self._dof.long()
        contacts = [robot.get_link(name).idx for name in spec.contact_bodies]
        self._contacts = torch.tensor(contacts, dtype=torch.long, device=self.device)
        bodies = {"base": robot.get_link(spec.base_body)} if spec.floating else {}
        bodies |= {item.name: built.objects[item.name].base_link for item in self.scene.objects if item.free}
        self._free = {name: (link.q_start, link.dof_start, link.idx) for name, link in bodies.items()}
        self._fixed = {}
        for name in self.scene.fixed_objects:  # the root of its file, which moves the body, and the body
            root, body = built.objects[name].base_link.idx, built.objects[name].links[1].idx
            pos = self._solver.get_links_pos([root, body])[0]
            self._fixed[name] = (root, body, pos[1] - pos[0])

    def _bind(self) -> None:
        """Views of the solver's arrays, environments first: live, and shared with Genesis."""
        solver, constraint = self._solver, self._solver.constraint_solver.constraint_state
        dofs, links = solver.dyn_state.dofs, solver.dyn_state.links
        self._qpos, self._vel, self._acc, self._effort = map(
            view, (solver.rigid_info.qpos, dofs.vel, dofs.acc, dofs.ctrl_force)
        )
        self._links_pos, self._contact_force = view(links.pos), view(links.contact_force)
        self._error = view(solver._errno)
        collider = solver.collider.collider_state
        self._memory = {  # what a step leaves behind for the next one and for readers, beside positions and velocities
            "acc": self._acc,
            "contact_force": self._contact_force,
            "inertia": view(links.cinr_inertial),  # follows from positions, but rounded elsewise within a step
            "warm_acc": view(constraint.qacc_ws),
            "warm": view(constraint.is_warmstart),
            "contact_normal": view(collider.contact_cache.normal),
            "contact_depth": view(collider.contact_cache.penetration),
            "sorted_link": view(collider.sort_buffer.i_l),
            "sorted_end": view(collider.sort_buffer.is_max),
            "unsorted": view(collider.first_time),
        }

    def _push(self, name: str) -> None:
        """Apply a free body's wrench for one step, which is how long Genesis keeps it."""
        from genesis import link_ref_frame

        force, torque = self._wrench[name][:, None].split(3, dim=-1)
        self._solver.apply_links_external_wrench(
            force.contiguous(), torque.contiguous(), [self._free[name][2]], ref=link_ref_frame.link_COM
        )

    def _put(self, ids: torch.Tensor, pos: torch.Tensor, vel: torch.Tensor) -> None:
        """Positions and velocities of all degrees of freedom; ends warm starts and contacts of before."""
        self._solver.set_qpos(pos, envs_idx=ids)
        self._solver.set_dofs_velocity(vel, envs_idx=ids)
        self._solver.collider.reset(ids, cache_only=False)

    def _place(self, name: str, pos: torch.Tensor, ids: torch.Tensor) -> None:
        root, _, offset = self._fixed_object(name)
        self._solver.set_base_links_pos((pos - offset)[:, None], [root], ids)

    def _free_body(self, name: str) -> tuple[int, int, int]:
        """First index among positions, among degrees of freedom, and the link's."""
        if name not in self._free:
            raise unknown("free body", name, tuple(self._free))
        return self._free[name]

    def _fixed_object(self, name: str) -> tuple[int, int, torch.Tensor]:
        if name not in self._fixed:
            raise unknown("fixed object", name, tuple(self._fixed))
        return self._fixed[name]


def _row(free: FreeState, row: slice) -> FreeState:
    return FreeState(
        pos=free.pos[row].cpu(),
        quat=free.quat[row].cpu(),
        lin_vel=free.lin_vel[row].cpu(),
        ang_vel=free.ang_vel[row].cpu(),
    )
