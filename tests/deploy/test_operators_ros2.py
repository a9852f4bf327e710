"""The ROS 2 operator keeps the contract; stale and odd messages drive nothing; its node, with a stand-in and with the real rclpy."""

import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing.connection import wait
from types import SimpleNamespace
from typing import Any

import fake_rclpy
import pytest
from operator_bench import FakeNode, OperatorBench, Stage
from operator_contract import DeviceContract

from isthmus.deploy.messages import Drive
from isthmus.deploy.operators.device import DeviceFactory
from isthmus.deploy.operators.hand_drive import HandDrive, command_drive, tip_drive
from isthmus.deploy.operators.operator import OperatorError
from isthmus.deploy.operators.ros2 import SWITCHES, Ros2Config
from isthmus.deploy.operators.ros2_node import Received, Ros2Node
from isthmus.policies.contract import CommandSpec

JOINTS = ("pan", "lift", "grip")
TIP = tip_drive(0.1)
WALK = command_drive(
    CommandSpec(signal="command.velocity", workspace=None, low=(-0.5, -0.4, -2.0), high=(1.0, 0.4, 2.0))
)


def twist(linear: tuple[float, ...] = (0.0, 0.0, 0.0), yaw: float = 0.0, frame: str = "base") -> SimpleNamespace:
    x, y, z = linear
    body = SimpleNamespace(linear=SimpleNamespace(x=x, y=y, z=z), angular=SimpleNamespace(x=0.0, y=0.0, z=yaw))
    return SimpleNamespace(header=SimpleNamespace(frame_id=frame), twist=body)


def joints(**position: float) -> SimpleNamespace:
    return SimpleNamespace(name=list(position), position=list(position.values()))


class Publisher:
    """A person's computer: says over and over what they hold and where they move."""

    def __init__(self, node: FakeNode, topic: str, still: object, moved: object) -> None:
        self.node, self.topic, self.message, self.moved = node, topic, still, moved
        self.engaged = False
        self.silent = False

    def hold(self, engaged: bool) -> None:
        self.engaged = engaged
        self.refresh()

    def move(self) -> None:
        self.message = self.moved
        self.refresh()

    def refresh(self) -> None:
        if not self.silent and not self.node.lost:
            self.node.say(self.topic, self.message, age_s=0.01)
            self.node.switch("engage", self.engaged)


def ros2_bench(drive: HandDrive | None) -> tuple[OperatorBench, Publisher]:
    stage = Stage(len(JOINTS))
    node = FakeNode(stage)
    source = "joints" if drive is None else "twist"
    still, moved = (joints(pan=0.0), joints(pan=0.5)) if drive is None else (twist(), twist((0.05, 0.0, 0.0)))
    publisher = Publisher(node, source, still, moved)
    config = Ros2Config(source=source, drive=drive, joint_names=JOINTS, node=lambda *_: node)

    def tap(name: str) -> None:
        node.switch(name, True)
        node.switch(name, False)

    bench = OperatorBench(
        operator=DeviceFactory((config,))(stage.view),
        stage=stage,
        width=len(JOINTS),
        engage=partial(publisher.hold, True),
        release=partial(publisher.hold, False),
        move=publisher.move,
        lose=node.unplug,
        press={
            **{name: partial(tap, name) for name in ("stop", "done", "give_up", "resume")},
            "rewind": partial(node.switch, "rewind", True),
            "rewind_off": partial(node.switch, "rewind", False),
        },
        refresh=publisher.refresh,
    )
    return bench, publisher


@pytest.mark.parametrize("drive", [TIP, WALK, None], ids=["tip", "walking", "joints"])
class TestRos2KeepsTheContract(DeviceContract):
    @pytest.fixture
    def bench(self, drive: HandDrive | None) -> OperatorBench:
        return ros2_bench(drive)[0]


def driving(drive: HandDrive | None = TIP) -> tuple[OperatorBench, Publisher]:
    bench, publisher = ros2_bench(drive)
    bench.stage.episode = 0
    bench.poll()
    assert bench.do(bench.engage).engaged
    return bench, publisher


