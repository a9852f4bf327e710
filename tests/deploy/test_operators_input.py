"""Gamepads, pedals and pucks keep the contract; sticks, triggers and buttons of pads that the kernel describes differently."""

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import pytest
from input_devices import (
    old_pad,
    pad_with_trigger_buttons,
    pedal,
    relative_spacemouse,
    rest,
    spacemouse,
    xbox_by_bluetooth,
    xbox_by_cable,
)
from operator_bench import FakeInput, OperatorBench, Stage
from operator_contract import DeviceContract

from isthmus.deploy.messages import Drive
from isthmus.deploy.operators.axis import AxisRange, deflection
from isthmus.deploy.operators.device import DeviceFactory
from isthmus.deploy.operators.gamepad import GamepadConfig, is_gamepad, layout_of
from isthmus.deploy.operators.hand_drive import HandDrive, command_drive, joint_drive, tip_drive
from isthmus.deploy.operators.input_codes import Axis, Button
from isthmus.deploy.operators.operator import OperatorError
from isthmus.deploy.operators.pedal import PedalConfig
from isthmus.deploy.operators.spacemouse import SpaceMouseConfig, is_spacemouse
from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import CommandSpec

TIP = tip_drive(0.1)
WALK = command_drive(
    CommandSpec(signal="command.velocity", workspace=None, low=(-0.5, -0.4, -2.0), high=(1.0, 0.4, 2.0))
)
A, B, C = 30, 48, 46  # KEY_A, KEY_B, KEY_C


def gamepad_bench(pad: FakeInput, drive: HandDrive = TIP) -> OperatorBench:
    rest(pad)
    stage = Stage()
    trigger = layout_of(pad).trigger

    def pull(on: bool) -> None:
        if trigger is None:
            pad.key(Button.RIGHT_TRIGGER, int(on))
        else:
            pad.move(trigger, pad.axes[trigger].high if on else pad.axes[trigger].low)

    return OperatorBench(
        operator=DeviceFactory((GamepadConfig(drive=drive, open=pad.opener()),))(stage.view),
        stage=stage,
        width=3,
        engage=partial(pull, True),
        release=partial(pull, False),
        move=lambda: pad.move(Axis.Y, pad.axes[Axis.Y].low),
        lose=pad.unplug,
        press={
            "stop": partial(pad.tap, Button.EAST),
            "done": partial(pad.tap, Button.SOUTH),
            "give_up": partial(pad.tap, Button.NORTH),
            "resume": partial(pad.tap, Button.START),
            "rewind": partial(pad.key, Button.LEFT_BUMPER, 1),
            "rewind_off": partial(pad.key, Button.LEFT_BUMPER, 0),
        },
    )


def puck_bench(puck: FakeInput, drive: HandDrive = TIP) -> OperatorBench:
    stage = Stage()
    push = puck.move if puck.axes else puck.move_relative
    return OperatorBench(
        operator=DeviceFactory((SpaceMouseConfig(drive=drive, open=puck.opener()),))(stage.view),
        stage=stage,
        width=3,
        engage=partial(puck.key, Button.LEFT_OF_PUCK, 1),
        release=partial(puck.key, Button.LEFT_OF_PUCK, 0),
        move=partial(push, Axis.Y, -350),
        lose=puck.unplug,
        press={
            "rewind": partial(puck.key, Button.RIGHT_OF_PUCK, 1),
            "rewind_off": partial(puck.key, Button.RIGHT_OF_PUCK, 0),
        },
    )


def pedal_bench(toggle: bool) -> OperatorBench:
    """The pedal and, for the motion, a puck."""
    foot, puck = pedal(), spacemouse()
    stage = Stage()
    configs = (
        SpaceMouseConfig(drive=TIP, open=puck.opener()),
        PedalConfig(device=None, toggle=toggle, open=foot.opener()),
    )
    return OperatorBench(
        operator=DeviceFactory(configs)(stage.view),
        stage=stage,
        width=3,
        engage=partial(foot.tap, A) if toggle else partial(foot.key, A, 1),
        release=partial(foot.tap, A) if toggle else partial(foot.key, A, 0),
        move=partial(puck.move, Axis.Y, -350),
        lose=foot.unplug,
        press={
            "done": partial(foot.tap, C),
            "rewind": partial(foot.key, B, 1),
            "rewind_off": partial(foot.key, B, 0),
        },
        held=not toggle,
    )


BENCHES: dict[str, Callable[[], OperatorBench]] = {
    "xbox by cable": lambda: gamepad_bench(xbox_by_cable()),
    "xbox by bluetooth": lambda: gamepad_bench(xbox_by_bluetooth()),
    "trigger buttons": lambda: gamepad_bench(pad_with_trigger_buttons()),
    "old pad": lambda: gamepad_bench(old_pad()),
    "walking by gamepad": lambda: gamepad_bench(xbox_by_cable(), WALK),
    "spacemouse": lambda: puck_bench(spacemouse()),
    "relative spacemouse": lambda: puck_bench(relative_spacemouse()),
    "walking by spacemouse": lambda: puck_bench(spacemouse(), WALK),
    "pedal": lambda: pedal_bench(False),
    "toggled pedal": lambda: pedal_bench(True),
}


