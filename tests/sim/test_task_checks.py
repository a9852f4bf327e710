"""A task whose times, names or numbers cannot be is refused by name."""

import math
from dataclasses import replace

import pytest
import torch

from isthmus.sim.engine import EngineState
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.task import MetricTerm, RewardTerm, Success, TerminationTerm, hold_ticks
from isthmus.sim.task_checks import TaskError, check_start, check_task
from isthmus.sim.tasks import get_task, tasks
from isthmus.sim.world import World, WorldError

TASK = replace(get_task("cartpole-balance"), randomization=())
HAND = get_task("hand-rotate")


def function(truth):
    return torch.ones(truth.world.num_envs)


REWARD = RewardTerm(name="own", function=function, weight=1.0)
METRIC = MetricTerm(name="own", unit="1", function=function)
END = TerminationTerm(name="own", function=function)


def lasting(seconds):
    return {"success": Success(function=function, hold=seconds)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        *(
            ({name: value}, f"'cartpole-balance': {name} must be a positive number of seconds, got {value}")
            for name in ("period", "physics_dt", "episode_length")
            for value in (0.0, -1.0, math.nan, math.inf, "1")
        ),
        ({"physics_dt": 0.0199}, r"period 0\.02 s is 1\.00503 physics steps of 0\.0199 s; expected a whole number"),
        ({"physics_dt": 0.04}, r"is 0\.5 physics steps"),
        ({"episode_length": 0.005}, r"episode_length 0\.005 s is shorter than a control tick, 0\.02 s"),
        ({"rewards": ()}, "rewards are empty"),
        ({"rewards": [REWARD]}, "rewards are .*; expected a tuple of RewardTerm"),
        ({"rewards": (METRIC,)}, "rewards hold MetricTerm.*; expected a RewardTerm"),
        ({"rewards": (REWARD, REWARD)}, "rewards: 'own' is there twice"),
        ({"rewards": (replace(REWARD, function=None),)}, "function of 'own' is None; expected a function"),
        *(
            ({"rewards": (replace(REWARD, weight=weight),)}, f"weight of reward 'own' must be finite, got {weight}")
            for weight in (math.nan, math.inf, "1")
        ),
        ({"metrics": (METRIC, METRIC)}, "metrics: 'own' is there twice"),
        ({"terminations": (END, END)}, "terminations and truncations: 'own' is there twice"),
        ({"terminations": (END,), "truncations": (END,)}, "terminations and truncations: 'own' is there twice"),
        ({"privileged": (1.0,)}, "privileged function 0 is 1.0"),
        ({"estimates": ("base_smell",)}, r"estimates \['base_smell'\] are unknown; known: base_pos"),
        ({"success": function}, "success is <function .*; expected a Success"),
        *(
            (lasting(hold), f"success.hold must be a positive number of seconds, got {hold}")
            for hold in (0.0, -1.0, math.nan, math.inf)
        ),
        (lasting(8.02), r"success.hold 8\.02 s is longer than the episode, 8\.0 s"),
    ],
)
def test_a_task_that_cannot_run_is_refused(change, words):
    with pytest.raises(TaskError, match=words):
        check_task(replace(TASK, **change))


@pytest.mark.parametrize("task", tasks().values(), ids=lambda task: task.name)
def test_every_own_task_passes(task):
    check_task(task)


def test_a_success_may_last_as_long_as_the_episode():
    check_task(replace(TASK, **lasting(8.0)))
    check_task(replace(TASK, success=None))


@pytest.mark.parametrize(("hold", "ticks"), [(0.001, 1), (0.14, 7), (0.28, 14), (0.141, 8), (0.5, 25)])
def test_ticks_of_a_hold_are_rounded_up_but_not_by_the_last_bit(hold, ticks):
    assert hold_ticks(Success(function=function, hold=hold), 0.02) == ticks


def test_a_world_checks_its_task_and_its_start():
    engine = MujocoEngine(TASK.scene(), 4, dt=TASK.physics_dt, threads=1)
    with pytest.raises(TaskError, match="rewards are empty"):
        World(replace(TASK, rewards=()), engine, seed=0)
    with pytest.raises(TaskError, match=r"joint_pos is \(1, 2\); expected a row per environment, shape \(4, 2\)"):
        World(replace(TASK, start=lambda _world, _ids: start(1)), engine, seed=0)
    lost = EngineState(joint_pos=torch.full((4, 2), math.nan), joint_vel=torch.zeros(4, 2))
    with pytest.raises(WorldError, match=r"a state that physics cannot have, in environments \[0, 1, 2, 3\]"):
        World(replace(TASK, start=lambda _world, _ids: lost), engine, seed=0)


def start(count):
    return EngineState(joint_pos=torch.zeros(count, 2), joint_vel=torch.zeros(count, 2))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (None, "gave a NoneType; expected an EngineState"),
        (start(3), r"joint_pos is \(3, 2\); expected a row per environment, shape \(2, 2\)"),
        (replace(start(2), joint_vel=torch.zeros(1, 2)), r"joint_vel is \(1, 2\)"),
        (replace(start(2), joint_vel=0.0), "joint_vel is a float"),
        (replace(start(2), fixed_pos={"hole": torch.zeros(1, 3)}), r"fixed_pos\['hole'\] is \(1, 3\)"),
        (replace(start(2), fixed_pos={"door": torch.zeros(2, 3)}), r"fixed_pos holds \['door'\]; expected some of"),
        (replace(start(2), free={"cube": None}), r"free holds \['cube'\]; expected \[\]"),
    ],
)
def test_a_start_of_other_shapes_is_refused(given, words):
    with pytest.raises(TaskError, match=f"start of task 'cartpole-balance'.*{words}"):
        check_start(given, TASK, count=2, num_joints=2, free=(), fixed=("hole",))


def test_a_start_without_a_free_body_is_refused():
    with pytest.raises(TaskError, match=r"free holds \[\]; expected \['cube'\]"):
        check_start(start(2), HAND, count=2, num_joints=2, free=("cube",), fixed=())
