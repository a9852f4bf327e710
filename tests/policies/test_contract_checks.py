"""Contracts that cannot be computed, or are not of the robot at hand, are refused by name before anything is trained."""

from dataclasses import replace

import pytest
import torch

from isthmus.hardware.robot import load_robot
from isthmus.policies.contract import (
    CommandSpec,
    ContractError,
    JointEffort,
    JointPosition,
    ObservationTerm,
    PhaseClock,
    bind,
    history,
)
from isthmus.policies.contract_checks import check_contract
from isthmus.policies.contracts import get_contract
from isthmus.policies.fit import fit, fit_in_order
from isthmus.policies.learning.graph import ContractGraph
from isthmus.sim.tasks import get_task, tasks

CARTPOLE, REACH, GO2, QUADROTOR = map(
    get_contract, ("cartpole-balance", "so101-reach", "go2-velocity", "quadrotor-hover")
)


def observing(contract, **term):
    return replace(contract, observation=(ObservationTerm(**{"name": "last_action", "scale": 1.0, **term}),))


def acting(contract, **action):
    return replace(contract, action=replace(contract.action, **action))


def asked(contract, **command):
    return replace(contract, command=replace(contract.command, **command))


def fitted(name, contract, check=fit):
    task = get_task(name)
    signals = ("joint_pos", "joint_vel", "joint_target", "joint_effort_target", "command.target", "command.cart")
    signals += ("command.position", "rotor_speed_target", "gyro", "base_pos", "base_quat", "base_lin_vel")
    return check(contract, task.scene().robot, task=name, period=task.period, signals=signals)


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        (observing(CARTPOLE, clip=0.0), "'last_action': clip must be positive, got 0.0"),
        (observing(CARTPOLE, clip=-1.0), "'last_action': clip must be positive, got -1.0"),
        (observing(CARTPOLE, scale=0.0), "'last_action': scale 0.0 must not be 0"),
        (observing(CARTPOLE, lags=()), r"'last_action': lags \(\) must be whole numbers of ticks"),
        (observing(CARTPOLE, lags=(-2,)), r"'last_action': lags \(-2,\) must be"),
        (observing(CARTPOLE, lags=(1.5,)), r"'last_action': lags \(1\.5,\) must be"),
        (observing(CARTPOLE, lags=(10**6,)), r"must be whole numbers of ticks, 0 \.\. 1000"),
        (replace(CARTPOLE, observation=()), "observation is empty"),
        (observing(CARTPOLE, name="target"), "'target' needs command.target, but the command is 'command.cart'"),
        (observing(CARTPOLE, name="tip_error"), "'tip_error' needs command.target"),
        (observing(GO2, name="base_pos_error"), "'base_pos_error' needs command.position"),
        (observing(GO2, name="tip_rotation"), "'tip_rotation' needs a chain to the tip"),
        (observing(QUADROTOR, name="joint_pos"), "'joint_pos' is of joints, but"),
        (observing(QUADROTOR, name="all_joint_vel"), "'all_joint_vel' is of joints, but"),
        (acting(GO2, clip=0.0), "action.clip must be positive, got 0.0"),
        (acting(GO2, clip=-1.0), "action.clip must be positive, got -1.0"),
        (acting(GO2, scale=0.0), r"action.scale 0\.0 must not be 0: a joint would never move"),
        (acting(REACH, max_lead=0.0), "action.max_lead must be positive"),
        (acting(QUADROTOR, hover=0.0), "action.hover must be positive, got 0.0"),
        (acting(QUADROTOR, max_speed=-1.0), "action.max_speed must be positive, got -1.0"),
        (acting(QUADROTOR, max_speed=1.0), r"action.hover, action.max_speed = .*, 1\.0; the first must not be above"),
        (acting(CARTPOLE, joints=("slider", "slider")), r"hold \['slider'\] more than once"),
        (acting(QUADROTOR, rotors=("m1", "m2", "m2", "m4")), r"hold \['m2'\] more than once"),
        (acting(CARTPOLE, joints=()), "the action drives nothing"),
        (acting(CARTPOLE, joints=("wheel",)), r"joints \['wheel'\] are driven .* not among the contract's joints"),
        (
            replace(CARTPOLE, joints=(*CARTPOLE.joints, CARTPOLE.joints[0])),
            r"joints .* hold \['slider'\] more than once",
        ),
        (
            replace(CARTPOLE, joints=(replace(CARTPOLE.joints[0], lower=2.0), CARTPOLE.joints[1])),
            "joint 'slider' = 2.0",
        ),
        (replace(CARTPOLE, latency_s=(0.02, 0.01)), r"latency_s = 0\.02, 0\.01; the first must not be above"),
        (asked(CARTPOLE, low=(1.0,), high=(-1.0,)), "expected 1 values each, low <= high"),
        (asked(CARTPOLE, low=(1.0, 1.0), high=(2.0, 2.0)), "expected 1 values each"),
        (asked(CARTPOLE, signal="command.taste"), "unknown command 'command.taste'; known: command.target"),
        (asked(CARTPOLE, signal="gyro"), "unknown command 'gyro'"),
        (asked(CARTPOLE, workspace=load_robot("so101").workspace), "has a workspace, which is for command.target"),
        (
            asked(REACH, workspace=replace(load_robot("so101").reach_workspace(), radius=(0.3, 0.1))),
            r"command.workspace.radius = 0\.3, 0\.1",
        ),
    ],
)
def test_what_cannot_be_computed_is_refused_by_name(contract, words):
    with pytest.raises(ContractError, match=words):
        check_contract(contract)


