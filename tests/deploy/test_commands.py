"""Each command alone, as a user calls it; `demo` and `bench` are run by CI as a whole."""

import json
import re
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
from command_line import MOTION_RAD, Running, isthmus, moved_rad, nominal_joints
from deploy_fakes import SPEC
from report_run import RESULTS, record

from isthmus.calibration.identified import load_identified
from isthmus.deploy.cli import Command, main
from isthmus.deploy.log import read_log
from isthmus.deploy.loop_results import LOG_NAMES
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.structure import write_json
from isthmus.hardware.virtual.client import VirtualArm
from isthmus.policies.bundle import load_bundle
from isthmus.policies.learning.dataset import read_dataset, write_dataset

LIMP_FALL_RAD = 0.1  # a folded arm that goes limp sinks no further


def commands(union: object, before: tuple[str, ...] = ()) -> dict[tuple[str, ...], type]:
    """Every command's class by its words, commands of commands included."""
    found: dict[tuple[str, ...], type] = {}
    for annotated in get_args(union):
        kind, subcommand = get_args(annotated)[:2]
        words = (*before, subcommand.name)
        found |= {words: kind} if isinstance(kind, type) else commands(kind, words)
    return found


COMMANDS = commands(Command)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("commands")


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    """A training run, far too short to be good."""
    done = isthmus(
        "train", "--out", "first", "--envs", 32, "--iterations", 2, "--evaluate", 8, "--seed", 3, folder=folder
    )
    assert done.code == 0, done.err
    assert "next: isthmus export first" in done.out
    return folder / "first"


@pytest.fixture(scope="module")
def corrected(folder: Path, reach_bundle: Path) -> Path:
    """Corrections of the scripted operator on the worn arm."""
    arguments = ("--arm", "worn", "--lockstep", "--operator", "scripted", "--episodes", 7)
    done = isthmus("correct", reach_bundle, "--out", "corrections", *arguments, folder=folder)
    assert done.code == 0, done.err
    assert re.search(r"7 episodes, [5-7] with a takeover, added to corrections", done.out)
    return folder / "corrections"


def run_here(*arguments: object) -> int:
    """A command in this process; returns its exit code."""
    with pytest.raises(SystemExit) as end:
        main([str(argument) for argument in arguments])
    return int(end.value.code or 0)


def test_train_writes_a_run_that_resumes_and_exports(trained: Path, folder: Path):
    assert {"train.json", "curve.json", "checkpoint.pt", "tensorboard"} <= {p.name for p in trained.iterdir()}
    assert json.loads((trained / "train.json").read_text())["seed"] == 3
    resumed = isthmus("train", "--out", "first", "--resume", "--evaluate", 8, folder=folder)
    assert resumed.code == 0 and "2 iterations" in resumed.out
    done = isthmus("export", "first", "--out", "sub/policy.onnx", "--evaluate", 8, folder=folder)
    assert done.code == 0, done.err
    bundle = load_bundle(folder / "sub" / "policy.onnx")
    assert bundle.sha256 in done.out
    assert bundle.manifest.provenance.environment_steps == 2 * 24 * 32


def test_train_starts_from_the_networks_of_another_run(trained: Path, tmp_path: Path):
    arguments = ("--out", tmp_path / "second", "--init", trained, "--envs", 8, "--iterations", 1, "--evaluate", 4)
    assert run_here("train", *arguments) == 0