@pytest.mark.parametrize("kind", BENCHES)
class TestInputDevicesKeepTheContract(DeviceContract):
    @pytest.fixture
    def bench(self, kind: str) -> OperatorBench:
        return BENCHES[kind]()


def engaged(bench: OperatorBench) -> OperatorBench:
    bench.stage.episode = 0
    bench.poll()
    assert bench.do(bench.engage).engaged
    return bench


@pytest.mark.parametrize("make", [xbox_by_cable, xbox_by_bluetooth, pad_with_trigger_buttons, old_pad])
def test_sticks_drive_forward_left_and_up(make: Callable[[], FakeInput]):
    pad = make()
    bench = engaged(gamepad_bench(pad))
    up, axes = layout_of(pad).stick_y, pad.axes
    assert bench.poll().values == (0.0, 0.0, 0.0)
    pad.move(Axis.Y, axes[Axis.Y].low)
    assert bench.poll().values == (0.1, 0.0, 0.0)
    pad.move(Axis.X, axes[Axis.X].high)
    assert bench.poll().values == (0.1, -0.1, 0.0)
    pad.move(up, axes[up].low)
    assert bench.poll().values == (0.1, -0.1, 0.1)


def test_sticks_walk_within_what_the_policy_was_trained_for():
    pad = xbox_by_cable()
    bench = engaged(gamepad_bench(pad, WALK))
    pad.move(Axis.Y, 32767)
    pad.move(Axis.RX, -32768)
    command = bench.poll()
    assert command.drive == Drive.COMMAND and command.values == (-0.5, 0.0, 2.0)


def test_a_trigger_that_is_pulled_half_way_does_not_flutter():
    pad = xbox_by_cable()
    bench = gamepad_bench(pad)
    bench.stage.episode = 0
    bench.poll()

    def way(share: float) -> bool:
        pad.move(Axis.RZ, round(1023 * share))
        return bench.poll().engaged

    assert [way(s) for s in (0.3, 0.55, 0.65, 0.55, 0.45, 0.35, 0.55)] == [False, False, True, True, True, False, False]


def test_a_pull_and_a_let_go_between_two_polls_leave_the_robot_alone():
    pad = pad_with_trigger_buttons()
    bench = gamepad_bench(pad)
    bench.stage.episode = 0
    bench.poll()
    pad.tap(Button.RIGHT_TRIGGER)
    assert not bench.poll().engaged
    bench.do(bench.engage)
    pad.key(Button.RIGHT_TRIGGER, 0)
    pad.key(Button.RIGHT_TRIGGER, 1)
    assert bench.poll().engaged  # let go and taken again


def test_a_stick_within_its_dead_zone_moves_nothing_and_beyond_it_there_is_no_jump():
    axis = AxisRange(low=0, high=65535, flat=4095)
    values = [deflection(v, axis, 0.05) for v in range(65536)]
    assert values[0] == -1.0 and values[65535] == 1.0
    assert deflection(80_000, axis, 0.05) == 1.0
    still = [v for v, d in enumerate(values) if d == 0.0]
    assert still[0] == 32767.5 - 4094.5 and still[-1] == 32767.5 + 4094.5  # flat is larger than 5 %
    assert max(b - a for a, b in pairwise(values)) < 5e-5
    assert deflection(32767 + 5000, axis, 0.2) == 0.0


def test_a_pad_without_a_clear_trigger_is_refused_and_given_back():
    pad = FakeInput(name="odd", keys=(Button.SOUTH,), axes=xbox_by_cable().axes)
    del pad.axes[Axis.RZ]
    with pytest.raises(OperatorError, match="odd has no right trigger and two sticks"):
        GamepadConfig(drive=TIP, open=pad.opener()).build()
    assert pad.closed == 1


@pytest.mark.parametrize("config", [GamepadConfig, SpaceMouseConfig])
def test_a_robot_that_is_driven_joint_by_joint_needs_another_device(config: type):
    drive = joint_drive(load_robot("so101"), 0.3)
    with pytest.raises(OperatorError, match=r"driven joint by joint .6 joints.; use keyboard"):
        config(drive=drive, open=spacemouse().opener()).build()


