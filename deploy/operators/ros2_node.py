"""The part of the ROS 2 operator that knows rclpy: messages as they come, from its thread to ours."""

import contextlib
import importlib
import os
import threading
import time
from collections import deque
from typing import Any, Literal, NamedTuple

from .operator import OperatorError

Source = Literal["twist", "joints"]

MOTION_TYPES: dict[Source, tuple[str, str]] = {
    "twist": ("geometry_msgs", "TwistStamped"),
    "joints": ("sensor_msgs", "JointState"),
}
_WAITING = 256  # messages that nobody has taken yet
_INSTALL = (
    "install ROS 2 and source its setup.bash in this terminal, with a Python of the same version as this one; "
    "see docs/operators.md"
)


class Received(NamedTuple):
    """A message."""

    topic: str  # below the namespace
    arrival_ns: int  # monotonic
    age_ns: int | None  # by its stamp when it arrived, on the ROS clock; None: of a kind without stamp, or not stamped
    message: Any  # as rclpy gives it


class Ros2Node:
    """Subscribes to a motion and to switches."""

    def __init__(self, namespace: str, source: Source, switches: tuple[str, ...]) -> None:
        """Join the network; raises OperatorError where rclpy or a message package is not installed."""
        rclpy, context, executors, qos, signals = (
            _needed(name) for name in ("rclpy", "rclpy.context", "rclpy.executors", "rclpy.qos", "rclpy.signals")
        )
        package, kind = MOTION_TYPES[source]
        motion_type, bool_type = getattr(_needed(f"{package}.msg"), kind), _needed("std_msgs.msg").Bool
        self._received: deque[Received] = deque(maxlen=_WAITING)
        self._error = ""
        self._readable, self._written = os.pipe()
        os.set_blocking(self._readable, False)
        os.set_blocking(self._written, False)
        self._context = context.Context()
        rclpy.init(context=self._context, signal_handler_options=signals.SignalHandlerOptions.NO)
        self._node = rclpy.create_node("isthmus_operator", context=self._context)
        self._clock = self._node.get_clock()
        motion = f"{namespace}/{source}"
        self._node.create_subscription(motion_type, motion, self._listener(source), qos.qos_profile_sensor_data)
        for name in switches:
            self._node.create_subscription(bool_type, f"{namespace}/{name}", self._listener(name), 10)
        self._executor = executors.SingleThreadedExecutor(context=self._context)
        self._executor.add_node(self._node)
        self._thread = threading.Thread(target=self._spin, name="isthmus-ros2", daemon=True)
        self._thread.start()
        self._open = True

    def fileno(self) -> int:
        """Readable when a message has come."""
        return self._readable

    def take(self) -> list[Received]:
        """Messages since the last call, in order; raises OperatorError where rclpy has ended."""
        with contextlib.suppress(BlockingIOError):
            os.read(self._readable, 4096)
        if self._error:
            raise OperatorError(f"the ROS 2 node has ended: {self._error}; start anew")
        taken = []
        while self._received:
            taken.append(self._received.popleft())
        return taken

    def close(self) -> None:
        """Leave the network; may be called twice."""
        if not self._open:
            return
        self._open = False
        self._executor.shutdown()
        self._thread.join(2.0)
        self._node.destroy_node()
        self._context.try_shutdown()
        os.close(self._readable)
        os.close(self._written)

    def _listener(self, topic: str) -> Any:
        def received(message: Any) -> None:
            self._received.append(Received(topic, time.monotonic_ns(), self._age_ns(message), message))
            self._wake()

        return received

    def _age_ns(self, message: Any) -> int | None:
        header = getattr(message, "header", None)
        if header is None or (header.stamp.sec == 0 and header.stamp.nanosec == 0):
            return None
        return self._clock.now().nanoseconds - (header.stamp.sec * 10**9 + header.stamp.nanosec)

    def _spin(self) -> None:
        try:
            self._executor.spin()
        except Exception as error:  # whatever rclpy raises in its thread must not be silent
            self._error = f"{type(error).__name__}: {error}"
        else:
            self._error = "its executor stopped"
        self._wake()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # full: it is readable already; closed: nobody listens any more
            os.write(self._written, b"\0")


def _needed(module: str) -> Any:
    """A module of ROS 2, imported only now; raises OperatorError where it is missing."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise OperatorError(f"the ROS 2 operator needs {module} ({error}); {_INSTALL}") from None