def test_calibrate_with_touch_off_writes_parameters_and_joints_that_other_commands_take(
    reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    out, joints = tmp_path / "identified.json", tmp_path / "joints.json"
    files = ("--out", out, "--joints-out", joints, "--log", tmp_path / "calibrate.mcap")
    assert run_here("calibrate", "--arm", "hard", "--lockstep", "--seconds", 10, "--touch-off", 8, *files) == 0
    said = capsys.readouterr().out
    assert f"written to {out} and {joints}" in said and f"next: isthmus train --calibration {out}" in said
    assert re.search(r"shoulder_lift [+-]\d\.\d\d \+- \d\.\d\d deg;", said)
    assert re.search(r"wrist_roll weakly determined: [+-]\d\.\d\d \+- \d\.\d\d deg, used because", said)
    identified = load_identified(out)
    assert identified.heldout_after_rad < identified.heldout_before_rad
    assert out.with_suffix(".png").read_bytes().startswith(b"\x89PNG")
    calibration = ArmCalibration.load(joints, SPEC)
    total = np.rad2deg(calibration.joints["wrist_roll"].offset_rad)
    assert total != 0.0 and f"wrist_roll {total:+.2f} deg (change {total:+.2f})" in said
    arm = ("--arm", "hard", "--lockstep", "--joints", joints, "--target", 0.25, 0.1, 0.15)
    assert run_here("run", reach_bundle, *arm, "--log", tmp_path / "run.mcap") == 0
    small = ("--envs", 8, "--iterations", 1, "--evaluate", 4)
    assert run_here("train", "--out", tmp_path / "train", "--calibration", out, *small) == 0


def test_calibrate_says_that_offsets_are_unknown_without_touch_off_and_keeps_old_results(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "identified.json").write_text("of another day")
    files = ("--out", tmp_path / "identified.json", "--log", tmp_path / "calibrate.mcap")
    assert run_here("calibrate", "--arm", "soft", "--lockstep", "--seconds", 10, *files) == 0
    assert "encoder offsets: not identifiable" in capsys.readouterr().out
    assert (tmp_path / "identified-1.json").read_text() == "of another day"
    assert load_identified(tmp_path / "identified.json").encoder_offset is None


def test_the_dataset_of_correct_holds_the_attempts_and_nothing_else(corrected: Path, reach_bundle: Path):
    episodes = read_dataset(corrected)
    assert len(episodes) == 7
    assert {episode.policy_id for episode in episodes} == {load_bundle(reach_bundle).sha256}
    assert all(episode.operator for episode in episodes if episode.ticks["intervention"].any())


def test_correct_adds_to_a_dataset(reach_bundle: Path, tmp_path: Path):
    arguments = ("--arm", "soft", "--lockstep", "--operator", "scripted", "--episodes", 1)
    files = ("--out", tmp_path / "data", "--log", tmp_path / "correct.mcap")
    for count in (1, 2):
        assert run_here("correct", reach_bundle, *files, *arguments, "--seed", count) == 0
        assert len(read_dataset(tmp_path / "data")) == count


def test_learn_finds_offsets_and_no_residual_that_nobody_asked_for(corrected: Path, reach_bundle: Path, folder: Path):
    done = isthmus("learn", corrected, "--base", reach_bundle, folder=folder)
    assert done.code == 0, done.err
    assert "so a residual has little to learn" in done.out and not (folder / "better.onnx").exists()
    found = ArmCalibration.load(folder / "joints.json", SPEC).joints["shoulder_lift"].offset_rad
    assert "total offsets: shoulder_pan" in done.out and f"shoulder_lift {np.rad2deg(found):+.2f} deg" in done.out
    command = re.search(r"isthmus (run \S+ --joints joints.json) --targets 30", done.out)
    assert command is not None
    again = isthmus(*command[1].split(), "--arm", "worn", "--lockstep", "--targets", 1, folder=folder)
    assert again.code == 0, again.err


def test_learn_adds_offsets_to_the_calibration_that_the_dataset_knows(
    corrected: Path, reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    nominal = ArmCalibration.nominal(SPEC)
    old = nominal.with_offsets({"elbow_flex": 0.02, "wrist_flex": -0.01})
    write_dataset(tmp_path / "data", read_dataset(corrected), fps=50, repo_id="a/b", task="reach", calibration=old)
    old.save(tmp_path / "old.json")
    nominal.save(tmp_path / "nominal.json")
    results = {}
    for name, data in (("plain.json", corrected), ("sum.json", tmp_path / "data")):
        assert run_here("learn", data, "--base", reach_bundle, "--joints-out", tmp_path / name) == 0
        results[name] = ArmCalibration.load(tmp_path / name, SPEC).joints
    for joint, value in {"elbow_flex": 0.02, "wrist_flex": -0.01, "shoulder_lift": 0.0}.items():
        assert results["sum.json"][joint].offset_rad == pytest.approx(results["plain.json"][joint].offset_rad + value)
    learn = ("learn", tmp_path / "data", "--base", reach_bundle, "--joints-out", tmp_path / "sum.json")
    assert run_here(*learn, "--joints", tmp_path / "old.json") == 0
    assert ArmCalibration.load(tmp_path / "sum-1.json", SPEC).joints == results["sum.json"]
    capsys.readouterr()
    assert run_here(*learn, "--joints", tmp_path / "nominal.json") == 2
    refused = capsys.readouterr().err
    assert "'elbow_flex': offset_rad is 0.02 rad against 0 rad" in refused and "leave --joints out" in refused


def test_learn_says_how_far_off_the_episodes_ended_when_none_was_a_success(
    corrected: Path, reach_bundle: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    missed = [replace(e, success=False, info={"final_error_m": 0.0213}) for e in read_dataset(corrected)]
    nominal = ArmCalibration.nominal(SPEC)
    write_dataset(tmp_path / "data", missed, fps=50, repo_id="a/b", task="reach", calibration=nominal)
    assert run_here("learn", tmp_path / "data", "--base", reach_bundle, "--joints-out", tmp_path / "joints.json") == 2
    said = capsys.readouterr().err
    assert "none of 7 episodes was corrected by a person and succeeded" in said
    assert "ended 21.3, 21.3" in said and "mm from their targets" in said
    assert not (tmp_path / "joints.json").exists()


@pytest.mark.slow
def test_learn_writes_a_residual_where_asked_and_where_offsets_do_not_explain_the_corrections(
    corrected: Path, reach_bundle: Path, tmp_path: Path
):
    done = isthmus("learn", corrected, "--base", reach_bundle, "--residual", folder=tmp_path)
    assert done.code == 0, done.err
    residual = load_bundle(tmp_path / "better.onnx").manifest.residual
    assert residual is not None and residual.base_sha256 == load_bundle(reach_bundle).sha256
    assert residual.episodes <= 7
    command = re.search(
        r"isthmus (run better.onnx --joints joints.json) --targets 30 --seed 1000 --out challenger.json", done.out
    )
    assert command is not None and "isthmus compare champion.json challenger.json" in done.out
    again = isthmus(*command[1].split(), "--arm", "worn", "--lockstep", "--targets", 2, folder=tmp_path)
    assert again.code == 0, again.err

    scattered = [replace(episode, ticks=episode.ticks.copy()) for episode in read_dataset(corrected)]
    for index, episode in enumerate(scattered):
        episode.ticks["target"][:, index % 3] += 0.012 * (-1) ** (index // 3)
    nominal = ArmCalibration.nominal(SPEC)
    write_dataset(tmp_path / "data", scattered, fps=50, repo_id="a/b", task="reach", calibration=nominal)
    done = isthmus("learn", "data", "--base", reach_bundle, "--out", "second.onnx", folder=tmp_path)
    assert done.code == 0, done.err
    assert "do not explain them" in done.out and load_bundle(tmp_path / "second.onnx").manifest.residual is not None


def test_report_makes_the_page_and_says_where(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_json(tmp_path / "results.json", RESULTS)
    record(tmp_path / LOG_NAMES[0], operator=True)
    for name in LOG_NAMES[1:]:
        (tmp_path / name).write_bytes((tmp_path / LOG_NAMES[0]).read_bytes())
    assert run_here("report", tmp_path) == 0
    page = Path(capsys.readouterr().out.strip())
    assert page == tmp_path / "report.html" and "<html" in page.read_text()


def test_robots_lists_names_and_shows_joints(capsys: pytest.CaptureFixture[str]):
    assert run_here("robots") == 0
    assert "so101" in capsys.readouterr().out
    assert run_here("robots", "so101") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in SPEC.joint_names)


def test_virtual_gives_a_port_that_commands_can_use(reach_bundle: Path, tmp_path: Path):
    running = Running("virtual", "--arm", "soft", "--link", "arm", folder=tmp_path)
    link = tmp_path / "arm"
    running.until(link.is_symlink, "a link")
    target = ("--target", 0.25, 0.1, 0.15)
    done = isthmus("run", reach_bundle, "--port", link, "--joints", nominal_joints(tmp_path), *target, folder=tmp_path)
    assert done.code == 0, done.err
    running.interrupt()
    ended = running.outcome()
    assert ended.code == 0 and "speaks STS3215 at arm" in ended.out
    assert not link.is_symlink()


def test_virtual_ends_by_itself(tmp_path: Path):
    assert run_here("virtual", "--seconds", 0.2) == 0


@pytest.mark.parametrize("name", COMMANDS, ids=" ".join)
def test_help_explains_every_option(name: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    kind = COMMANDS[name]
    with pytest.raises(SystemExit) as end:
        main([*name, "--help"])
    assert end.value.code == 0
    page = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert " ".join((kind.__doc__ or "").split("\n\n")[0].split()) in page
    options = dict(option_docs(kind))
    assert options
    for option, doc in options.items():
        assert doc, f"{name}: {option} has no help"
        assert option in page.lower(), f"{name}: {option} is not on the page"
        assert doc in page, f"{name}: the help of {option} is not on the page"


def option_docs(kind: type):
    """Options and what the source says below each field; tyro takes its help from there."""
    import inspect

    source = inspect.getsource(kind)
    hints = get_type_hints(kind)
    for field in fields(kind):
        if is_dataclass(hints[field.name]):
            yield from option_docs(hints[field.name])
            continue
        found = re.search(rf'^    {field.name}: [^\n]*\n    """(.*?)"""', source, re.MULTILINE | re.DOTALL)
        yield field.name.replace("_", "-"), " ".join(found[1].split()) if found else ""


def ticks_in(log: Path, count: int):
    """Whether a recording has so many ticks of an attempt by now."""

    def enough() -> bool:
        return log.exists() and log.stat().st_size > 0 and int((read_log(log).ticks["episode"] >= 0).sum()) >= count

    return enough


@pytest.mark.parametrize("how", ["interrupt", "terminate"])
def test_an_end_during_run_keeps_the_recording_and_leaves_no_process(reach_bundle: Path, tmp_path: Path, how: str):
    with VirtualArm("soft") as arm:
        joints = nominal_joints(tmp_path)
        running = Running("run", reach_bundle, "--port", arm.port, "--joints", joints, folder=tmp_path)
        running.until(ticks_in(tmp_path / "run.mcap", 50), "an attempt")
        getattr(running, how)()
        ended = running.outcome()
        held = arm.truth().joint_pos
        assert ended.code == 130
        assert ended.err.strip() == "isthmus: interrupted; what was written so far is kept"
        assert moved_rad(arm, held) < MOTION_RAD
    assert read_log(tmp_path / "run.mcap").complete


def test_ctrl_c_in_lockstep_keeps_the_recording(reach_bundle: Path, tmp_path: Path):
    running = Running("run", reach_bundle, "--arm", "soft", "--lockstep", "--targets", 2000, folder=tmp_path)
    running.until(ticks_in(tmp_path / "run.mcap", 50), "an attempt")
    running.interrupt()
    assert running.outcome().code == 130
    recording = read_log(tmp_path / "run.mcap")
    assert recording.complete and len(recording.ticks) > 50


def test_ctrl_c_during_correct_keeps_the_finished_episodes(reach_bundle: Path, tmp_path: Path):
    log = tmp_path / "correct.mcap"

    def one_is_finished() -> bool:
        return log.exists() and log.stat().st_size > 0 and len(read_log(log).episodes()) > 0

    arguments = ("--arm", "soft", "--operator", "scripted", "--out", "data")
    running = Running("correct", reach_bundle, *arguments, folder=tmp_path)
    running.until(one_is_finished, "a finished episode")
    running.interrupt()
    ended = running.outcome()
    assert ended.code == 130, ended.err
    assert "interrupted" in ended.err and "Traceback" not in ended.err
    assert len(read_dataset(tmp_path / "data")) >= 1
    assert read_log(log).complete


@pytest.mark.slow
def test_ctrl_c_during_training_keeps_a_checkpoint_that_resumes(tmp_path: Path):
    running = Running("train", "--out", "run", "--envs", 16, "--iterations", 100000, folder=tmp_path)
    running.until((tmp_path / "run" / "checkpoint.pt").exists, "25 iterations")
    running.interrupt()
    ended = running.outcome()
    assert ended.code == 130 and "interrupted" in ended.err and "Traceback" not in ended.err
    assert len(json.loads((tmp_path / "run" / "curve.json").read_text())["points"]) >= 20
    done = isthmus("export", "run", "--out", "policy.onnx", "--evaluate", 4, folder=tmp_path)
    assert done.code == 0, done.err


def test_ctrl_c_while_the_processes_start_is_no_traceback(reach_bundle: Path, tmp_path: Path):
    with VirtualArm("soft") as arm:
        before = arm.truth().joint_pos
        joints = nominal_joints(tmp_path)
        running = Running("run", reach_bundle, "--port", arm.port, "--joints", joints, folder=tmp_path)
        running.until((tmp_path / "run.mcap").exists, "a recording")
        running.interrupt()
        ended = running.outcome()
        assert ended.code == 130 and "Traceback" not in ended.err
        assert moved_rad(arm, before) < MOTION_RAD
