import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from isthmus.hardware.joint_calibration import ArmCalibration, JointCalibration
from isthmus.policies.episode import Episode, Source, tick_dtype
from isthmus.policies.learning import dataset
from isthmus.policies.learning.dataset import DatasetError, read_dataset, read_info, write_dataset

JOINTS = ("pan", "lift", "grip")
LEROBOT = Path(__file__).parents[1] / "lerobot" / "check_dataset.py"


def calibration(robot: str = "arm3", joints: tuple[str, ...] = JOINTS, pan_offset: float = 0.0) -> ArmCalibration:
    def joint(name: str, bus_id: int) -> JointCalibration:
        offset = pan_offset if name == "pan" else 0.0
        return JointCalibration(
            id=bus_id,
            drive_mode=0,
            homing_offset=-7,
            range_min=100,
            range_max=4000,
            zero_count=2047.3,
            offset_rad=offset,
        )

    return ArmCalibration(robot=robot, joints={name: joint(name, i) for i, name in enumerate(joints, 1)})


CALIBRATION = calibration()


def episode(seed: int, length: int = 30, success: bool = True) -> Episode:
    """Policy for a third, a blend tick, then a person; every field has values of its own."""
    rng = np.random.default_rng(seed)
    ticks = np.zeros(length, dtype=tick_dtype(3, 2))
    for name in ticks.dtype.names or ():
        kind = ticks.dtype[name].base.kind
        values = rng.normal(size=ticks[name].shape) if kind == "f" else rng.integers(0, 2**40, ticks[name].shape)
        ticks[name] = values
    takeover = length // 3
    ticks["source"] = Source.POLICY
    ticks["source"][takeover] = Source.BLEND
    ticks["source"][takeover + 1 :] = Source.HUMAN
    ticks["intervention"] = np.arange(length) >= takeover
    ticks["human_target"][:takeover] = np.nan
    ticks["base_action"][-2:] = np.nan
    return Episode(
        ticks=ticks,
        joint_names=JOINTS,
        period_ns=20_000_000,
        success=success,
        policy_id=f"policy-{seed}",
        robot="arm3",
        operator="ada",
        info={"final_error_m": 0.1 / 3, "round": 2.0},
    )


def write(root: Path, episodes: list[Episode]) -> None:
    write_dataset(root, episodes, fps=50, repo_id="test/arm3", task="reach the target", calibration=CALIBRATION)


def append_episodes(root: Path, episodes: list[Episode]) -> None:
    dataset.append_episodes(root, episodes, calibration=CALIBRATION)


def assert_same(got: Episode, expected: Episode) -> None:
    for name in expected.ticks.dtype.names or ():
        wanted = expected.ticks[name]
        if wanted.dtype.kind == "f":
            wanted = wanted.astype(np.float32)  # what the dataset keeps
        np.testing.assert_array_equal(got.ticks[name], wanted, err_msg=name)
    assert replace(got, ticks=None) == replace(expected, ticks=None)


def test_every_field_of_an_episode_survives_the_round_trip(tmp_path):
    episodes = [episode(0), episode(1, length=7, success=False)]
    write(tmp_path / "set", episodes)
    back = read_dataset(tmp_path / "set")
    assert len(back) == 2
    for got, expected in zip(back, episodes, strict=True):
        assert_same(got, expected)


def test_the_columns_are_those_of_the_lerobot_format(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0), episode(1, length=7)])
    schema = pq.read_schema(root / "data/chunk-000/file-000.parquet")
    vector, action, target = (
        "fixed_size_list<element: float>[3]",
        "fixed_size_list<element: float>[2]",
        "fixed_size_list<element: float>[3]",
    )
    expected = {
        "observation.state": vector, "observation.velocity": vector, "observation.environment_state": target,
        "action": vector, "previous_action": vector, "policy_action": vector, "human_action": vector,
        "base_action": action, "residual_action": action,
        "gate": "float", "gate_prob": "float", "inference_us": "float", "loop_jitter_us": "float", "next.reward": "float",
        "intervention": "bool", "next.done": "bool", "next.success": "bool", "next.truncated": "bool",
        "intervention_phase": "int64", "monotonic_ns": "int64", "wall_ns": "int64",
        "timestamp": "float", "frame_index": "int64", "episode_index": "int64", "index": "int64", "task_index": "int64",
    }  # fmt: skip
    types = {field.name: str(field.type) for field in schema}
    assert {name: types[name] for name in expected} == expected
    assert not [name for name in types if "/" in name]
    classified_as_action = [name for name in types if name.startswith("action")]
    assert classified_as_action == ["action"]


