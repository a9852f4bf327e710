"""ENGINE_PARAMETERS as arrays of Genesis, one value per environment."""

# genesis builds much of itself at run time and ships no complete type stubs.
# pyright: reportAttributeAccessIssue=false, reportArgumentType=false, reportOptionalMemberAccess=false, reportMissingImports=false

import torch

from .engine import ENGINE_PARAMETERS, ParameterError, check_parameter
from .genesis_scene import PAYLOAD, GenesisScene
from .scene import Scene

_INERTIAL = ("mass_scale", "inertia_scale", "object_mass_scale", "payload_kg")


class GenesisParameters:
    """Sets parameters and reads them back. Inertial ones are written at the next `flush`, once for all that changed."""

    def __init__(self, built: GenesisScene, scene: Scene, dofs: torch.Tensor, device: torch.device) -> None:
        """Args: dofs: the joints' indices among the solver's degrees of freedom, in robot order, (n,)."""
        self._solver, self._dofs, self._scene = built.scene.rigid_solver, dofs, scene
        count, links = built.scene.n_envs, built.robot.links
        self.values = {
            name: torch.tensor(item.neutral, device=device).repeat(count, 1) for name, item in ENGINE_PARAMETERS.items()
        }
        objects = [link.idx for item in scene.objects if item.free for link in built.objects[item.name].links]
        payload = [link.idx for link in links if link.name == PAYLOAD]
        robot = [link.idx for link in links if link.idx not in payload and float(link.desc.mass) > 0.0]
        self._links = torch.tensor([*robot, *payload, *objects], dtype=torch.long, device=device)
        self._robot, self._payload = slice(0, len(robot)), slice(len(robot), len(robot) + len(payload))
        self._objects = slice(len(robot) + len(payload), len(self._links))
        self._base = built.robot.get_link(scene.robot.base_body).idx
        self._read_model()
        # Constants that follow from inertia come from MuJoCo at first; let Genesis compute them, as after every change.
        self._pending = torch.ones(count, dtype=torch.bool, device=device)
        self._changed = {"inertial", "com_offset_m", "armature_scale"}
        self.flush()

    def set(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine.set_parameter."""
        check_parameter(name, values, ids)
        if ids.numel() == 0:
            return
        if name == "payload_kg" and self._scene.robot.payload_site is None and bool((values != 0).any()):
            raise ParameterError("payload_kg: the robot has no payload_site in its robot.toml; add one")
        values, ids = values.to(self._pending.device), ids.to(self._pending.device)
        self.values[name][ids] = values
        if name in ("friction_scale", "damping_scale"):
            self._set_friction(ids)
        elif name == "contact_friction_scale":
            ratio = values.expand(-1, self._solver.n_geoms).contiguous()
            self._solver.set_geoms_friction_ratio(ratio, None, ids)
        elif name == "gravity_m_s2":
            self._solver.set_gravity(values, ids)
        else:
            self._pending[ids] = True
            self._changed.add("inertial" if name in _INERTIAL else name)

    def flush(self) -> None:
        """Write what changed; Genesis then recomputes the constants that follow from it."""
        if not self._changed:
            return
        rows = self._pending.nonzero().squeeze(-1)
        value = {name: self.values[name][rows] for name in ENGINE_PARAMETERS}
        if "inertial" in self._changed:
            mass, inertia = self._mass.repeat(len(rows), 1), self._inertia.repeat(len(rows), 1, 1, 1)
            mass[:, self._robot] *= value["mass_scale"]
            inertia[:, self._robot] *= (value["mass_scale"] * value["inertia_scale"])[..., None, None]
            mass[:, self._payload] += value["payload_kg"]
            mass[:, self._objects] *= value["object_mass_scale"]
            inertia[:, self._objects] *= value["object_mass_scale"][..., None, None]
            self._solver.set_links_mass(mass, self._links, rows)
            self._solver.set_links_inertia(inertia, self._links, rows)
        if "com_offset_m" in self._changed:
            com = (self._com + value["com_offset_m"])[:, None]
            self._solver.set_links_COM(com, torch.tensor([self._base], device=rows.device), rows)
        if "armature_scale" in self._changed:
            self._solver.set_dofs_armature(self._armature * value["armature_scale"], self._dofs, rows)
        self._pending[:] = False
        self._changed.clear()

    def read(self, name: str) -> torch.Tensor:
        """See Engine.parameter: computed back from Genesis' arrays."""
        check_parameter(name)
        self.flush()
        value = self._read(name)
        return value.reshape(len(self._pending), -1).clone()

    def robot_mass(self) -> float:
        """Mass of the robot's links as in model.xml, kg."""
        return float(self._mass[self._robot].sum())

    def _read_model(self) -> None:
        """What the model files say, before anything is scaled."""
        solver = self._solver
        self._mass = solver.get_links_mass(self._links)[0]
        self._inertia = solver.get_links_inertia(self._links)[0]
        self._com = solver.get_links_COM(self._base)[0].reshape(3)
        self._frictionloss = solver.get_dofs_frictionloss(self._dofs)[0]
        self._damping = solver.get_dofs_damping(self._dofs)[0]
        self._armature = solver.get_dofs_armature(self._dofs)[0]
        self._heaviest = int(torch.argmax(self._mass[self._robot]))

    def _set_friction(self, ids: torch.Tensor) -> None:
        both, viscous = self.values["friction_scale"][ids], self.values["damping_scale"][ids]
        self._solver.set_dofs_frictionloss(self._frictionloss * both, self._dofs, ids)
        self._solver.set_dofs_damping(self._damping * both * viscous, self._dofs, ids)

    def _read(self, name: str) -> torch.Tensor:
        solver, links, heaviest = self._solver, self._links, self._heaviest
        mass = solver.get_links_mass(links)
        scale = mass[:, heaviest] / self._mass[heaviest]
        if name == "friction_scale":
            return _ratio(solver.get_dofs_frictionloss(self._dofs), self._frictionloss)
        if name == "damping_scale":
            friction = _ratio(solver.get_dofs_frictionloss(self._dofs), self._frictionloss)
            return _ratio(solver.get_dofs_damping(self._dofs), self._damping) / friction
        if name == "armature_scale":
            return _ratio(solver.get_dofs_armature(self._dofs), self._armature)
        if name == "mass_scale":
            return scale
        if name == "inertia_scale":
            return solver.get_links_inertia(links)[:, heaviest, 0, 0] / self._inertia[heaviest, 0, 0] / scale
        if name == "contact_friction_scale":
            return solver.get_geoms_friction_ratio()[:, 0]
        if name == "object_mass_scale":
            return _ratio(mass[:, self._objects], self._mass[self._objects])
        if name == "payload_kg":
            added = mass[:, self._payload] - self._mass[self._payload]
            return added if added.shape[1] else torch.zeros_like(scale)
        if name == "com_offset_m":
            return solver.get_links_COM(self._base) - self._com
        return solver.get_gravity()


def _ratio(values: torch.Tensor, model: torch.Tensor) -> torch.Tensor:
    """(count, m) over the model's (m,) at the first one that is not zero; 1 where all are."""
    nonzero = model.nonzero()
    if len(nonzero) == 0:
        return torch.ones_like(values[:, :1]) if values.shape[1] else values.new_ones(len(values), 1)
    first = int(nonzero[0])
    return values[:, first] / model[first]
