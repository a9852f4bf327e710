"""The virtual SO-101 as a process: its servo bus on a pseudo terminal, its truth on a Unix socket.

    python -m isthmus.hardware.virtual.server --params hard --control /tmp/arm.sock [--lockstep] [--link /tmp/arm]

One line of JSON on stdout says that it is ready and names the port. It ends on SIGTERM and when its parent is gone.
"""

import argparse
import contextlib
import json
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import FormatError

from .hidden import load_hidden

if TYPE_CHECKING:
    from .control import Control
    from .terminal import BusTerminal

IDLE_S = 0.01  # real time: the physics follows at least this often
LOCKSTEP_IDLE_S = 0.2  # lockstep: nothing to do but to see whether the parent lives


def serve(control: "Control", terminal: "BusTerminal", *, parent: int, idle_s: float) -> None:
    """Answer bus and control requests until the process `parent` is gone."""
    poll = select.poll()
    poll.register(terminal.fileno(), select.POLLIN)
    poll.register(control.fileno(), select.POLLIN)
    while os.getppid() == parent:
        ready = {descriptor for descriptor, _ in poll.poll(idle_s * 1e3)}
        terminal.exchange()
        if control.fileno() in ready:
            poll.register(control.accept(), select.POLLIN)
        for descriptor in ready - {control.fileno()}:
            if descriptor == terminal.fileno():
                continue
            if not control.answer(descriptor):
                poll.unregister(descriptor)
                control.drop(descriptor)
        if terminal.unplug_requested:
            poll.unregister(terminal.fileno())
            terminal.close()


def main() -> int:
    """Run the server; returns the exit code."""
    arguments = _parse()
    try:
        hidden, spec = load_hidden(arguments.params), load_robot("so101")
        from .arm_clock import LockstepClock, WallClock
        from .control import Control
        from .servo_bus import ServoBus
        from .terminal import BusTerminal
        from .twin import Twin
    except FormatError as error:
        print(f"virtual arm: {error}", file=sys.stderr)
        return 2
    except ModuleNotFoundError as error:
        print(f"virtual arm: {error}; it needs MuJoCo: pip install 'isthmus[train]'", file=sys.stderr)
        return 2
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))
    twin = Twin(spec, hidden)
    bus = ServoBus([joint.bus_id for joint in spec.joints], spec.joint_names, twin, seed=hidden.seed)
    clock = LockstepClock(twin) if arguments.lockstep else WallClock(twin, time.monotonic)
    idle_s = LOCKSTEP_IDLE_S if arguments.lockstep else IDLE_S
    if not arguments.lockstep:
        with contextlib.suppress(OSError):  # servos answer at once, however busy this computer is; needs permission
            os.setpriority(os.PRIO_PROCESS, 0, -10)
    try:
        with (
            BusTerminal(bus, clock, arguments.link) as terminal,
            Control(arguments.control, twin, bus, terminal) as control,
        ):
            print(json.dumps({"port": terminal.port, "control": str(arguments.control)}), flush=True)
            serve(control, terminal, parent=arguments.parent, idle_s=idle_s)
    except OSError as error:
        print(f"virtual arm: {arguments.control}: {error}; is another arm running there?", file=sys.stderr)
        return 2
    return 0


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="isthmus.hardware.virtual.server", description="A virtual SO-101 arm.")
    parser.add_argument("--params", default="hard", help="hidden parameters: a shipped name or the path of a TOML file")
    parser.add_argument(
        "--control", type=Path, required=True, help="path of the Unix socket for truth, faults and time"
    )
    parser.add_argument(
        "--lockstep", action="store_true", help="time stands still unless the control socket advances it"
    )
    parser.add_argument("--link", type=Path, help="symbolic link to make to the serial port")
    parser.add_argument("--parent", type=int, default=os.getppid(), help="process whose end ends the arm; its parent")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
