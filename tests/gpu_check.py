"""What Genesis does on a GPU, in five minutes: speed, training of go2-velocity, agreement with MuJoCo on the CPU.

    python tests/gpu_check.py
    python tests/gpu_check.py --device cpu --num-envs 64 --iterations 2   # tries the check itself where there is no GPU

Ends with exit code 1 when something is worse than it must be. The engine runs on the device; worlds and learning run on the CPU.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

import torch

from isthmus.hardware.errors import IsthmusError
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.policies.learning.mirrors import get_reflection, mirror_spec
from isthmus.policies.learning.presets import get_preset
from isthmus.policies.learning.trainer import Progress, Trainer
from isthmus.sim.engine import Engine, EngineState, FreeState
from isthmus.sim.genesis_engine import GenesisEngine
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.on_host import moved, on_host
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

TASK = "go2-velocity"
SPEED_SECONDS = 15.0
TRAINING_SECONDS = 150.0  # however many iterations are left then
JOINT_TOLERANCE, BASE_TOLERANCE = 5e-2, 2e-2  # rad, m after two seconds of standing
LEARNING_SHOWS_AFTER = 50  # iterations


def standing(engine: Engine) -> EngineState:
    """In the default pose, feet 1 cm above the ground."""
    count, robot = engine.num_envs, engine.scene.robot
    pose = torch.from_numpy(robot.array("default_pos")).float().repeat(count, 1)
    zero, up = torch.zeros(count, 3), torch.tensor([1.0, 0.0, 0.0, 0.0]).repeat(count, 1)
    base = FreeState(pos=torch.tensor([0.0, 0.0, 0.335]).repeat(count, 1), quat=up, lin_vel=zero, ang_vel=zero)
    return EngineState(joint_pos=pose, joint_vel=torch.zeros_like(pose), free={"base": base})


def stand(engine: Engine, steps: int) -> None:
    """Let the servo law hold the default pose."""
    kp, kd, limit = (torch.from_numpy(engine.scene.robot.array(k)).float() for k in ("kp", "kd", "effort_limit"))
    arguments = (standing(engine).joint_pos[:, None].repeat(1, steps, 1), kp, kd, limit)
    engine.step_servo(*moved(arguments, engine.device))


def begin(engine: Engine) -> None:
    """All environments standing."""
    engine.reset(*moved((torch.arange(engine.num_envs), standing(engine)), engine.device))


def speed(engine: GenesisEngine) -> float:
    """Physics steps of all environments together, 1/s, while standing."""
    begin(engine)
    stand(engine, 4)
    steps, start = 0, time.perf_counter()
    while time.perf_counter() - start < SPEED_SECONDS:
        stand(engine, 40)
        engine.joint_pos().cpu()  # waits for the device
        steps += 40
    return steps * engine.num_envs / (time.perf_counter() - start)


def agreement(engine: GenesisEngine) -> tuple[float, float]:
    """Largest difference to MuJoCo after two seconds of standing: joints, rad, and base, m."""
    reference = MujocoEngine(engine.scene, 1, dt=engine.dt)
    for one in (engine, reference):
        begin(one)
        stand(one, round(2.0 / engine.dt))
    joints = (engine.joint_pos().cpu() - reference.joint_pos()).abs().max()
    base = (engine.free_state("base").pos.cpu() - reference.free_state("base").pos).abs().max()
    return float(joints), float(base)


def learn(engine: GenesisEngine, iterations: int) -> list[Progress]:
    """Train; one Progress an iteration."""
    world = World(get_task(TASK), on_host(engine), seed=0)
    history: list[Progress] = []
    with tempfile.TemporaryDirectory() as folder:
        env = ContractEnv(world, get_contract(TASK))
        mirror = mirror_spec(env, get_reflection(TASK))
        trainer = Trainer(env, get_preset(TASK).ppo, Path(folder), seed=0, mirror=mirror)
        trainer.train(iterations, time_limit=TRAINING_SECONDS, on_progress=history.append)
    print(f"physics failures: {world.failures} of {history[-1].steps} environment steps")
    return history


def check(device: str, num_envs: int, iterations: int) -> list[str]:
    """Run all; returns what was worse than it must be."""
    task, wrong = get_task(TASK), []
    start = time.perf_counter()
    engine = GenesisEngine(task.scene(), num_envs, dt=task.physics_dt, device=device)
    stand(engine, 1)
    print(f"built and compiled {num_envs} environments in {time.perf_counter() - start:.1f} s")
    joints, base = agreement(engine)
    print(f"after 2 s of standing, against MuJoCo: joints {joints:.2e} rad, base {base:.2e} m")
    if not (joints <= JOINT_TOLERANCE and base <= BASE_TOLERANCE):
        wrong.append(
            f"agreement: joints {joints:.2e} rad and base {base:.2e} m, at most {JOINT_TOLERANCE} and {BASE_TOLERANCE}"
        )
    print(f"physics: {speed(engine):,.0f} steps/s")
    history = learn(engine, iterations)
    first, last = history[0], history[-1]
    rate = sum(item.steps_per_second for item in history) / len(history)
    print(f"training: {last.iteration} iterations, {last.steps:,} steps in {last.seconds:.0f} s, {rate:,.0f} steps/s")
    print(f"reward per tick: {first.metrics['reward/total']:.4f} -> {last.metrics['reward/total']:.4f}")
    if last.iteration >= LEARNING_SHOWS_AFTER and not last.metrics["reward/total"] > first.metrics["reward/total"]:
        wrong.append("training: the reward did not rise")
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--num-envs", type=int, default=4096)
    parser.add_argument("--iterations", type=int, default=300)
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        print("There is no GPU here that torch can use; nothing was checked. --device cpu tries the check itself.")
        return 2
    torch.set_num_threads(1)  # as training does
    print(f"device: {torch.cuda.get_device_name() if options.device == 'cuda' else 'CPU'}, torch {torch.__version__}")
    try:
        wrong = check(options.device, options.num_envs, options.iterations)
    except IsthmusError as error:
        wrong = [str(error)]
    for line in wrong:
        print(f"FAILED {line}")
    print("all well" if not wrong else f"{len(wrong)} failed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
