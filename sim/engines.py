"""The registry of engines."""

from isthmus.hardware.structure import FormatError

from .engine import Engine
from .on_host import on_host
from .scene import Scene

ENGINES = ("mujoco", "genesis")


def make_engine(name: str, scene: Scene, num_envs: int, *, dt: float, device: str = "cpu", threads: int = 0) -> Engine:
    """An engine by name.

    Args:
        name: one of ENGINES.
        scene: what to simulate.
        num_envs: how many copies.
        dt: physics step, s.
        device: "cpu" or, with genesis, "cuda"; worlds stay on the CPU.
        threads: of the mujoco engine, 0 for all cores.

    Raises:
        FormatError: an unknown engine, or a device that it does not run on.
    """
    if name == "mujoco":
        from .mujoco_engine import MujocoEngine

        if device != "cpu":
            raise FormatError(f"engine 'mujoco' runs on the CPU, got device {device!r}; use engine 'genesis' for a GPU")
        return MujocoEngine(scene, num_envs, dt=dt, threads=threads)
    if name == "genesis":
        from .genesis_engine import GenesisEngine

        return on_host(GenesisEngine(scene, num_envs, dt=dt, device=device))
    raise FormatError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
