"""The twin's physics against closed forms and against plain MuJoCo."""

# pyright: reportAttributeAccessIssue=false
# MuJoCo's compiled modules carry no type information.

from collections.abc import Mapping
from dataclasses import replace

import mujoco
import numpy as np
import pytest

from isthmus.hardware.robot import load_robot
from isthmus.hardware.virtual.arm_clock import LockstepClock, WallClock
from isthmus.hardware.virtual.hidden import HiddenParameters, load_hidden
from isthmus.hardware.virtual.servo_bus import ServoCommand
from isthmus.hardware.virtual.twin import Twin, TwinError

SPEC = load_robot("so101")
DT = 0.002
COUNT = 2 * np.pi / 4096  # rad
COULOMB = 0.052  # N m, model.xml
REACHED_OUT = np.array([0.3, 0.4, -0.5, 0.2, 0.1, 0.3])


def same_for_all(value: float) -> Mapping[str, float]:
    return dict.fromkeys(SPEC.joint_names, value)


NOMINAL = HiddenParameters(
    seed=1,
    payload_kg=0.0,
    friction_scale=1.0,
    gain_scale=1.0,
    latency_ms=5.0,
    backlash_deg=same_for_all(0.0),
    encoder_offset_deg=same_for_all(0.0),
)


def hold(twin: Twin, goals: np.ndarray, *, p_gain: int = 16, torque_limit: float = 1.0) -> None:
    for index, goal in enumerate(goals):
        twin.command(index, ServoCommand(int(goal), True, p_gain, torque_limit), twin.time_s)


def limp(twin: Twin) -> None:
    for index in range(6):
        twin.command(index, ServoCommand(2048, False, 16, 1.0), twin.time_s)


def counts(twin: Twin) -> np.ndarray:
    return np.array([twin.telemetry(index).position for index in range(6)])


def held_at(twin: Twin, pose: np.ndarray) -> None:
    twin.guide(pose)
    hold(twin, counts(twin))
    twin.advance(3000)


def gravity_torque(joint_pos: np.ndarray, payload_kg: float) -> np.ndarray:
    """Torque that holds the nominal model in a pose, the payload as a force on the tip."""
    model = mujoco.MjModel.from_xml_path(str(SPEC.model_path))
    data = mujoco.MjData(model)
    data.qpos[:] = joint_pos
    mujoco.mj_forward(model, data)
    jacobian = np.zeros((3, model.nv))
    mujoco.mj_jacSite(model, data, jacobian, None, data.site("tip").id)
    return data.qfrc_bias + jacobian.T @ np.array([0.0, 0.0, 9.81 * payload_kg])


def test_the_encoder_shows_angle_plus_offset_in_counts():
    hidden = load_hidden("hard")
    twin = Twin(SPEC, hidden)
    offset = np.deg2rad([hidden.encoder_offset_deg[name] for name in SPEC.joint_names])
    for pose in (REACHED_OUT, -0.1 * REACHED_OUT, np.array([-1.5, 1.2, 1.1, -1.4, 2.0, 1.5])):
        twin.guide(pose)
        np.testing.assert_allclose(counts(twin), 2048 + (pose + offset) * 4096 / (2 * np.pi), atol=0.5 + 1e-9)


def test_a_joint_that_counts_down_is_read_and_driven_the_other_way():
    spec = replace(SPEC, joints=tuple(replace(joint, direction=-1) for joint in SPEC.joints))
    twin = Twin(spec, replace(NOMINAL, encoder_offset_deg=same_for_all(1.0)))
    twin.guide(REACHED_OUT)
    expected = 2048 - (REACHED_OUT + np.deg2rad(1.0)) / COUNT
    np.testing.assert_allclose(counts(twin), expected, atol=0.5 + 1e-9)
    held_at(twin, REACHED_OUT)
    assert np.abs(twin.truth().joint_pos - REACHED_OUT).max() < 0.1


@pytest.mark.parametrize("name", ["soft", "worn", "hard"])
def test_gravity_makes_the_held_arm_droop_by_torque_over_stiffness(name):
    hidden = load_hidden(name)
    twin = Twin(SPEC, hidden)
    twin.guide(REACHED_OUT)
    goals = counts(twin)
    held_at(twin, REACHED_OUT)
    servo = 17.8 * hidden.gain_scale * (goals - counts(twin)) * COUNT
    needed = gravity_torque(twin.truth().joint_pos, hidden.payload_kg)
    assert np.abs(needed).max() > 0.5  # otherwise this says nothing
    within = COULOMB * hidden.friction_scale + 17.8 * hidden.gain_scale * COUNT
    assert np.abs(servo - needed).max() <= within


def test_the_payload_is_felt_at_the_tip():
    torque = []
    for payload in (0.0, 0.15):
        twin = Twin(SPEC, replace(NOMINAL, payload_kg=payload, friction_scale=0.5))
        held_at(twin, REACHED_OUT)
        torque.append(twin.telemetry(1).load * 2.94 / 1000)
    lever = gravity_torque(REACHED_OUT, 0.15)[1] - gravity_torque(REACHED_OUT, 0.0)[1]
    assert abs(lever) > 0.2
    assert torque[1] - torque[0] == pytest.approx(lever, abs=COULOMB + 17.8 * COUNT)


@pytest.mark.parametrize("latency_ms", [5.0, 20.0, 35.0, 40.0])
def test_a_goal_acts_its_latency_after_the_write_within_a_physics_step(latency_ms):
    twin = Twin(SPEC, replace(NOMINAL, latency_ms=latency_ms))
    held_at(twin, REACHED_OUT)
    start = twin.time_s
    goals = counts(twin)
    goals[0] += 500
    hold(twin, goals)
    while abs(twin.telemetry(0).load) < 900:
        twin.advance(1)
        assert twin.time_s < start + 0.1
    acted = twin.time_s - DT - start  # the step just done began then
    assert latency_ms * 1e-3 - 1e-9 <= acted < latency_ms * 1e-3 + DT


