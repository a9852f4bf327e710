"""The control socket of the virtual arm: one JSON object a line in, one out."""

import contextlib
import json
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import numpy as np

from isthmus.hardware.structure import FormatError, structure

from .faults import Fault
from .servo_bus import ServoBus
from .terminal import BusTerminal
from .twin import Twin, TwinError

MAX_REQUEST = 65536


@dataclass(frozen=True, kw_only=True)
class _Guide:
    joint_pos: tuple[float, ...]


class Control:
    """Serves what no runtime may see: truth, time, faults and guiding by hand."""

    def __init__(self, path: Path, twin: Twin, bus: ServoBus, terminal: BusTerminal) -> None:
        self._path, self._twin, self._bus, self._terminal = path, twin, bus, terminal
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._listener.bind(str(path))
        except OSError:
            self._listener.close()
            raise
        self._listener.listen(8)
        self._clients: dict[int, tuple[socket.socket, bytearray]] = {}

    def fileno(self) -> int:
        """The descriptor that becomes readable when a client calls."""
        return self._listener.fileno()

    def accept(self) -> int:
        """Take a client in; returns its descriptor."""
        client, _ = self._listener.accept()
        client.setblocking(False)
        self._clients[client.fileno()] = (client, bytearray())
        return client.fileno()

    def answer(self, descriptor: int) -> bool:
        """Answer the requests that a client sent; False when it is gone."""
        client, buffer = self._clients[descriptor]
        try:
            data = client.recv(MAX_REQUEST)
            buffer += data
            while (end := buffer.find(b"\n")) >= 0:
                line = bytes(buffer[:end])
                del buffer[: end + 1]
                client.sendall(json.dumps(self._reply(line)).encode() + b"\n")
        except OSError:
            return False
        return bool(data) and len(buffer) < MAX_REQUEST

    def drop(self, descriptor: int) -> None:
        """Forget a client."""
        self._clients.pop(descriptor)[0].close()

    def _reply(self, line: bytes) -> dict[str, object]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict) or not isinstance(request.get("op"), str):
                raise FormatError(f"a request is a JSON object with an `op`, got {line[:80]!r}")
            return {"ok": True, **self._execute(request.pop("op"), request)}
        except (ValueError, TwinError) as error:
            return {"ok": False, "error": str(error)}

    def _execute(self, op: str, arguments: Mapping[str, object]) -> Mapping[str, object]:
        if op == "advance":
            self._terminal.exchange()  # what is on the wire belongs to the standing time
            self._terminal.clock.advance(_only_number(arguments, "dt_s"))
            return {"time_s": self._twin.time_s}
        if op == "inject":
            self._bus.inject(structure(arguments, Fault, source=op), self._terminal.exchange())
            return {}
        if op == "guide":
            self._terminal.exchange()
            self._twin.guide(np.array(structure(arguments, _Guide, source=op).joint_pos))
            return {}
        if arguments:
            raise FormatError(f"{op} takes no arguments, got {', '.join(arguments)}")
        self._terminal.exchange()
        return self._execute_plain(op)

    def _execute_plain(self, op: str) -> Mapping[str, object]:
        if op == "truth":
            truth = self._twin.truth()
            tip, joints = truth.tip_pos.tolist(), truth.joint_pos.tolist()
            return {"tip_pos": tip, "joint_pos": joints, "time_s": truth.time_s, "monotonic_ns": time.monotonic_ns()}
        if op == "clear":
            self._bus.clear()
        elif op == "release":
            self._twin.release()
        elif op == "unplug":
            self._terminal.unplug_requested = self._terminal.fileno() >= 0
        else:
            raise FormatError(f"unknown op {op!r}; available: advance, clear, guide, inject, release, truth, unplug")
        return {}

    def close(self) -> None:
        """Hang up on everybody and remove the socket."""
        for client, _ in self._clients.values():
            client.close()
        self._listener.close()
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()

    def __enter__(self) -> "Control":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _only_number(arguments: Mapping[str, object], key: str) -> float:
    """By hand: the general reader takes longer than a tick of simulation."""
    value = arguments.get(key)
    if set(arguments) != {key} or isinstance(value, bool) or not isinstance(value, int | float):
        raise FormatError(f"expected one number, {key}; got {dict(arguments)}")
    return float(value)