def test_info_tasks_and_episode_table_are_those_of_the_lerobot_format(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0), episode(1, length=7)])
    info = json.loads((root / "meta/info.json").read_text())
    features = info.pop("features")
    assert info == {
        "codebase_version": "v3.0",
        "robot_type": "arm3",
        "fps": 50,
        "total_episodes": 2,
        "total_frames": 37,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": 100,
        "video_files_size_in_mb": 200,
        "data_path": "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet",
        "video_path": None,
        "splits": {"train": "0:2"},
    }
    assert features["observation.state"] == {
        "dtype": "float32",
        "shape": [3],
        "names": ["pan.pos", "lift.pos", "grip.pos"],
    }
    assert set(features) == set(pq.read_schema(root / "data/chunk-000/file-000.parquet").names)

    tasks = pq.read_table(root / "meta/tasks.parquet")
    assert tasks.to_pydict() == {"task_index": [0], "task": ["reach the target"]}
    assert json.loads(tasks.schema.metadata[b"pandas"])["index_columns"] == ["task"]

    rows = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()
    assert [row["length"] for row in rows] == [30, 7]
    assert [(row["dataset_from_index"], row["dataset_to_index"]) for row in rows] == [(0, 30), (30, 37)]
    assert rows[1]["tasks"] == ["reach the target"]
    for key in ("data/chunk_index", "data/file_index", "meta/episodes/chunk_index", "meta/episodes/file_index"):
        assert rows[1][key] == 0
    assert rows[0]["n_interventions"] == 1 and rows[0]["success"] is True and rows[0]["policy_id"] == "policy-0"
    assert pq.ParquetFile(root / "data/chunk-000/file-000.parquet").num_row_groups == 2


def test_statistics_are_those_of_the_columns(tmp_path):
    root = tmp_path / "set"
    episodes = [episode(0), episode(1, length=7)]
    write(root, episodes)
    stats = json.loads((root / "meta/stats.json").read_text())
    joint_pos = np.concatenate([e.ticks["joint_pos"] for e in episodes])
    state = stats["observation.state"]
    np.testing.assert_allclose(state["mean"], joint_pos.mean(axis=0), rtol=1e-6)
    np.testing.assert_allclose(state["std"], joint_pos.std(axis=0), rtol=1e-6)
    np.testing.assert_allclose(state["q50"], np.median(joint_pos, axis=0), rtol=1e-6)
    assert state["count"] == [37]
    assert set(state) == {"min", "max", "mean", "std", "count", "q01", "q10", "q50", "q90", "q99"}
    row = pq.read_table(root / "meta/episodes/chunk-000/file-000.parquet").to_pylist()[1]
    np.testing.assert_allclose(row["stats/action/max"], episodes[1].ticks["executed_target"].max(axis=0), rtol=1e-6)


def test_phases_and_the_end_of_an_episode_are_marked(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0, length=6), episode(1, length=3, success=False)])
    table = pq.read_table(root / "data/chunk-000/file-000.parquet").to_pydict()
    assert table["intervention_phase"][:6] == [0, 0, 4, 2, 2, 2]
    assert table["next.done"] == [False] * 5 + [True] + [False] * 2 + [True]
    assert table["next.success"] == [False] * 5 + [True] + [False] * 3
    assert table["next.truncated"] == [False] * 8 + [True]
    assert table["human_action_valid"][:6] == [False, False, True, True, True, True]
    assert table["human_action"][0] == table["action"][0]


