"""Those who are no person keep the contract; the scripted one sees and acts as a person would."""

import numpy as np
import pytest
from operator_bench import TARGET, TICK_NS, Stage
from operator_contract import OperatorContract

from isthmus.deploy.messages import Verdict
from isthmus.deploy.operators.null import NullOperator
from isthmus.deploy.operators.operator import Operator
from isthmus.deploy.operators.scripted import ScriptedConfig, ScriptedOperator


class TestNobodyKeepsTheContract(OperatorContract):
    @pytest.fixture
    def operated(self) -> tuple[Operator, Stage]:
        stage = Stage()
        return NullOperator(stage.view), stage


class TestTheScriptedOperatorKeepsTheContract(OperatorContract):
    @pytest.fixture
    def operated(self) -> tuple[Operator, Stage]:
        stage = Stage()
        return ScriptedOperator(stage.view, see=stage.see), stage


def test_the_scripted_operator_waits_takes_over_reaches_the_target_and_says_so():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, seed=3)
    stage.episode = 0
    commands = stage.run(operator, 400)
    engaged = [command.engaged for command in commands]
    assert 50 <= engaged.index(True) <= 55  # 1 s
    assert all(engaged[engaged.index(True) :])
    verdicts = [command.verdict for command in commands]
    assert Verdict.SUCCESS in verdicts and verdicts.index(Verdict.SUCCESS) < 300
    assert np.linalg.norm(stage.tip - TARGET) < 0.005
    speeds = [np.linalg.norm(command.values) for command in commands]
    assert max(speeds) <= ScriptedConfig().max_speed + 1e-12


@pytest.mark.parametrize("seed", range(10))
def test_the_scripted_operator_does_not_oscillate(seed: int):
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, seed=seed)
    stage.episode = 0
    errors = []
    for _ in range(400):
        stage.run(operator, 1)
        errors.append(np.linalg.norm(stage.tip - TARGET))
    assert max(errors[250:]) < 0.010


def test_the_scripted_operator_reacts_to_what_was_seen_a_reaction_time_ago():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see, config=ScriptedConfig(noise_m=0.0), seed=0)
    stage.episode = 0
    stage.run(operator, 60)
    still = stage.tip = TARGET + np.array([0.06, 0.0, 0.0])
    stage.run(operator, 20)
    stage.tip = TARGET - np.array([0.06, 0.0, 0.0])
    signs = []
    for _ in range(25):
        signs.append(np.sign(operator.poll(stage.now_ns).values[0]))
        stage.now_ns += TICK_NS
    assert signs.index(1.0) == 15  # 0.3 s at 50 Hz
    assert still is not stage.tip


def test_the_scripted_operator_sees_with_noise():
    config = ScriptedConfig(patience_s=0.0, tolerance_m=0.0, hold_within_m=0.0, success_after_s=100.0, max_speed=10.0)
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=lambda: TARGET.copy(), config=config)
    stage.episode = 0
    commands = [command for command in stage.run(operator, 400) if command.engaged]
    seen = np.array([command.values for command in commands]) / config.gain
    assert np.std(seen) == pytest.approx(config.noise_m, rel=0.1)


def test_the_scripted_operator_lets_a_good_policy_finish():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=stage.see)
    stage.episode = 0
    stage.tip = TARGET + np.array([0.004, 0.0, 0.0])
    assert not any(command.engaged for command in stage.run(operator, 200))


def test_the_scripted_operator_gives_up_on_an_arm_that_does_not_follow():
    stage = Stage()
    operator = ScriptedOperator(stage.view, see=lambda: TARGET + 0.1, config=ScriptedConfig(give_up_after_s=2.0))
    stage.episode = 0
    assert stage.run(operator, 250)[-1].verdict == Verdict.GIVE_UP
