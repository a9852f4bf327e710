"""`isthmus bench sim`: what is measured is what is said."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from isthmus.deploy.commands.bench_sim import BenchSim
from isthmus.deploy.commands.bench_speed import Quartiles, Setting, Speed, growth, make_env, quartiles
from isthmus.deploy.commands.checks import OptionError
from isthmus.hardware.structure import FormatError
from isthmus.policies.contracts import get_contract
from isthmus.policies.learning.env import ContractEnv
from isthmus.sim.bare import engine_bytes, make_bare
from isthmus.sim.engines import make_engine
from isthmus.sim.mujoco_engine import MujocoEngine
from isthmus.sim.tasks import get_task
from isthmus.sim.world import World

TICKS = 3


def _setting(task: str) -> Setting:
    return Setting(task=task, engine="mujoco", num_envs=4, repeats=1, ticks=TICKS, seed=0)


def _act(env: ContractEnv, seed: int) -> torch.Tensor:
    """Step under actions that depend on the seed only; the last observation."""
    generator = torch.Generator().manual_seed(seed)
    for _ in range(TICKS):
        env.step(2.0 * torch.rand(env.num_envs, env.num_actions, generator=generator) - 1.0)
    return env.get_observations()["critic"].clone()


@pytest.mark.parametrize("name", ["so101-reach", "cartpole-balance"])
def test_the_engine_alone_gets_where_the_environment_got_when_nothing_changes_within_a_tick(name: str):
    task = get_task(name)
    engine = MujocoEngine(task.scene(), 4, dt=task.physics_dt)
    env = ContractEnv(World(task, engine, seed=0, randomization=()), get_contract(name))
    bare, joints = make_bare(env.world), engine.batch.bind("qpos")
    after: list[np.ndarray] = []

    def run() -> None:
        for _ in range(TICKS):
            env.step(torch.zeros(4, env.num_actions))
            after.append(joints.copy())

    bare.record(run, TICKS)
    with bare.replay() as ticks:
        for prepare, expected in zip(ticks, after, strict=True):
            prepare()
            assert np.abs(joints - expected).max() > 1e-9  # there is a way to go
            bare.step()
            np.testing.assert_allclose(joints, expected, rtol=0, atol=1e-12)


def test_an_environment_goes_on_as_if_nobody_had_measured():
    measured, left_alone = make_env(_setting("go2-velocity")), make_env(_setting("go2-velocity"))
    bare = make_bare(measured.world)
    bare.record(lambda: _act(measured, 0), TICKS)
    _act(left_alone, 0)
    with bare.replay() as ticks:
        for prepare in ticks:
            prepare()
            bare.step()
    torch.testing.assert_close(_act(measured, 1), _act(left_alone, 1), rtol=0, atol=0)


def test_the_engines_bytes_are_those_of_its_arrays():
    task = get_task("so101-reach")
    engine = make_engine("mujoco", task.scene(), 2, dt=task.physics_dt)
    assert isinstance(engine, MujocoEngine)
    world = World(task, engine, seed=0)
    state, model = engine_bytes(world)
    assert state == 8 * engine.batch.state.shape[1]
    before = model
    engine.batch.expand("light_pos" if engine.model.nlight else "body_gravcomp")
    assert before is not None
    now = engine_bytes(world)[1]
    assert now is not None
    assert now - before == 8 * (3 * engine.model.nlight or engine.model.nbody)


def test_quartiles_are_those_of_a_hand_count():
    assert quartiles([5.0, 1.0, 2.0, 4.0, 3.0]) == Quartiles(median=3.0, low=2.0, high=4.0)


def test_growth_is_per_environment_and_within_a_task():
    def row(task: str, num_envs: int, memory: int) -> Speed:
        one = quartiles([1.0])
        return Speed(
            task=task, engine="mujoco", num_envs=num_envs, substeps=4, ticks=1, bare=one, env=one, ratio=one,
            memory_bytes=memory, peak_bytes=memory, state_bytes=None, model_bytes=None,
        )  # fmt: skip

    rows = [row("a", 16, 1000), row("a", 32, 1800), row("a", 64, 5000), row("b", 16, 900)]
    assert growth(rows) == [None, 50.0, 100.0, None]


def test_a_small_bench_writes_its_table_and_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    bench = BenchSim(out=tmp_path, tasks=("so101-reach",), num_envs=16, sizes=(16, 32), repeats=2, ticks=2)
    assert bench.run() == 0
    table = json.loads((tmp_path / "sim.json").read_text())
    assert [row["num_envs"] for row in table["rows"]] == [16, 32]
    assert [row["ticks"] for row in table["rows"]] == [4, 4]  # two blocks of two, never fewer
    for row in table["rows"]:
        assert row["substeps"] == 4
        assert 0 < row["ratio"]["low"] <= row["ratio"]["median"] <= row["ratio"]["high"]
        assert row["memory_bytes"] <= row["peak_bytes"]
    assert (tmp_path / "sim.png").read_bytes().startswith(b"\x89PNG")
    shown = capsys.readouterr().out
    assert "of the engine alone" in " ".join(shown.split())


@pytest.mark.parametrize(
    ("bench", "says"),
    [
        (BenchSim(engine="bullet"), "expected one of mujoco, genesis"),
        (BenchSim(sizes=(0,)), "--sizes is 0"),
        (BenchSim(num_envs=0), "--num-envs is 0"),
        (BenchSim(repeats=0), "--repeats is 0"),
        (BenchSim(ticks=0), "--ticks is 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(bench: BenchSim, says: str):
    with pytest.raises(OptionError, match=says):
        bench.run()


def test_an_unknown_task_is_named_before_anything_is_measured(tmp_path: Path):
    with pytest.raises(FormatError, match="juggle"):
        BenchSim(out=tmp_path / "out", tasks=("so101-reach", "juggle")).run()
    assert not (tmp_path / "out").exists()
