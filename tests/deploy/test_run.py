"""`isthmus run`, as a user calls it."""

from pathlib import Path

import numpy as np
import pytest
from command_line import MOTION_RAD, isthmus, nominal_joints
from deploy_fakes import SPEC
from reach_bundle import write_reach_bundle

from isthmus.deploy.cli import main
from isthmus.deploy.commands.attempts import load_attempts
from isthmus.deploy.log import read_log
from isthmus.deploy.modes import Mode
from isthmus.hardware.virtual.client import VirtualArm
from isthmus.policies.bundle import load_bundle

LIMP_FALL_RAD = 0.1  # a folded arm that goes limp sinks no further


def run_here(*arguments: object) -> int:
    """A command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def test_run_writes_what_it_says(reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log, out = tmp_path / "logs" / "run.mcap", tmp_path / "results" / "out.json"
    arm = ("--arm", "soft", "--lockstep", "--targets", 3, "--seed", 5)
    assert run_here("run", reach_bundle, *arm, "--log", log, "--out", out) == 0
    said = capsys.readouterr().out
    attempts = load_attempts(out)
    assert attempts.policy_id == load_bundle(reach_bundle).sha256
    assert f"{attempts.successes} of 3 targets reached" in said
    recording = read_log(log)
    assert recording.complete
    *episodes, parking = recording.episodes()
    assert [episode.success for episode in episodes] == [row.success for row in attempts.rows]
    assert parking.policy_id == "trajectory"
    assert f"recorded in {log}" in said


def test_several_bundles_are_loaded_and_the_first_one_runs(reach_bundle: Path, tmp_path: Path):
    second = tmp_path / "gentle.onnx"
    write_reach_bundle(second, gain=20.0)
    log = tmp_path / "run.mcap"
    arguments = ("--arm", "soft", "--lockstep", "--target", 0.25, 0.1, 0.15, "--log", log)
    assert run_here("run", second, reach_bundle, *arguments) == 0
    ids = [load_bundle(path).sha256 for path in (second, reach_bundle)]
    recording = read_log(log)
    assert list(recording.metadata.policy_ids) == ids
    assert [episode.policy_id for episode in recording.episodes()] == [ids[0], "trajectory"]


def test_run_ends_after_so_many_seconds_parked(reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    log = tmp_path / "run.mcap"
    arguments = ("--arm", "soft", "--lockstep", "--targets", 500, "--seconds", 1.5, "--log", log)
    assert run_here("run", reach_bundle, *arguments) == 0
    assert "1.5 s have passed" in capsys.readouterr().out
    recording = read_log(log)
    driven = recording.ticks[np.isin(recording.ticks["mode"], (Mode.POLICY,))]
    parking = recording.episodes()[-1]
    assert parking.policy_id == "trajectory"
    spent_s = (len(driven) - len(parking.ticks)) * 0.02
    assert 1.2 < spent_s < 1.8
    np.testing.assert_allclose(recording.ticks["joint_pos"][-1], SPEC.array("rest_pos"), atol=LIMP_FALL_RAD)


def test_a_dry_run_in_lockstep_moves_nothing_and_counts_nothing(
    reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    log, out = tmp_path / "run.mcap", tmp_path / "out.json"
    arguments = ("--arm", "soft", "--lockstep", "--targets", 2, "--dry-run", "--log", log, "--out", out)
    assert run_here("run", reach_bundle, *arguments) == 0
    said = capsys.readouterr().out
    assert "nothing was written to the robot" in said and "targets reached" not in said and not out.exists()
    moved = np.ptp(read_log(log).ticks["joint_pos"], axis=0)
    assert moved.max() < MOTION_RAD


def test_a_second_run_keeps_the_recording_of_the_first(reach_bundle: Path, tmp_path: Path):
    arm = ("--arm", "soft", "--lockstep", "--target", 0.25, 0.1, 0.15)
    first = tmp_path / "run.mcap"
    assert run_here("run", reach_bundle, *arm, "--log", first) == 0
    kept = first.read_bytes()
    assert run_here("run", reach_bundle, *arm, "--log", first) == 0
    assert (tmp_path / "run-1.mcap").read_bytes() == kept
    assert read_log(first).complete


def test_run_parks_the_arm_folded_and_limp(reach_bundle: Path, tmp_path: Path):
    with VirtualArm("soft") as arm:
        joints = nominal_joints(tmp_path)
        target = ("--target", 0.25, 0.1, 0.15)
        done = isthmus("run", reach_bundle, "--port", arm.port, "--joints", joints, *target, folder=tmp_path)
        assert done.code == 0, done.err
        assert "judged by the arm's own joint angles" in done.out
        np.testing.assert_allclose(arm.truth().joint_pos, SPEC.array("rest_pos"), atol=LIMP_FALL_RAD)
        arm.guide(SPEC.array("default_pos"))  # refused while a servo drives its joint
    last = read_log(tmp_path / "run.mcap").ticks["joint_pos"][-1]
    np.testing.assert_allclose(last, SPEC.array("rest_pos"), atol=LIMP_FALL_RAD)