def test_a_twist_is_a_tip_velocity_or_a_command_no_farther_than_the_policy_knows():
    bench, publisher = driving()
    publisher.message = twist((0.01, -0.02, 0.03), yaw=9.0)
    assert bench.poll().values == (0.01, -0.02, 0.03)
    bench, publisher = driving(WALK)
    publisher.message = twist((3.0, -0.1, 9.0), yaw=-7.0)
    command = bench.poll()
    assert command.drive == Drive.COMMAND and command.values == (1.0, -0.1, -2.0)


def test_joints_go_by_name_and_those_that_are_not_named_keep_their_target():
    bench, publisher = driving(None)
    publisher.message = joints(grip=0.3, pan=-0.1)
    command = bench.poll()
    assert command.drive == Drive.JOINT_TARGET
    assert command.values[0] == -0.1 and math.isnan(command.values[1]) and command.values[2] == 0.3


def silence(publisher: Publisher) -> None:
    publisher.silent = True


def only_the_motion(publisher: Publisher) -> None:
    publisher.refresh = lambda: publisher.node.say("twist", publisher.message, age_s=0.0)


def only_the_switch(publisher: Publisher) -> None:
    publisher.refresh = lambda: publisher.node.switch("engage", True)


def old_stamps(publisher: Publisher) -> None:
    def refresh() -> None:
        publisher.node.say("twist", publisher.message, age_s=0.3)
        publisher.node.switch("engage", True)

    publisher.refresh = refresh


@pytest.mark.parametrize("fault", [silence, only_the_motion, only_the_switch, old_stamps])
def test_what_is_stale_is_as_good_as_let_go_and_must_be_let_go_before_it_drives_again(
    fault: Callable[[Publisher], None],
):
    bench, publisher = driving()
    whole = publisher.refresh
    fault(publisher)
    bench.refresh = publisher.refresh
    told = [bench.poll().engaged for _ in range(30)]
    assert not any(told[11:]) and not any(bench.poll().values)
    bench.refresh = publisher.refresh = whole
    publisher.silent = False
    assert not any(bench.poll().engaged for _ in range(20))  # the network is back, the finger never moved
    bench.do(bench.release)
    assert bench.do(bench.engage).engaged


def test_a_button_that_was_down_before_anything_else_does_not_count():
    bench, publisher = ros2_bench(TIP)
    bench.stage.episode = 0
    publisher.engaged = True
    assert not any(bench.poll().engaged for _ in range(50))


@pytest.mark.parametrize(
    ("drive", "message", "age_s", "says"),
    [
        (TIP, twist(), None, "/operator/twist bears no time stamp; set header.stamp"),
        (TIP, twist(), -3.0, "stamped 3.0 s ahead .* synchronise the clocks"),
        (TIP, twist(frame="camera"), 0.0, "in frame 'camera', expected .*'base'; transform it"),
        (TIP, twist((math.nan, 0.0, 0.0)), 0.0, r"says \[nan, 0.0, 0.0\]; expected finite"),
        (WALK, twist(yaw=math.inf), 0.0, "expected finite"),
        (None, joints(pan=0.1, wrist=0.2), 0.0, "names .*'wrist'.* all of pan, lift, grip"),
        (None, joints(), 0.0, "expected one position for each"),
        (None, SimpleNamespace(name=["pan", "lift"], position=[0.1]), 0.0, "with 1 positions"),
        (None, SimpleNamespace(name=["pan", "pan"], position=[0.1, 0.2]), 0.0, "expected one position for each"),
        (None, joints(pan=math.nan), 0.0, "expected finite"),
    ],
)
def test_a_message_that_means_nothing_ends_the_operator_with_a_word(
    drive: HandDrive | None, message: object, age_s: float | None, says: str
):
    bench, publisher = driving(drive)
    publisher.node.say(publisher.topic, message, age_s=age_s)
    with pytest.raises(OperatorError, match=says):
        bench.stage.run(bench.operator, 1)


@pytest.mark.parametrize("namespace", ["operator", "/a b", "/", "/1", "/a/"])
def test_a_bad_namespace_is_refused(namespace: str):
    with pytest.raises(OperatorError, match="is no ROS 2 namespace; expected one like /operator"):
        Ros2Config(source="joints", drive=None, joint_names=JOINTS, namespace=namespace).build()