def test_the_side_file_says_units_and_joints(tmp_path):
    write(tmp_path / "set", [episode(0)])
    info = read_info(tmp_path / "set")
    assert info.joint_names == JOINTS and info.period_ns == 20_000_000 and info.num_actions == 2
    assert info.units["action"] == "rad" and info.units["base_action"] == "action units"


def test_a_folder_of_something_else_is_never_replaced(tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "one.jpg").write_bytes(b"x")
    (tmp_path / "file").write_bytes(b"x")
    for name in ("photos", "file"):
        with pytest.raises(DatasetError, match="exists and is no isthmus dataset"):
            write(tmp_path / name, [episode(0)])
    assert (tmp_path / "photos" / "one.jpg").read_bytes() == b"x"
    (tmp_path / "empty").mkdir()
    write(tmp_path / "empty", [episode(0)])
    assert len(read_dataset(tmp_path / "empty")) == 1


def test_appended_episodes_come_after_the_old_ones(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0)])
    append_episodes(root, [episode(1), episode(2)])
    assert [e.policy_id for e in read_dataset(root)] == ["policy-0", "policy-1", "policy-2"]
    assert [path.name for path in tmp_path.iterdir()] == ["set"]
    assert read_info(root).task == "reach the target"


@pytest.mark.parametrize("moment", range(5))
def test_a_kill_while_appending_loses_no_episode(tmp_path, monkeypatch, moment):
    """Die before the write, before the side file, before each of the two renames, or not at all."""
    root = tmp_path / "set"
    write(root, [episode(0), episode(1)])

    class Killed(BaseException):
        pass

    steps = iter(range(100))

    def dying(function, module, name):
        def call(*args, **kwargs):
            if next(steps) == moment:
                raise Killed
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    dying(dataset.write_folder, dataset, "write_folder")  # step 0
    dying(dataset.write_json, dataset, "write_json")  # step 1
    dying(os.rename, dataset.os, "rename")  # steps 2, 3
    try:
        append_episodes(root, [episode(2)])
        killed = False
    except Killed:
        killed = True
    monkeypatch.undo()
    expected = 2 if killed else 3
    assert [e.policy_id for e in read_dataset(root)] == [f"policy-{i}" for i in range(expected)]
    append_episodes(root, [episode(9)])
    assert len(read_dataset(root)) == expected + 1
    assert killed == (moment < 4)


def test_a_folder_that_is_no_dataset_is_named(tmp_path):
    (tmp_path / "other").mkdir()
    for root in (tmp_path / "other", tmp_path / "absent"):
        with pytest.raises(DatasetError, match=f"{root.name} is no isthmus dataset"):
            read_dataset(root)
        with pytest.raises(DatasetError, match="is no isthmus dataset"):
            append_episodes(root, [episode(0)])


def test_episodes_of_other_joints_or_another_robot_are_refused(tmp_path):
    write(tmp_path / "set", [episode(0)])
    with pytest.raises(DatasetError, match=r"'elbow'.*does not fit the dataset"):
        append_episodes(tmp_path / "set", [replace(episode(1), joint_names=("pan", "elbow", "grip"))])
    with pytest.raises(DatasetError, match="robot 'arm4'"):
        append_episodes(tmp_path / "set", [replace(episode(1), robot="arm4")])
    assert len(read_dataset(tmp_path / "set")) == 1


def test_another_rate_is_refused(tmp_path):
    with pytest.raises(DatasetError, match=r"20000000 ns \(50 Hz\), the dataset has fps = 30"):
        write_dataset(
            tmp_path / "set", [episode(0)], fps=30, repo_id="test/arm3", task="reach", calibration=CALIBRATION
        )
    write(tmp_path / "set", [episode(0)])
    with pytest.raises(DatasetError, match="10000000 ns"):
        append_episodes(tmp_path / "set", [replace(episode(1), period_ns=10_000_000)])


