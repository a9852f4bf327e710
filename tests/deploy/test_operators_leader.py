"""A leader arm keeps the contract with a pedal; it is limp, aligned before it drives, and read right across the encoder's end."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import pytest
from deploy_fakes import STEP, Bench
from fake_bus import FakeBus  # pyright: ignore[reportMissingImports]
from input_devices import pedal
from operator_bench import FakeInput, OperatorBench, Stage
from operator_contract import DeviceContract

from isthmus.deploy.messages import Drive
from isthmus.deploy.modes import Mode
from isthmus.deploy.operators.device import DeviceFactory
from isthmus.deploy.operators.leader_arm import LeaderArm, LeaderConfig, Mapping, unwrapped
from isthmus.deploy.operators.operator import OperatorError, View
from isthmus.deploy.operators.pedal import PedalConfig
from isthmus.deploy.operators.person import Person
from isthmus.hardware.joint_calibration import ArmCalibration, encoder_map
from isthmus.hardware.robot import load_robot
from isthmus.hardware.virtual.client import VirtualArm

SPEC = load_robot("so101")
NOMINAL = ArmCalibration.nominal(SPEC)
COUNT = 2 * np.pi / 4096  # rad
PRESENT = 56  # register


def config(port: str, mapping: Mapping = "clutch", **changes: object) -> LeaderConfig:
    settings = {"whole_range": (), "timeout_s": 0.2, **changes}
    return LeaderConfig(leader=SPEC, follower=SPEC, port=port, calibration=NOMINAL, mapping=mapping, **settings)  # pyright: ignore[reportArgumentType]


class Hand:
    """Moves a leader whose servos are only memory."""

    def __init__(self, bus: FakeBus) -> None:
        self.bus = bus

    def turn(self, joint: str, counts: int) -> None:
        servo = self.bus.servos[SPEC.joints[SPEC.joint_names.index(joint)].bus_id]
        servo.put(PRESENT, servo.get(PRESENT, 2) + counts, 2)

    def put(self, joint: str, counts: int) -> None:
        self.bus.servos[SPEC.joints[SPEC.joint_names.index(joint)].bus_id].put(PRESENT, counts, 2)

    def pose(self) -> np.ndarray:
        counts = [self.bus.servos[joint.bus_id].get(PRESENT, 2) for joint in SPEC.joints]
        return encoder_map(NOMINAL, SPEC).to_rad(np.array(counts, dtype=float))


@pytest.fixture
def bus() -> Iterator[FakeBus]:
    bus = FakeBus()
    yield bus
    bus.unplug()


def leader_bench(bus: FakeBus, mapping: Mapping) -> tuple[OperatorBench, FakeInput]:
    foot, hand, stage = pedal(), Hand(bus), Stage()
    stage.executed = hand.pose()
    factory = DeviceFactory((config(bus.port, mapping), PedalConfig(device=None, open=foot.opener())))
    bench = OperatorBench(
        operator=factory(stage.view),
        stage=stage,
        width=6,
        engage=partial(foot.key, 30, 1),
        release=partial(foot.key, 30, 0),
        move=partial(hand.turn, "elbow_flex", 20),
        lose=bus.unplug,
        press={
            "done": partial(foot.tap, 46),
            "rewind": partial(foot.key, 48, 1),
            "rewind_off": partial(foot.key, 48, 0),
        },
    )
    return bench, foot


@pytest.mark.parametrize("mapping", ["clutch", "absolute"])
class TestALeaderWithAPedalKeepsTheContract(DeviceContract):
    @pytest.fixture
    def bench(self, bus: FakeBus, mapping: Mapping) -> Iterator[OperatorBench]:
        bench, _ = leader_bench(bus, mapping)
        yield bench
        bench.operator.close()


def begun(bus: FakeBus, mapping: Mapping) -> OperatorBench:
    bench, _ = leader_bench(bus, mapping)
    bench.stage.episode = 0
    bench.poll()
    return bench


def test_an_absolute_leader_drives_only_once_it_is_where_the_robot_is(bus: FakeBus):
    bench, hand = begun(bus, "absolute"), Hand(bus)
    hand.turn("wrist_flex", 200)  # 0.31 rad away
    assert not bench.do(bench.engage).engaged
    assert not any(bench.poll().engaged for _ in range(20))
    hand.turn("wrist_flex", -140)  # 0.09 rad
    command = bench.poll()
    assert command.engaged and command.drive == Drive.JOINT_TARGET
    np.testing.assert_allclose(bench.poll().values, hand.pose())
    hand.turn("wrist_flex", 300)  # the robot follows behind: nobody is thrown out
    assert bench.poll().engaged


def test_an_absolute_leader_does_not_drive_before_the_robots_pose_is_known(bus: FakeBus):
    bench = begun(bus, "absolute")
    bench.stage.executed = np.full(6, np.nan)
    assert not bench.do(bench.engage).engaged


def test_after_going_back_an_absolute_leader_must_be_where_the_robot_is_again(bus: FakeBus):
    bench, hand = begun(bus, "absolute"), Hand(bus)
    bench.do(bench.engage)
    bench.do(bench.press["rewind"])
    bench.stage.executed = hand.pose() + 0.3  # where the way back led
    command = bench.do(bench.press["rewind_off"])
    assert command.engaged and np.isnan(command.values).all()  # it stays where it is, in the person's hands
    assert np.isnan(bench.poll().values).all()
    bench.stage.executed = hand.pose() + 0.05
    np.testing.assert_allclose(bench.poll().values, hand.pose())


def test_with_a_clutch_the_robot_moves_as_far_as_the_leader_since_it_closed(bus: FakeBus):
    bench, hand = begun(bus, "clutch"), Hand(bus)
    bench.stage.executed = hand.pose() + 0.5  # wherever the robot is
    hand.turn("elbow_flex", 300)
    command = bench.do(bench.engage)
    assert command.engaged and command.drive == Drive.JOINT_OFFSET and not any(command.values)
    assert not any(bench.poll().values)
    hand.turn("elbow_flex", 100)
    np.testing.assert_allclose(bench.poll().values, [0, 0, 100 * COUNT, 0, 0, 0])
    bench.do(bench.release)
    hand.turn("elbow_flex", -350)  # moved while the clutch is open
    assert not any(bench.do(bench.engage).values) and not any(bench.poll().values)
    hand.turn("elbow_flex", -10)
    np.testing.assert_allclose(bench.poll().values, [0, 0, -10 * COUNT, 0, 0, 0], atol=1e-12)


def test_what_the_leader_moves_while_the_runtime_does_not_hand_over_does_not_count(bus: FakeBus):
    bench, hand = begun(bus, "clutch"), Hand(bus)
    bench.stage.hands_over = False  # it holds for a reason of its own
    bench.do(bench.engage)
    for _ in range(5):
        hand.turn("elbow_flex", 50)
        assert not any(bench.poll().values)
    bench.stage.hands_over = True
    assert not any(bench.poll().values)
    hand.turn("elbow_flex", 50)
    np.testing.assert_allclose(bench.poll().values, [0, 0, 50 * COUNT, 0, 0, 0], atol=1e-12)


def test_after_going_back_the_clutch_closes_anew(bus: FakeBus):
    bench, hand = begun(bus, "clutch"), Hand(bus)
    bench.do(bench.engage)
    hand.turn("elbow_flex", 100)
    assert not any(bench.do(bench.press["rewind"]).values)
    hand.turn("elbow_flex", 50)
    assert not any(bench.do(bench.press["rewind_off"]).values)
    hand.turn("elbow_flex", 15)  # before the runtime has handed over
    assert not any(bench.poll().values)
    hand.turn("elbow_flex", 10)
    np.testing.assert_allclose(bench.poll().values, [0, 0, 10 * COUNT, 0, 0, 0], atol=1e-12)


def test_a_wrist_that_turns_past_the_encoders_end_goes_on(bus: FakeBus):
    bench, hand = begun(bus, "clutch"), Hand(bus)
    hand.put("wrist_roll", 4090)
    bench.poll()
    bench.do(bench.engage)
    bench.poll()
    hand.put("wrist_roll", 4)
    np.testing.assert_allclose(bench.poll().values[4], 10 * COUNT)
    hand.put("wrist_roll", 4080)
    np.testing.assert_allclose(bench.poll().values[4], -10 * COUNT)


def test_unwrapped_counts_are_the_nearest():
    rng = np.random.default_rng(0)
    way = np.cumsum(rng.uniform(-2000, 2000, (500, 3)), axis=0)
    counts = way[0]
    for true in way[1:]:
        counts = unwrapped(true % 4096, counts, 4096)
        np.testing.assert_allclose(counts, true, atol=1e-6)


def test_a_trigger_opens_the_gripper_all_the_way(bus: FakeBus):
    joints = dict(NOMINAL.joints)
    changed = {"range_min": 2000, "range_max": 2600}
    joints["gripper"] = type(joints["gripper"])(**{**vars(joints["gripper"]), **changed})
    leader = LeaderArm(
        LeaderConfig(
            leader=SPEC, follower=SPEC, port=bus.port, calibration=ArmCalibration(robot="so101", joints=joints),
            mapping="absolute", timeout_s=0.2,
        )
    )  # fmt: skip
    person, gripper = Person(), SPEC.joints[5]
    for counts, expected in ((2000, gripper.lower), (2300, (gripper.lower + gripper.upper) / 2), (2600, gripper.upper)):
        Hand(bus).put("gripper", counts)
        leader.read(person)
        assert leader.values(person, Stage().view())[5] == pytest.approx(expected)
    leader.close()


def test_a_joint_that_the_leader_does_not_have_keeps_its_target(bus: FakeBus):
    hand = load_robot("so101_peg")
    renamed = [type(joint)(**{**vars(joint), "name": f"other_{joint.name}"}) for joint in hand.joints[:2]]
    follower = type(hand)(**{**vars(hand), "joints": (*renamed, *hand.joints[2:])})
    leader = LeaderArm(LeaderConfig(leader=SPEC, follower=follower, port=bus.port, calibration=NOMINAL, timeout_s=0.2))
    values = leader.values(Person(), Stage().view())
    assert np.isnan(values).tolist() == [True, True] + [False] * (len(follower.joints) - 2)
    leader.close()


def test_a_leader_goes_limp(bus: FakeBus):
    for servo in bus.servos.values():
        servo.write(40, b"\x01")
    LeaderArm(config(bus.port)).close()
    assert [servo.get(40, 1) for servo in bus.servos.values()] == [0] * 6


def test_the_calibration_of_another_arm_is_refused_and_the_port_is_free_again(bus: FakeBus):
    bus.servos[3].put(31, 100, 2)
    with pytest.raises(
        OperatorError, match=r"leader arm: servo 3 .elbow_flex of the leader.*the leader, not the follower's"
    ):
        LeaderArm(config(bus.port))
    bus.servos[3].put(31, 0, 2)
    LeaderArm(config(bus.port)).close()


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda bus: bus.servos.pop(2), "no answer from servo 2 .shoulder_lift of the leader"),
        (lambda bus: bus.servos[4].put(3, 1000, 2), "of model 1000, expected 777"),
        (lambda bus: bus.unplug(), "does not exist|cannot be opened"),
    ],
)
def test_a_leader_that_is_not_whole_is_refused(bus: FakeBus, break_it: object, says: str):
    break_it(bus)  # pyright: ignore[reportCallIssue]
    with pytest.raises(OperatorError, match=f"leader arm: .*({says})"):
        LeaderArm(config(bus.port, timeout_s=0.01))


def test_a_leader_of_another_robot_is_refused():
    cartpole = load_robot("cartpole")
    with pytest.raises(OperatorError, match="has no joint of robot 'cartpole'"):
        LeaderArm(LeaderConfig(leader=SPEC, follower=cartpole, port="none", calibration=NOMINAL))


def test_a_virtual_leader_is_guided_by_hand_and_followed():
    with VirtualArm("soft", lockstep=True) as machine:
        foot, stage = pedal(), Stage()
        factory = DeviceFactory((config(machine.port, timeout_s=2.0), PedalConfig(device=None, open=foot.opener())))
        machine.guide(np.zeros(6))
        machine.advance(0.5)
        operator = factory(stage.view)
        stage.episode = 0
        stage.run(operator, 1)
        foot.key(30)
        assert not any(any(command.values) for command in stage.run(operator, 2))
        moved = np.array([0.2, -0.1, 0.15, 0.1, -0.2, 0.3])
        machine.guide(moved)
        machine.advance(0.5)
        command = stage.run(operator, 1)[0]
        operator.close()
    assert command.engaged
    np.testing.assert_allclose(command.values, moved, atol=0.03)


def test_the_runtime_moves_the_robot_as_far_as_the_leader_and_no_tick_jumps(bus: FakeBus):
    runtime = Bench()
    runtime.arm()
    runtime.start_policy(20)
    foot, hand = pedal(), Hand(bus)

    def view() -> View:
        rt = runtime.runtime
        return View(
            episode=rt.episode, mode=rt.mode, target=np.zeros(3), joint_pos=rt.joint_pos, executed_target=rt.executed
        )

    operator = DeviceFactory((config(bus.port), PedalConfig(device=None, open=foot.opener())))(view)

    def ticks(count: int) -> None:
        for _ in range(count):
            runtime.desk.operator = partial(operator.poll, runtime.clock.now_ns())
            runtime.steps(1)

    ticks(5)
    foot.key(30)
    ticks(25)  # the blend ends
    assert runtime.runtime.mode is Mode.TELEOP
    before = runtime.runtime.executed.copy()
    hand.turn("elbow_flex", 100)
    ticks(25)
    np.testing.assert_allclose(runtime.runtime.executed - before, [0, 0, 100 * COUNT, 0, 0, 0], atol=1e-6)
    foot.key(30, 0)
    ticks(1)
    assert runtime.runtime.mode is Mode.POLICY
    operator.close()
    steps = np.abs(np.diff([tick["executed_target"] for tick in runtime.ticks()[-60:]], axis=0))
    assert (steps <= STEP + 1e-9).all()