@pytest.mark.parametrize("backlash_deg", [0.2, 1.0])
def test_reversing_a_constant_torque_takes_up_the_play_of_the_file(backlash_deg):
    twin = Twin(SPEC, replace(NOMINAL, backlash_deg=same_for_all(backlash_deg)))
    twin.guide(np.array([0.0, -1.0, 1.0, 0.5, 0.0, 0.5]))
    goals = counts(twin)
    lag = []
    for far in (4095, 0):
        goals[0] = far
        hold(twin, goals, torque_limit=0.03)  # just above friction: the teeth meet gently
        for _ in range(1000):
            twin.advance(1)
            truth = twin.truth()
            lag.append(truth.joint_pos[0] - truth.motor_pos[0])
    assert max(lag) - min(lag) == pytest.approx(np.deg2rad(backlash_deg), abs=np.deg2rad(0.01))


def test_constant_torque_ends_in_the_speed_that_friction_allows():
    twin = Twin(SPEC, NOMINAL)
    twin.guide(np.array([-1.5, -1.0, 1.0, 0.5, 0.0, 0.5]))
    goals = counts(twin)
    goals[0] = 4095
    hold(twin, goals, torque_limit=0.15)
    twin.advance(750)
    start, shown = counts(twin)[0], []
    for _ in range(250):
        twin.advance(1)
        shown.append(twin.telemetry(0).velocity)
    speed = (0.15 * 2.94 - COULOMB) / 0.60  # torque = Coulomb + viscous friction
    assert (counts(twin)[0] - start) * COUNT / 0.5 == pytest.approx(speed, rel=0.02)
    assert np.mean(shown) * COUNT == pytest.approx(speed, rel=0.02)


def test_the_limp_arm_stays_in_its_resting_pose():
    for name in ("soft", "worn", "hard"):
        twin = Twin(SPEC, load_hidden(name))
        start = twin.truth().joint_pos
        twin.advance(5000)
        assert np.abs(twin.truth().joint_pos - start).max() < np.deg2rad(1.0)


def test_a_limp_arm_falls_on_the_table_and_a_driven_one_stays():
    twin = Twin(SPEC, NOMINAL)
    held_at(twin, REACHED_OUT)
    height = twin.truth().tip_pos[2]
    assert height > 0.2
    limp(twin)
    twin.advance(4000)
    assert -0.005 < twin.truth().tip_pos[2] < 0.05


def test_a_person_holds_the_limp_arm_until_letting_go():
    twin = Twin(SPEC, NOMINAL)
    twin.guide(REACHED_OUT)
    twin.advance(500)
    np.testing.assert_allclose(twin.truth().joint_pos, REACHED_OUT, atol=1e-12)
    twin.release()
    twin.advance(500)
    assert np.abs(twin.truth().joint_pos - REACHED_OUT).max() > 0.05


def test_torque_takes_the_arm_over_from_the_person():
    twin = Twin(SPEC, NOMINAL)
    twin.guide(REACHED_OUT)
    hold(twin, counts(twin) + 100)
    twin.advance(1000)
    assert np.abs(twin.truth().joint_pos[0] - REACHED_OUT[0]) > 0.1


def test_guiding_is_refused_under_torque_and_beyond_the_joints():
    twin = Twin(SPEC, NOMINAL)
    with pytest.raises(TwinError, match=r"elbow_flex = 2.0 rad lies outside its range -1.69 .. 1.69"):
        twin.guide(np.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0]))
    with pytest.raises(TwinError, match=r"a pose has 6 angles, got shape \(2,\)"):
        twin.guide(np.zeros(2))
    hold(twin, counts(twin))
    twin.advance(10)
    with pytest.raises(TwinError, match=r"while torque is on \(shoulder_pan, .*switch torque off first"):
        twin.guide(REACHED_OUT)


def test_hard_work_warms_the_servo_slowly():
    twin = Twin(SPEC, NOMINAL)
    held_at(twin, REACHED_OUT)
    before = twin.telemetry(1).temperature
    goals = counts(twin)
    goals[1] = 0  # into its stop: full torque
    hold(twin, goals, p_gain=32)
    twin.advance(15000)
    assert before + 2 <= twin.telemetry(1).temperature <= before + 10


def test_real_time_follows_the_wall_clock_and_loses_time_after_a_stall():
    wall = [100.0]
    twin = Twin(SPEC, NOMINAL)
    clock = WallClock(twin, lambda: wall[0])
    for _ in range(50):
        wall[0] += 0.0133
        assert clock.now() == pytest.approx(wall[0] - 100.0)
        assert 0 <= wall[0] - 100.0 - twin.time_s < DT + 1e-9
    before = twin.time_s
    wall[0] += 5.0
    clock.now()
    assert 0.1 - DT - 1e-9 < twin.time_s - before <= 0.1 + DT + 1e-9
    with pytest.raises(ValueError, match="real time; start it with --lockstep"):
        clock.advance(0.02)


def test_lockstep_adds_up_what_is_less_than_a_step():
    twin = Twin(SPEC, NOMINAL)
    clock = LockstepClock(twin)
    for _ in range(1000):
        clock.advance(0.0033)
    assert twin.time_s == pytest.approx(3.3, abs=DT)
    with pytest.raises(ValueError, match="dt_s must lie within"):
        clock.advance(-1.0)