@pytest.mark.parametrize("name", tasks())
def test_every_own_contract_fits_its_task_in_order(name):
    task, contract = get_task(name), get_contract(name)
    fit_in_order(contract, task.scene().robot, task=name, period=task.period, signals=contract.signals)


@pytest.mark.parametrize("field", ["default_pos", "lower", "upper", "effort_limit", "velocity_limit", "kp", "kd"])
def test_a_joint_of_other_numbers_does_not_fit(field):
    first = REACH.joints[0]
    joint = replace(first, **{field: getattr(first, field) + 0.1})
    with pytest.raises(ContractError, match=f"'shoulder_pan': the policy was trained with {field} = .*, the robot has"):
        fitted("so101-reach", replace(REACH, joints=(joint, *REACH.joints[1:])))


@pytest.mark.parametrize(
    ("name", "contract", "words"),
    [
        ("cartpole-balance", acting(CARTPOLE, joints=("pole",)), r"\['pole'\], which are passive; .*\['slider'\]"),
        ("quadrotor-hover", acting(QUADROTOR, rotors=QUADROTOR.action.joints[::-1]), r"got \['m4', .* in this order"),
        ("quadrotor-hover", acting(QUADROTOR, rotors=("m1",)), r"action.rotors: got \['m1'\], expected .*'m4'\]"),
        ("quadrotor-hover", acting(QUADROTOR, rotors=("a", "b", "c", "d")), r"got \['a', 'b', 'c', 'd'\], expected"),
        ("so101-reach", replace(REACH, period_ns=10_000_000), "at 10000000 ns does not fit task 'so101-reach'"),
        ("so101-reach", CARTPOLE, "a policy for 'cartpole' .* does not fit task 'so101-reach'"),
        (
            "cartpole-balance",
            observing(CARTPOLE, name="gravity"),
            r"needs signals \['gravity'\], which .* does not give",
        ),
        ("cartpole-balance", observing(CARTPOLE, name="smell"), "unknown observation term 'smell'"),
    ],
)
def test_what_is_not_of_the_robot_does_not_fit(name, contract, words):
    with pytest.raises(ContractError, match=words):
        fitted(name, contract)


def test_a_chain_that_is_not_the_robots_does_not_fit():
    chain = REACH.reach_chain()
    longer = replace(chain, tip_pos=(chain.tip_pos[0] + 0.01, *chain.tip_pos[1:]))
    with pytest.raises(ContractError, match="chain differs from the one to the tip"):
        fitted("so101-reach", replace(REACH, chain=longer))


def test_joints_in_another_order_are_bound_by_name_and_not_trained():
    backwards = replace(REACH, joints=REACH.joints[::-1])
    assert fitted("so101-reach", backwards) == bind(backwards, load_robot("so101")) == [5, 4, 3, 2, 1, 0]
    with pytest.raises(ContractError, match=r"joints are \['gripper', .* expected the robot's order, \['shoulder_pan'"):
        fitted("so101-reach", backwards, fit_in_order)


