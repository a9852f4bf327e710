"""As much of rclpy as the operator uses: a context, a node, subscriptions, and an executor that calls back in its own thread."""

import queue
import sys
import time
from collections.abc import Callable
from types import ModuleType, SimpleNamespace

import pytest


class Network:
    """What is published reaches the subscriptions of the node that spins."""

    def __init__(self) -> None:
        self.subscriptions: dict[str, tuple[object, Callable[[object], None], object]] = {}
        self.waiting: queue.SimpleQueue[Callable[[], object] | None] = queue.SimpleQueue()
        self.initialised: list[object] = []
        self.ended: list[str] = []

    def publish(self, topic: str, message: object) -> None:
        """A message for a topic that somebody has subscribed to."""
        kind, callback, _ = self.subscriptions[topic]
        assert kind is not None
        self.waiting.put(lambda: callback(message))

    def fail(self, error: Exception) -> None:
        """The node's thread comes upon an error."""

        def fail() -> None:
            raise error

        self.waiting.put(fail)


def stamp(age_s: float = 0.0) -> SimpleNamespace:
    """A time stamp of so long ago."""
    ns = time.time_ns() - round(age_s * 1e9)
    return SimpleNamespace(sec=ns // 10**9, nanosec=ns % 10**9)


def install(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Make `import rclpy` and the message packages find these."""
    network = Network()

    class Context:
        def try_shutdown(self) -> None:
            network.ended.append("context")

    class Node:
        def create_subscription(self, kind: object, topic: str, callback: Callable, qos: object) -> None:
            network.subscriptions[topic] = (kind, callback, qos)

        def get_clock(self) -> SimpleNamespace:
            return SimpleNamespace(now=lambda: SimpleNamespace(nanoseconds=time.time_ns()))

        def destroy_node(self) -> None:
            network.ended.append("node")

    class SingleThreadedExecutor:
        def __init__(self, *, context: object) -> None: ...

        def add_node(self, node: Node) -> None: ...

        def spin(self) -> None:
            while (work := network.waiting.get()) is not None:
                work()

        def shutdown(self) -> None:
            network.waiting.put(None)

    def init(*, context: object, signal_handler_options: object) -> None:
        network.initialised.append(signal_handler_options)

    modules = {
        "rclpy": {"init": init, "create_node": lambda name, *, context: Node()},
        "rclpy.context": {"Context": Context},
        "rclpy.executors": {"SingleThreadedExecutor": SingleThreadedExecutor},
        "rclpy.qos": {"qos_profile_sensor_data": "sensor data"},
        "rclpy.signals": {"SignalHandlerOptions": SimpleNamespace(NO="no signal handlers")},
        "std_msgs.msg": {"Bool": bool},
        "geometry_msgs.msg": {"TwistStamped": dict},
        "sensor_msgs.msg": {"JointState": list},
    }
    for name, members in modules.items():
        module = ModuleType(name)
        for key, value in members.items():
            setattr(module, key, value)
        monkeypatch.setitem(sys.modules, name, module)
    return network
