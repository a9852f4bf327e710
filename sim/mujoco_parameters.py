"""ENGINE_PARAMETERS as fields of MuJoCo's model, one value per environment."""

# mujoco builds its classes at run time and ships no type stubs for them.
# pyright: reportAttributeAccessIssue=false

import mujoco
import numpy as np
import torch
from mujoco.batch import Batch

from .engine import ENGINE_PARAMETERS, ParameterError, check_parameter
from .mujoco_scene import NO_MASS, PAYLOAD
from .scene import Scene


class MujocoParameters:
    """Sets parameters and reads them back. Derived constants follow at the next `flush`, once for all that changed."""

    def __init__(self, model: mujoco.MjModel, batch: Batch, scene: Scene) -> None:
        self._model, self._batch, count = model, batch, batch.nsim
        self.values = {name: torch.tensor(item.neutral).repeat(count, 1) for name, item in ENGINE_PARAMETERS.items()}
        objects = [model.body(item.name).id for item in scene.objects if item.free]
        self._objects = _with_children(model, objects)
        fixed = _with_children(model, [model.body(name).id for name in scene.fixed_objects])
        self._payload = model.body(PAYLOAD).id if scene.robot.payload_site is not None else None
        others = {0, *self._objects, *fixed, self._payload}
        self._links = np.array([body for body in range(model.nbody) if body not in others])
        self._dofs = np.array([int(model.joint(name).dofadr[0]) for name in scene.robot.joint_names], dtype=int)
        self._base = model.body(scene.robot.base_body).id
        # Environments whose friction, inertia or derived constants are to follow at the next flush.
        self._rubbing, self._weighing, self._derived = np.zeros((3, count), dtype=bool)

    def set(self, name: str, values: torch.Tensor, ids: torch.Tensor) -> None:
        """See Engine.set_parameter."""
        check_parameter(name, values, ids)
        if ids.numel() == 0:
            return
        if name == "payload_kg" and self._payload is None and bool((values != 0).any()):
            raise ParameterError("payload_kg: the robot has no payload_site in its robot.toml; add one")
        self.values[name][ids] = values
        rows = ids.numpy()
        if name in ("friction_scale", "damping_scale"):
            self._rubbing[rows] = True
        elif name == "contact_friction_scale":
            friction = self._batch.expand("geom_friction")
            friction[rows, :, 0] = self._model.geom_friction[:, 0] * values.double().numpy()
        elif name == "gravity_m_s2":
            change = (
                values.double() - torch.tensor(ENGINE_PARAMETERS[name].neutral).double()
            )  # so that none is exactly none
            self._batch.expand("opt.gravity")[rows] = self._model.opt.gravity + change.numpy()
        elif name == "armature_scale":
            armature = self._batch.expand("dof_armature")
            armature[rows[:, None], self._dofs] = self._model.dof_armature[self._dofs] * values.double().numpy()
            self._derived[rows] = True
        else:
            self._weighing[rows] = self._derived[rows] = True

    def robot_mass(self) -> float:
        """Mass of the robot's links as in model.xml, kg."""
        return float(self._model.body_mass[self._links].sum())

    def flush(self) -> None:
        """Let MuJoCo's derived constants follow the changed environments."""
        if self._rubbing.any():
            self._friction(np.flatnonzero(self._rubbing))
            self._rubbing[:] = False
        if self._weighing.any():
            self._inertial(np.flatnonzero(self._weighing))
            self._weighing[:] = False
        if self._derived.any():
            self._batch.set_const(np.flatnonzero(self._derived))
            self._derived[:] = False

    def read(self, name: str) -> torch.Tensor:
        """See Engine.parameter: computed back from the model's fields."""
        check_parameter(name)
        self.flush()
        return torch.from_numpy(np.asarray(self._read(name), dtype=np.float32).reshape(self._batch.nsim, -1))

    def _read(self, name: str) -> np.ndarray:
        model, dof = self._model, self._dofs[:1]
        link, count = self._heaviest_link(), self._batch.nsim
        mass = self._field("body_mass")[:, link] / model.body_mass[link]
        if name == "friction_scale":
            return self._ratio("dof_frictionloss", self._dofs)
        if name == "damping_scale":
            return self._ratio("dof_damping", self._dofs) / self._ratio("dof_frictionloss", self._dofs)
        if name == "armature_scale":
            return self._ratio("dof_armature", dof)
        if name == "mass_scale":
            return mass
        if name == "inertia_scale":
            return self._field("body_inertia")[:, link, 0] / model.body_inertia[link, 0] / mass
        if name == "contact_friction_scale":
            return self._field("geom_friction")[:, 0, 0] / model.geom_friction[0, 0]
        if name == "object_mass_scale":
            heavy = [body for body in self._objects if model.body_mass[body] > 0]
            return self._ratio("body_mass", np.array(heavy[:1], dtype=int)) if heavy else np.ones(count)
        if name == "payload_kg":
            return np.zeros(count) if self._payload is None else self._field("body_mass")[:, self._payload] - NO_MASS
        if name == "com_offset_m":
            return self._field("body_ipos")[:, self._base] - model.body_ipos[self._base]
        return self._field("opt.gravity")

    def _field(self, name: str) -> np.ndarray:
        """Per-environment values, expanded or not."""
        values = self._batch.expanded(name)
        if values is not None:
            return values
        shared = self._model.opt.gravity if name == "opt.gravity" else getattr(self._model, name)
        return np.repeat(np.asarray(shared)[None], self._batch.nsim, axis=0)

    def _ratio(self, name: str, index: np.ndarray) -> np.ndarray:
        """A field over its value in the model, at the first of `index` where that is not zero; 1 where all are."""
        shared = getattr(self._model, name)[index]
        nonzero = index[shared != 0]
        if nonzero.size == 0:
            return np.ones(self._batch.nsim)
        return self._field(name)[:, nonzero[0]] / getattr(self._model, name)[nonzero[0]]

    def _heaviest_link(self) -> int:
        return int(self._links[np.argmax(self._model.body_mass[self._links])])

    def _friction(self, rows: np.ndarray) -> None:
        both, viscous = (self.values[name][rows].double().numpy() for name in ("friction_scale", "damping_scale"))
        for field, scale in (("dof_frictionloss", both), ("dof_damping", both * viscous)):
            values, shared = self._batch.expand(field), getattr(self._model, field)
            values[rows[:, None], self._dofs] = shared[self._dofs] * scale

    def _inertial(self, rows: np.ndarray) -> None:
        names = ("mass_scale", "inertia_scale", "object_mass_scale", "payload_kg", "com_offset_m")
        mass, inertia, objects, payload, com = (self.values[name][rows].double().numpy() for name in names)
        all_mass, all_inertia = self._batch.expand("body_mass"), self._batch.expand("body_inertia")
        links = (rows[:, None], self._links)
        all_mass[links] = self._model.body_mass[self._links] * mass
        all_inertia[links] = self._model.body_inertia[self._links] * (mass * inertia)[..., None]
        if self._objects:
            things = (rows[:, None], np.array(self._objects))
            all_mass[things] = self._model.body_mass[self._objects] * objects
            all_inertia[things] = self._model.body_inertia[self._objects] * objects[..., None]
        if self._payload is not None:
            all_mass[rows, self._payload] = payload[:, 0] + NO_MASS
        if com.any() or self._batch.expanded("body_ipos") is not None:
            self._batch.expand("body_ipos")[rows, self._base] = self._model.body_ipos[self._base] + com


def _with_children(model: mujoco.MjModel, bodies: list[int]) -> list[int]:
    """These bodies and all below them."""
    found = set(bodies)
    for body in range(model.nbody):  # parents come before their children
        if int(model.body_parentid[body]) in found:
            found.add(body)
    return sorted(found)
