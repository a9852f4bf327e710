"""Starts a virtual arm and talks to its control socket. Imports no simulator."""

import json
import os
import select
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np

from isthmus.hardware.errors import HardwareError

START_TIMEOUT_S = 60.0
REPLY_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
RENDER_TIMEOUT_S = 60.0

Self = TypeVar("Self", bound="ControlClient")


class VirtualArmError(HardwareError):
    """The virtual arm did not start, is gone, or refuses a request."""


@dataclass(frozen=True, kw_only=True)
class Truth:
    """Where the arm really is, free of every sensor."""

    tip_pos: np.ndarray  # (3,) m, robot base frame
    joint_pos: np.ndarray  # (n,) rad, of the links, robot order
    time_s: float  # simulated time
    monotonic_ns: int  # wall clock of the answer


class ControlClient:
    """A connection to the control socket of a running virtual arm."""

    def __init__(self, path: str | Path) -> None:
        self.control_path = Path(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(REPLY_TIMEOUT_S)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise VirtualArmError(f"no virtual arm at {path} ({error.strerror}); is its server running?") from None
        self._replies = self._socket.makefile("rb")

    def advance(self, dt_s: float) -> None:
        """Let simulated time pass, lockstep only: bytes on the bus are answered first, at the standing time."""
        self._request("advance", dt_s=dt_s)

    def truth(self) -> Truth:
        """Where the arm really is now."""
        reply = self._request("truth")
        return Truth(
            tip_pos=np.array(reply["tip_pos"]),
            joint_pos=np.array(reply["joint_pos"]),
            time_s=reply["time_s"],
            monotonic_ns=reply["monotonic_ns"],
        )

    def inject(
        self,
        kind: str,
        *,
        joint: str | None = None,
        probability: float = 1.0,
        count: int | None = None,
        bits: int = 0,
        other: str | None = None,
    ) -> None:
        """Break something, see `faults.Fault`; e.g. `inject("drop", joint="elbow_flex", count=2)`."""
        self._request("inject", kind=kind, joint=joint, probability=probability, count=count, bits=bits, other=other)

    def clear(self) -> None:
        """Repair everything that was injected."""
        self._request("clear")

    def unplug(self) -> None:
        """Pull the plug of the serial adapter, for good."""
        self._request("unplug")

    def guide(self, joint_pos: Sequence[float] | np.ndarray) -> None:
        """Take the limp arm to a pose, shape (n,), rad, and hold it until `release` or until torque comes on.

        Refused while a servo drives its joint; torque that was just switched off still acts for the arm's latency.
        """
        self._request("guide", joint_pos=[float(angle) for angle in joint_pos])

    def release(self) -> None:
        """Let go of the arm."""
        self._request("release")

    def render(
        self,
        path: str | Path,
        target: Sequence[float] | np.ndarray | None = None,
        *,
        width: int = 640,
        height: int = 480,
    ) -> None:
        """Write a PNG of the arm as it is now; `target`, shape (3,), m, base frame, is drawn as a ball."""
        render_pose(path, self.truth().joint_pos, target, width=width, height=height)

    def close(self) -> None:
        """Hang up; may be called twice."""
        self._replies.close()
        self._socket.close()

    def _request(self, op: str, **arguments: Any) -> dict[str, Any]:
        try:
            self._socket.sendall(json.dumps({"op": op, **arguments}).encode() + b"\n")
            line = self._replies.readline()
        except (OSError, ValueError) as error:
            raise VirtualArmError(f"{op}: the connection to the virtual arm is broken: {error}") from None
        if not line:
            raise VirtualArmError(f"{op}: the virtual arm at {self.control_path} is gone")
        reply = json.loads(line)
        if not reply["ok"]:
            raise VirtualArmError(f"{op}: {reply['error']}")
        return reply

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class VirtualArm(ControlClient):
    """A virtual SO-101 in a process of its own; `port` is the serial port that its servos answer on.

    Args:
        params: hidden parameters, a shipped name or the path of a TOML file.
        lockstep: time stands still unless `advance` is called.

    Raises:
        VirtualArmError: the process did not come up; carries what it said.
    """

    def __init__(self, params: str | Path = "hard", *, lockstep: bool = False) -> None:
        control = Path(tempfile.gettempdir()) / f"isthmus-arm-{uuid.uuid4().hex[:12]}.sock"
        command = [
            sys.executable,
            "-m",
            "isthmus.hardware.virtual.server",
            "--params",
            str(params),
            "--control",
            str(control),
            "--parent",
            str(os.getpid()),
        ]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  lives as long as the process
        self._process = subprocess.Popen(
            [*command, "--lockstep"] if lockstep else command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,  # Ctrl-C is for the host: the arm goes when the host closes it
        )
        try:
            self.port: str = self._wait_until_ready()
            super().__init__(control)
        except BaseException:
            self._stop()
            raise

    @property
    def pid(self) -> int:
        """Process id of the server."""
        return self._process.pid

    def close(self) -> None:
        """Switch the arm off; may be called twice."""
        super().close()
        self._stop()

    def _wait_until_ready(self) -> str:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], START_TIMEOUT_S)
        line = self._process.stdout.readline() if ready else b""
        if line:
            return json.loads(line)["port"]
        self._process.kill()
        self._process.wait()
        self._errors.seek(0)
        said = self._errors.read().decode(errors="replace").strip() or f"nothing within {START_TIMEOUT_S:.0f} s"
        raise VirtualArmError(f"the virtual arm did not start: {said}")

    def _stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()


def render_pose(
    path: str | Path,
    joint_pos: np.ndarray,
    target: Sequence[float] | np.ndarray | None = None,
    *,
    width: int = 640,
    height: int = 480,
) -> None:
    """Write a PNG of an SO-101 in a pose, shape (6,), rad, by a process of its own.

    Raises:
        VirtualArmError: no OpenGL for off-screen rendering; says what to install.
    """
    command = [sys.executable, "-m", "isthmus.hardware.virtual.picture", str(path)]
    command += ["--width", str(width), "--height", str(height), "--joint-pos", *(f"{float(q):.9f}" for q in joint_pos)]
    if target is not None:
        command += ["--target", *(f"{float(x):.9f}" for x in target)]
    backends = [os.environ["MUJOCO_GL"]] if "MUJOCO_GL" in os.environ else ["egl", "osmesa"]
    said = ""
    for backend in backends:
        environment = {**os.environ, "MUJOCO_GL": backend}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=RENDER_TIMEOUT_S)
        if result.returncode == 0:
            return
        said = (result.stderr.strip().splitlines() or ["no message"])[-1]
    raise VirtualArmError(
        f"cannot draw {path} with MUJOCO_GL={' or '.join(backends)}: {said}; off-screen drawing needs OpenGL: "
        "install libegl1 or libosmesa6 and set MUJOCO_GL to egl or osmesa"
    )