def test_a_dataset_knows_the_joint_calibration_it_was_recorded_with(tmp_path):
    offset = calibration(pan_offset=0.1 / 3)
    write_dataset(tmp_path / "set", [episode(0)], fps=50, repo_id="test/arm3", task="reach", calibration=offset)
    assert read_info(tmp_path / "set").calibration == offset


def test_episodes_of_another_joint_calibration_are_refused(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0)])
    for other, says in (
        (calibration(pan_offset=0.02), r"'pan': offset_rad is 0 rad against 0\.02 rad.*another --out"),
        (calibration(robot="arm4"), "'arm3'.*against 'arm4'"),
        (replace(CALIBRATION, joints={**CALIBRATION.joints, "lift": replace(CALIBRATION.joints["lift"], zero_count=2048.0)}),
         r"'lift': zero_count is 2047\.3 counts against 2048 counts"),
    ):  # fmt: skip
        with pytest.raises(DatasetError, match=says):
            dataset.append_episodes(root, [episode(1)], calibration=other)
    assert len(read_dataset(root)) == 1
    moved = {name: replace(joint, range_min=90) for name, joint in CALIBRATION.joints.items()}
    dataset.append_episodes(root, [episode(1)], calibration=replace(CALIBRATION, joints=moved))  # reads the same angles
    assert len(read_dataset(root)) == 2


def test_a_calibration_of_another_robot_is_refused(tmp_path):
    for other in (calibration(robot="arm4"), calibration(joints=("pan", "lift"))):
        with pytest.raises(DatasetError, match="the calibration that they were recorded with"):
            write_dataset(tmp_path / "set", [episode(0)], fps=50, repo_id="test/arm3", task="reach", calibration=other)
    assert not (tmp_path / "set").exists()


def test_a_dataset_that_does_not_know_its_calibration_is_refused_with_a_remedy(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0)])
    side = json.loads((root / "meta/isthmus.json").read_text())
    side.pop("calibration")
    side["schema"] = 1
    (root / "meta/isthmus.json").write_text(json.dumps(side))
    with pytest.raises(DatasetError, match=r"schema 1 is not supported.*another --out with `isthmus correct`"):
        read_dataset(root)


def test_a_missing_measurement_is_an_error_and_never_a_zero(tmp_path):
    broken = episode(0)
    broken.ticks["joint_pos"][4, 1] = np.nan
    with pytest.raises(DatasetError, match="episode 0, tick 4: joint_pos is not finite"):
        write(tmp_path / "set", [broken])
    assert not (tmp_path / "set").exists()


def test_a_column_that_another_tool_removed_is_named(tmp_path):
    root = tmp_path / "set"
    write(root, [episode(0)])
    path = root / "data/chunk-000/file-000.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["base_action"]), path)
    with pytest.raises(DatasetError, match=r"columns \['base_action'\] are missing"):
        read_dataset(root)


@pytest.mark.slow
@pytest.mark.skipif(
    "ISTHMUS_LEROBOT_PYTHON" not in os.environ,
    reason="needs ISTHMUS_LEROBOT_PYTHON: a Python with lerobot 0.4.4, see tests/lerobot/run.sh",
)
def test_lerobot_itself_opens_the_dataset(tmp_path):
    root = tmp_path / "set"
    episodes = [episode(0), episode(1, length=7, success=False), episode(2)]
    write(root, episodes)
    np.save(tmp_path / "joint_pos.npy", np.concatenate([e.ticks["joint_pos"] for e in episodes]))
    command = [os.environ["ISTHMUS_LEROBOT_PYTHON"], str(LEROBOT), str(root), str(tmp_path / "joint_pos.npy")]
    environment = {
        "HF_HUB_OFFLINE": "1",
        "HF_HOME": str(tmp_path / "hf"),
        "PATH": os.environ["PATH"],
        "HOME": str(tmp_path),
    }
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "67 frames, 3 episodes" in done.stdout