def test_without_rclpy_the_error_says_what_to_install():
    if importlib.util.find_spec("rclpy") is not None:
        pytest.skip("rclpy is installed here, so nothing is missing")
    with pytest.raises(
        OperatorError, match=r"needs rclpy .*install ROS 2 and source its setup.bash.*docs/operators.md"
    ):
        Ros2Config(source="twist", drive=TIP, joint_names=JOINTS).build()


def heard(node: Ros2Node, count: int) -> list[Received]:
    received: list[Received] = []
    deadline = time.monotonic() + 10.0
    while len(received) < count and time.monotonic() < deadline:
        wait([node.fileno()], 0.1)
        received += node.take()
    return received


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> fake_rclpy.Network:
    return fake_rclpy.install(monkeypatch)


@pytest.fixture
def node(network: fake_rclpy.Network) -> Iterator[Ros2Node]:
    node = Ros2Node("/op", "twist", SWITCHES)
    yield node
    node.close()


def test_the_node_hands_messages_over_with_their_age(network: fake_rclpy.Network, node: Ros2Node):
    assert network.initialised == ["no signal handlers"]  # Ctrl-C is the supervisor's
    assert set(network.subscriptions) == {"/op/twist", *(f"/op/{name}" for name in SWITCHES)}
    assert network.subscriptions["/op/twist"][0] is dict and network.subscriptions["/op/stop"][0] is bool
    message: Any = twist()
    before = time.monotonic_ns()
    for age_s in (2.0, -2.0):
        message.header.stamp = fake_rclpy.stamp(age_s)
        network.publish("/op/twist", message)
        first = heard(node, 1)[0]
        assert first.topic == "twist" and first.message is message and first.arrival_ns > before
        assert first.age_ns is not None and age_s <= first.age_ns * 1e-9 < age_s + 1.0
    message.header.stamp = SimpleNamespace(sec=0, nanosec=0)
    network.publish("/op/twist", message)
    network.publish("/op/engage", SimpleNamespace(data=True))
    assert [(r.topic, r.age_ns) for r in heard(node, 2)] == [("twist", None), ("engage", None)]
    assert not wait([node.fileno()], 0.0)


def test_a_node_whose_thread_ends_is_an_error(network: fake_rclpy.Network, node: Ros2Node):
    network.fail(RuntimeError("the middleware died"))
    assert wait([node.fileno()], 10.0)
    with pytest.raises(OperatorError, match="the ROS 2 node has ended: RuntimeError: the middleware died"):
        node.take()


def test_a_node_leaves_the_network_once(network: fake_rclpy.Network, node: Ros2Node):
    node.close()
    node.close()
    assert network.ended == ["node", "context"]


@pytest.mark.skipif(
    importlib.util.find_spec("rclpy") is None,
    reason="ROS 2 IS NOT TESTED: no rclpy in this Python; source a ROS 2 setup.bash, or install its wheels, to run this",
)
def test_real_messages_reach_the_node():
    import rclpy  # pyright: ignore[reportMissingImports]
    from geometry_msgs.msg import TwistStamped  # pyright: ignore[reportMissingImports]
    from std_msgs.msg import Bool  # pyright: ignore[reportMissingImports]

    node = Ros2Node("/isthmus_test", "twist", SWITCHES)
    context = rclpy.Context()
    rclpy.init(context=context)
    peer = rclpy.create_node("isthmus_test_peer", context=context)
    twists = peer.create_publisher(TwistStamped, "/isthmus_test/twist", 10)
    switches = peer.create_publisher(Bool, "/isthmus_test/engage", 10)
    message = TwistStamped()
    message.header.frame_id = "base"
    message.twist.linear.x = 0.25
    seen: dict[str, Received] = {}
    deadline = time.monotonic() + 20.0
    try:
        while len(seen) < 2 and time.monotonic() < deadline:
            message.header.stamp = peer.get_clock().now().to_msg()
            twists.publish(message)
            switches.publish(Bool(data=True))
            wait([node.fileno()], 0.1)
            seen |= {received.topic: received for received in node.take()}
    finally:
        node.close()
        peer.destroy_node()
        context.try_shutdown()
    assert seen["twist"].message.twist.linear.x == 0.25 and seen["engage"].message.data is True
    assert seen["twist"].age_ns is not None and 0 <= seen["twist"].age_ns < 10**9