def test_a_puck_moves_the_tip_the_way_it_is_pushed():
    puck = spacemouse()
    bench = engaged(puck_bench(puck))
    for axis, value, expected in (
        (Axis.Y, -350, (0.1, 0.0, 0.0)),  # pushed away
        (Axis.X, -350, (0.0, 0.1, 0.0)),  # to the left
        (Axis.Z, -350, (0.0, 0.0, 0.1)),  # lifted
        (Axis.RZ, -350, (0.0, 0.0, 0.0)),  # twisted
        (Axis.Y, 20, (0.0, 0.0, 0.0)),  # breathed on
    ):
        puck.move(axis, value)
        assert bench.poll().values == expected
        puck.move(axis, 0)
        assert bench.poll().values == (0.0, 0.0, 0.0)


def test_a_twisted_puck_turns_what_walks():
    puck = spacemouse()
    bench = engaged(puck_bench(puck, WALK))
    puck.move(Axis.RZ, -350)
    puck.move(Axis.Z, -350)
    assert bench.poll().values == (0.0, 0.0, 2.0)


def test_a_puck_of_relative_axes_that_falls_silent_is_in_the_middle():
    puck = relative_spacemouse()
    bench = engaged(puck_bench(puck))
    for _ in range(20):
        puck.move_relative(Axis.X, 350)
        assert bench.poll().values == (0.0, -0.1, 0.0)
    values = [bench.poll().values for _ in range(8)]
    assert values[0] == (0.0, -0.1, 0.0) and values[-1] == (0.0, 0.0, 0.0)


def test_devices_are_told_apart():
    pads = [xbox_by_cable(), xbox_by_bluetooth(), pad_with_trigger_buttons(), old_pad()]
    pucks = [spacemouse(), relative_spacemouse()]
    assert all(map(is_gamepad, pads)) and not any(map(is_spacemouse, pads))
    assert all(map(is_spacemouse, pucks)) and not any(map(is_gamepad, pucks))
    assert not is_gamepad(pedal()) and not is_spacemouse(pedal())


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({}, "has no key 46, 48"),
        ({"rewind": None, "done": 999}, "has no key 999"),
        ({"rewind": 30, "done": None}, "cannot have one key for two"),
    ],
)
def test_a_pedal_without_the_keys_is_refused_and_given_back(keys: dict[str, int | None], says: str):
    foot = pedal(keys=(30,))
    with pytest.raises(OperatorError, match=f"{says}.*evtest.*--pedal-keys"):
        PedalConfig(device=None, open=foot.opener(), **keys).build()  # pyright: ignore[reportArgumentType]
    assert foot.closed == 1


def test_a_pedal_of_one_key_is_enough():
    foot = pedal(keys=(30,))
    PedalConfig(device=None, rewind=None, done=None, open=foot.opener()).build().close()


def test_a_toggled_pedal_that_is_held_down_does_not_flutter():
    foot, puck = pedal(), spacemouse()
    stage = Stage()
    configs = (
        SpaceMouseConfig(drive=TIP, open=puck.opener()),
        PedalConfig(device=None, toggle=True, open=foot.opener()),
    )
    operator = DeviceFactory(configs)(stage.view)
    stage.episode = 0
    stage.run(operator, 1)
    foot.key(A)
    for _ in range(5):
        assert stage.run(operator, 1)[0].engaged
        foot.key(A, 2)  # the kernel repeats keys that are held


def test_a_pedal_must_be_named():
    with pytest.raises(OperatorError, match="looks like any other keyboard; name its device with --pedal"):
        PedalConfig(device=None).build()


def test_who_must_hold_something_is_told_in_the_first_line():
    assert "HOLD THE RIGHT TRIGGER" in GamepadConfig(drive=TIP).first_line
    assert "HOLD ITS LEFT BUTTON" in SpaceMouseConfig(drive=TIP).first_line
    assert "HOLD THE PEDAL DOWN" in PedalConfig(device=None).first_line
    assert "HOLD" not in PedalConfig(device=None, toggle=True).first_line


def test_letting_go_of_one_switch_releases_whatever_else_is_pressed():
    foot, puck = pedal(), spacemouse()
    stage = Stage()
    configs = (SpaceMouseConfig(drive=TIP, open=puck.opener()), PedalConfig(device=None, open=foot.opener()))
    operator = DeviceFactory(configs)(stage.view)
    stage.episode = 0
    stage.run(operator, 1)
    puck.key(Button.LEFT_OF_PUCK)
    foot.key(A)
    assert stage.run(operator, 1)[0].engaged
    foot.key(A, 0)
    assert not any(c.engaged for c in stage.run(operator, 10))
    puck.key(Button.LEFT_OF_PUCK, 0)
    puck.key(Button.LEFT_OF_PUCK)
    assert stage.run(operator, 1)[0].engaged


def test_where_one_device_cannot_be_opened_the_others_are_given_back():
    puck = spacemouse()
    configs = (SpaceMouseConfig(drive=TIP, open=puck.opener()), PedalConfig(device=None))
    with pytest.raises(OperatorError):
        DeviceFactory(configs)(Stage().view)
    assert puck.closed == 1
