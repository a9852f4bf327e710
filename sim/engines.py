"""The registry of engines."""

from isthmus.hardware.structure import FormatError

from .engine import Engine
from .memory import check_memory, telling_shortage, tensor_bytes
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
        FormatError: an unknown engine, a device that it does not run on, or a number that cannot be.
        MemoryShortageError: more copies than memory holds.
    """
    if num_envs < 1:
        raise FormatError(f"num_envs = {num_envs}; expected at least 1")
    if not dt > 0:
        raise FormatError(f"dt = {dt}; expected a positive physics step, s")

    def make(count: int) -> Engine:
        return _make(name, scene, count, dt=dt, device=device, threads=threads)

    check_memory(num_envs, lambda: tensor_bytes(make(1).save()), device=device)
    with telling_shortage(num_envs, device=device):
        return make(num_envs)


def _make(name: str, scene: Scene, num_envs: int, *, dt: float, device: str, threads: int) -> Engine:
    if name == "mujoco":
        from .mujoco_engine import MujocoEngine

        if device != "cpu":
            raise FormatError(f"engine 'mujoco' runs on the CPU, got device {device!r}; use engine 'genesis' for a GPU")
        return MujocoEngine(scene, num_envs, dt=dt, threads=threads)
    if name == "genesis":
        from .genesis_engine import GenesisEngine

        return on_host(GenesisEngine(scene, num_envs, dt=dt, device=device))
    raise FormatError(f"unknown engine {name!r}; known: {', '.join(ENGINES)}")
