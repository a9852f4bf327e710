"""Smoke test of the core install: `python core.py BUNDLE`, where the wheel is installed and nothing for training.

Plain Python, because that environment has no pytest. Exits with an error at the first thing that does not work.
"""

import importlib.util
import subprocess
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from isthmus.deploy.cli import COMMAND_NAMES
from isthmus.deploy.clock import LockstepClock
from isthmus.deploy.messages import ControlCommand, OperatorCommand
from isthmus.deploy.modes import Mode
from isthmus.deploy.runtime import Runtime, RuntimeConfig
from isthmus.hardware.interface import JointState, Silence
from isthmus.hardware.robot import RobotSpec, load_robot
from isthmus.policies.bundle import load_bundle
from isthmus.policies.episode import Source
from isthmus.policies.policy import Policy

ABSENT = ("torch", "mujoco", "genesis", "rsl_rl", "onnx", "pyarrow", "scipy", "matplotlib", "tensorboard")
TARGET = (0.2, 0.05, 0.12)  # m, base frame


class PerfectRobot:
    """A `Robot` whose joints are at once where they are told to be."""

    silence = Silence(after_s=0.0, then="hold")

    def __init__(self, spec: RobotSpec) -> None:
        self.spec = spec
        self.senses: Mapping[str, int] = {}
        self.joint_pos = spec.array("default_pos") + 0.1
        self.torque = False

    def connect(self) -> None: ...

    def read(self) -> JointState:
        n = len(self.spec.joints)
        return JointState(
            joint_pos=self.joint_pos.copy(),
            joint_vel=np.zeros(n),
            temperature=np.full(n, 30.0),
            stamp_ns=time.monotonic_ns(),
            errors=0,
        )

    def write(self, joint_target: np.ndarray) -> None:
        self.joint_pos[:] = joint_target
        self.torque = True

    def hold(self) -> None:
        self.torque = True

    def damp(self) -> None:
        self.torque = False

    def close(self) -> None: ...


class Supervisor:
    """An `Inbox` that hands over one request at a time, and a `Sink` that keeps what the runtime executed."""

    def __init__(self) -> None:
        self.sequence = 0
        self.pending: ControlCommand | None = None
        self.executed: list[np.ndarray] = []

    def ask(self, mode: Mode) -> None:
        self.sequence += 1
        self.pending = ControlCommand(sequence=self.sequence, mode=mode, episode=0, target=TARGET)

    def control(self) -> ControlCommand | None:
        command, self.pending = self.pending, None
        return command

    def operator(self) -> OperatorCommand | None:
        return None

    def tick(self, record: np.ndarray) -> None:
        self.executed.append(record["executed_target"].copy())

    def event(self, record: np.ndarray) -> None: ...


def check(condition: object, text: str) -> None:
    """Say what works, or end with what does not."""
    if not condition:
        sys.exit(f"core smoke test: NOT TRUE: {text}")
    print(f"  {text}")


def check_installed() -> None:
    """Only the core is here, and it is the installed one."""
    found = [name for name in ABSENT if importlib.util.find_spec(name) is not None]
    check(not found, f"no training package is installed (found: {found})")
    home = Path(sys.modules["isthmus.hardware.robot"].__file__ or "")
    check(home.is_relative_to(sysconfig.get_path("purelib")), f"isthmus comes from site-packages ({home})")


def check_commands() -> None:
    """`isthmus --help` and the help of every command."""
    isthmus = Path(sysconfig.get_path("scripts")) / "isthmus"
    for arguments in ([], *([command] for command in COMMAND_NAMES)):
        result = subprocess.run(
            [isthmus, *arguments, "--help"], capture_output=True, text=True, timeout=60, check=False
        )
        check(result.returncode == 0, f"isthmus {' '.join([*arguments, '--help'])} {result.stderr.strip()}")
    result = subprocess.run([isthmus, "robots"], capture_output=True, text=True, timeout=60, check=False)
    check(result.returncode == 0 and "so101" in result.stdout, f"isthmus robots names so101 {result.stderr.strip()}")
    result = subprocess.run([isthmus, "demo", "--quick"], capture_output=True, text=True, timeout=60, check=False)
    said = result.stdout + result.stderr
    check(
        result.returncode != 0 and "isthmus[train]" in said, f"isthmus demo says what it needs ({said.strip()[-200:]})"
    )


def check_runtime(spec: RobotSpec, policy: Policy) -> None:
    """Arm in two steps, then let the policy drive in lockstep."""
    robot, supervisor = PerfectRobot(spec), Supervisor()
    config = RuntimeConfig(period_ns=policy.period_ns, supervisor_timeout_s=None)
    clock = LockstepClock(lambda dt: None)
    runtime = Runtime(robot, [policy], clock, supervisor, supervisor, config)
    supervisor.ask(Mode.READY)
    runtime.step()
    check(runtime.mode is Mode.IDLE and not robot.torque, "the runtime does not move before it is armed")
    for mode, ticks in ((Mode.DAMP, 1), (Mode.READY, 100), (Mode.POLICY, 100)):
        supervisor.ask(mode)
        for _ in range(ticks):
            runtime.step()
        check(runtime.mode is mode, f"the runtime reaches {mode.name} {runtime.fault}")
    check(runtime.sources.source is Source.POLICY and runtime.faults.count == 0, "the policy drives without a fault")
    steps = np.abs(np.diff(np.array(supervisor.executed[2:]), axis=0))
    limit = spec.array("velocity_limit") * policy.period_ns * 1e-9
    check((steps <= limit + 1e-9).all(), "no target moves faster than the robot allows")
    check(np.ptp(np.array(supervisor.executed[-100:]), axis=0).max() > 0, "the policy moves the arm")


def main() -> None:
    """Run all checks on the bundle that the command line names."""
    bundle = Path(sys.argv[1])
    check_installed()
    check_commands()
    spec = load_robot("so101")
    policy = load_bundle(bundle).policy()
    check(
        set(policy.joint_names) == set(spec.joint_names),
        "the bundle loads, its golden rows replay, and its joints are the arm's",
    )
    check_runtime(spec, policy)
    print("core smoke test: all true")


if __name__ == "__main__":
    main()