def test_a_term_that_is_given_again_remembers_on_its_own():
    terms = (
        ObservationTerm(name="command", scale=1.0, lags=history(2)),
        ObservationTerm(name="command", scale=1.0),
        ObservationTerm(name="command", scale=10.0, clip=0.55, lags=history(3)),
    )
    graph, seen = ContractGraph(replace(CARTPOLE, observation=terms)), []
    state = {name: torch.zeros(1, width) for name, width in graph.state_widths.items()}
    for value in (0.5, 0.6, 0.7):
        given = {
            "joint_pos": torch.zeros(1, 2),
            "joint_vel": torch.zeros(1, 2),
            "command.cart": torch.tensor([[value]]),
        }
        observation, state = graph.observe(given, state)
        seen.append(observation[0].tolist())
    assert seen[0] == pytest.approx([0.5, 0.5, 0.5, 5.0, 5.0, 5.0])
    assert seen[1] == pytest.approx([0.5, 0.6, 0.6, 5.0, 5.0, 5.5])
    assert seen[2] == pytest.approx([0.6, 0.7, 0.7, 5.0, 5.5, 5.5])
    assert graph.state_widths == {"started": 1, "history": 4}  # one sample of each, two ticks back


def test_the_checks_leave_contracts_of_every_action_alone():
    check_contract(CARTPOLE)
    check_contract(replace(CARTPOLE, action=JointEffort(joints=("slider",), scale=1.0, clip=1.0)))
    check_contract(replace(GO2, action=JointPosition(joints=GO2.joint_names[:1], scale=1.0, clip=1.0)))
    check_contract(
        replace(CARTPOLE, command=CommandSpec(signal="command.cart", workspace=None, low=(0.0,), high=(0.0,)))
    )


def jointed(**change):
    return replace(REACH, joints=(replace(REACH.joints[0], **change), *REACH.joints[1:]))


@pytest.mark.parametrize(
    ("contract", "words"),
    [
        *((jointed(**{field: 3.5e38}), "a number that float32 holds") for field in ("kp", "upper", "effort_limit")),
        (observing(CARTPOLE, scale=-1e39), r"observation\[0\]\.scale = -1e\+39; expected a number that float32 holds"),
        *((replace(REACH, period_ns=period), "whole number of ns, 1000 at least") for period in (999, 1, 2e7, 1000.5)),
        (replace(REACH, latency_s=(-0.01, 0.0)), r"latency_s = -0\.01, 0\.0; expected s within 0 \.\. 1"),
        (replace(REACH, latency_s=(0.0, 20.0)), r"latency_s = 0\.0, 20\.0; expected s within 0 \.\. 1"),
        *(
            (replace(REACH, task=text), r"task .* cannot be printed")
            for text in ("a\nb", "a\x1b[2J", "\x00", "a\u202eb")
        ),
        (replace(REACH, robot="so\t101"), "robot .* cannot be printed"),
        (jointed(name="a\nb"), "joint .* cannot be printed"),
        (jointed(default_pos=9.0), "default_pos of joint 'shoulder_pan' is 9.0; expected it within its limits"),
        (jointed(default_pos=-9.0), "default_pos of joint 'shoulder_pan' is -9.0; expected it within its limits"),
        (
            replace(REACH, clock=PhaseClock(frequency=1.0, start=(0.0, 1.5))),
            r"clock\.start = \[0\.0, 1\.5\]; expected cycles",
        ),
        (replace(REACH, clock=PhaseClock(frequency=1.0, start=(-0.1,))), r"clock\.start = \[-0\.1\]; expected cycles"),
    ],
)
def test_what_nobody_can_have_meant_is_refused_by_name(contract, words):
    with pytest.raises(ContractError, match=words):
        check_contract(contract)


def test_a_default_pose_may_leave_the_limits_by_what_was_rounded_away():
    upper = REACH.joints[0].upper
    check_contract(jointed(default_pos=upper))
    check_contract(jointed(default_pos=upper + 0.004, rounding=(("default_pos", 0.005),)))
    check_contract(jointed(default_pos=upper + 0.004, rounding=(("default_pos", 0.002), ("upper", 0.003))))
    for rounding in ((), (("kp", 0.005),), (("default_pos", 0.003),)):
        with pytest.raises(ContractError, match="within its limits"):
            check_contract(jointed(default_pos=upper + 0.004, rounding=rounding))


def test_the_edges_of_what_is_allowed_are_allowed():
    check_contract(replace(REACH, latency_s=(0.0, 1.0), period_ns=1000))
    check_contract(replace(REACH, clock=PhaseClock(frequency=1.0, start=(0.0, 1.0))))
    check_contract(replace(REACH, task="größer: 走る"))
