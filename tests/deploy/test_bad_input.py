"""What can be wrong before a command begins: each is told with cause and remedy, exit code 2, and no arm moves."""

import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from command_line import Refuse, isthmus
from deploy_fakes import SPEC
from reach_bundle import reach_contract, write_reach_bundle

from isthmus.deploy.cli import main
from isthmus.hardware.joint_calibration import ArmCalibration
from isthmus.hardware.robot import ROBOTS_DIR, load_robot
from isthmus.hardware.virtual.hidden import hidden_path
from isthmus.policies.bundle import GOLDEN_KEY, seal

SOFT = ("--arm", "soft", "--lockstep")
SCRIPTED = (*SOFT, "--operator", "scripted")
TRAIN = ("train", "--envs", 8, "--iterations", 1, "--evaluate", 4)
TARGET = ("--target", 0.25, 0.1, 0.15)


@pytest.fixture
def a_file(tmp_path: Path) -> Path:
    """A file where a folder would be needed."""
    path = tmp_path / "file"
    path.write_text("precious")
    return path


NUMBERS = [
    (("run", "BUNDLE", *SOFT), "--targets", (0, -3)),
    (("run", "BUNDLE", *SOFT), "--seed", (-1,)),
    (("run", "BUNDLE", *SOFT), "--seconds", (0, -1, "nan", "inf")),
    (("correct", "BUNDLE", *SCRIPTED, "--out", "data"), "--episodes", (0, -1)),
    (("correct", "BUNDLE", *SCRIPTED, "--out", "data"), "--seed", (-1,)),
    ((*TRAIN, "--out", "run"), "--envs", (0, -1)),
    ((*TRAIN, "--out", "run"), "--iterations", (0, -1)),
    ((*TRAIN, "--out", "run"), "--evaluate", (0, -1)),
    ((*TRAIN, "--out", "run"), "--time-limit", (0, -1, "nan")),
    ((*TRAIN, "--out", "run"), "--seed", (-1,)),
    (("export", "nothing", "--out", "x.onnx"), "--evaluate", (0, -1)),
    (("calibrate", *SOFT), "--seconds", (0, -20, 5, 1000, "nan", "inf")),
    (("calibrate", *SOFT), "--touch-off", (-1, 1, 5)),
    (("calibrate", *SOFT), "--seed", (-1,)),
    (("learn", "data", "--base", "BUNDLE", "--out", "x.onnx"), "--seed", (-1,)),
    (("virtual",), "--seconds", (-1, "nan")),
    (("demo", "--quick", "--out", "run"), "--seed", (-1,)),
    (("bench", "--out", "run"), "--targets", (0,)),
    (("bench", "--out", "run"), "--iterations", (0,)),
    (("bench", "--out", "run"), "--seeds", (-1,)),
]


@pytest.mark.parametrize(
    ("command", "option", "value"), [(c, option, value) for c, option, values in NUMBERS for value in values]
)
def test_a_number_that_cannot_work_is_refused_with_what_would(
    command: tuple[object, ...], option: str, value: object, refuse: Refuse, reach_bundle: Path, tmp_path: Path
):
    words = [reach_bundle if word == "BUNDLE" else word for word in command]
    refuse(*words, option, value, says=(f"{option} is {value}", "expected"))
    assert list(tmp_path.iterdir()) == []


def test_no_number_is_refused_by_the_parser(tmp_path: Path, reach_bundle: Path):
    done = isthmus("run", reach_bundle, *SOFT, "--targets", "ten", folder=tmp_path)
    assert done.code == 2 and "Traceback" not in done.err
    assert "--targets" in done.out + done.err and "ten" in done.out + done.err


OUTPUTS = [
    (("run", "BUNDLE", *SOFT), "--log"),
    (("run", "BUNDLE", *SOFT), "--out"),
    (("correct", "BUNDLE", *SCRIPTED, "--out", "data"), "--log"),
    (("correct", "BUNDLE", *SCRIPTED), "--out"),
    (("calibrate", *SOFT), "--log"),
    (("calibrate", *SOFT), "--out"),
    (("calibrate", *SOFT, "--touch-off", 6), "--joints-out"),
    (TRAIN, "--out"),
    (("export", "nothing"), "--out"),
    (("learn", "data", "--base", "BUNDLE"), "--out"),
    (("learn", "data", "--base", "BUNDLE", "--out", "x.onnx"), "--joints-out"),
    (("virtual",), "--link"),
    (("demo", "--quick"), "--out"),
    (("bench",), "--out"),
]


@pytest.mark.parametrize(("command", "option"), OUTPUTS)
def test_an_output_that_cannot_be_written_is_refused_before_the_work(
    command: tuple[object, ...], option: str, refuse: Refuse, reach_bundle: Path, a_file: Path
):
    words = [reach_bundle if word == "BUNDLE" else word for word in command]
    refuse(*words, option, a_file / "below" / "x", says=(option, "cannot write", str(a_file)))
    assert a_file.read_text() == "precious"


@pytest.mark.parametrize("option", ["--log", "--out"])
def test_a_folder_is_no_name_for_an_output_file(option: str, refuse: Refuse, reach_bundle: Path, tmp_path: Path):
    refuse("run", reach_bundle, *SOFT, option, tmp_path, says=(option, "is a directory"))


def test_correct_does_not_replace_a_folder_that_is_no_dataset(
    refuse: Refuse, reach_bundle: Path, a_file: Path, tmp_path: Path
):
    refuse("correct", reach_bundle, *SCRIPTED, "--out", tmp_path, says=("--out", "is no dataset"))
    refuse("correct", reach_bundle, *SCRIPTED, "--out", a_file, says=("--out", "is no dataset"))
    assert a_file.read_text() == "precious"


def test_a_recording_of_another_day_does_not_get_into_the_dataset(
    refuse: Refuse, reach_bundle: Path, tmp_path: Path, other_robot: Path
):
    with pytest.raises(SystemExit):
        main(["correct", str(reach_bundle), *SCRIPTED, "--episodes", "1", "--out", "first"])
    refuse("correct", other_robot, *SCRIPTED, "--out", "second", says=("so101",))
    refuse("correct", reach_bundle, "--arm", "soft", "--joints", "nope", "--out", "second", says=("nope",))
    assert not (tmp_path / "second").exists()


def test_learn_does_not_replace_its_own_inputs(refuse: Refuse, reach_bundle: Path):
    learn = ("learn", "data", "--base", reach_bundle)
    refuse(*learn, "--out", reach_bundle, says=("--out", "replace the base"))
    refuse(*learn, "--out", "x.onnx", "--joints", "joints.json", says=("--joints-out", "choose another name"))
    refuse(*learn, "--joints-out", "better.onnx", says=("--out and --joints-out", "choose two names"))
    refuse(*learn, "--joints", "joints.json", "--no-offsets", says=("data is no isthmus dataset",))


def test_calibrate_does_not_replace_the_joint_calibration_it_reads(refuse: Refuse, tmp_path: Path):
    joints = tmp_path / "joints.json"
    ArmCalibration.nominal(SPEC).save(joints)
    touch = ("calibrate", *SOFT, "--touch-off", 6)
    for same in (("--joints", joints), ("--joints", "mine.json", "--joints-out", "./mine.json")):
        refuse(*touch, *same, says=("--joints-out", "replace", "choose another name"))
    refuse(*touch, "--out", "joints.json", says=("--out and --joints-out", "choose two names"))


def test_an_existing_training_run_is_not_replaced(refuse: Refuse, tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "train.json").write_text("{}")
    refuse(*TRAIN, "--out", "run", says=("run already holds a run", "--resume"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("train", "--out", "run", "--resume"), ("run is not a training run",)),
        ((*TRAIN, "--out", "run", "--init", "nothing"), ("nothing",)),
        ((*TRAIN, "--out", "run", "--calibration", "nothing"), ("nothing",)),
        ((*TRAIN, "--out", "run", "--task", "juggle"), ("juggle", "so101-reach")),
        (("export", "nothing", "--out", "x.onnx"), ("nothing is not a training run",)),
        (("run", "nothing.onnx", *SOFT), ("nothing.onnx", "isthmus export")),
        (("report", "nothing"), ("nothing", "isthmus demo")),
        (("robots", "r2d2"), ("r2d2", "so101")),
        (("robots", "nothing.toml"), ("nothing.toml",)),
        (("virtual", "--arm", "nothing"), ("nothing", "hard, soft, worn")),
        (("demo", "--quick", "--arm", "nothing"), ("nothing", "hard, soft, worn")),
        (("bench", "--arms", "soft", "nothing"), ("nothing", "hard, soft, worn")),
    ],
)
def test_what_is_not_there_is_named(arguments: tuple[object, ...], says: tuple[str, ...], refuse: Refuse):
    refuse(*arguments, says=says)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), ("--port", "--arm")),
        (("--port", "/dev/null", "--arm", "soft"), ("--port", "--arm")),
        (("--port", "/dev/null"), ("--joints",)),
        (("--port", "/dev/null", "--joints", "JOINTS", "--lockstep"), ("--lockstep", "--arm")),
        (("--port", "/dev/isthmus-nothing", "--joints", "JOINTS"), ("/dev/isthmus-nothing does not exist", "plug")),
        (("--port", "/dev/null", "--joints", "JOINTS"), ("/dev/null", "serial port")),
        (("--arm", "nothing"), ("nothing", "hard, soft, worn")),
        (("--arm", "soft", "--robot", "r2d2"), ("r2d2", "so101")),
    ],
)
@pytest.mark.parametrize("command", ["run", "correct", "calibrate"])
def test_an_arm_that_cannot_be_used_is_named(
    command: str, arguments: tuple[str, ...], says: tuple[str, ...], refuse: Refuse, reach_bundle: Path, tmp_path: Path
):
    joints = tmp_path / "nominal.json"
    ArmCalibration.nominal(SPEC).save(joints)
    words = [joints if word == "JOINTS" else word for word in arguments]
    first = {"run": (reach_bundle,), "correct": (reach_bundle, "--out", "data"), "calibrate": ()}[command]
    refuse(command, *first, *words, says=says)


def test_the_scripted_operator_cannot_watch_a_real_arm(refuse: Refuse, reach_bundle: Path, tmp_path: Path):
    joints = tmp_path / "nominal.json"
    ArmCalibration.nominal(SPEC).save(joints)
    arm = ("--port", "/dev/null", "--joints", joints, "--operator", "scripted")
    refuse("run", reach_bundle, *arm, says=("--operator keyboard",))
    refuse("correct", reach_bundle, *arm, "--out", "data", says=("--operator keyboard",))


@pytest.mark.parametrize("target", [(9, 9, 9), ("nan", 0.1, 0.1), (0.25, 0.1, "inf"), (0, 0, 0)])
def test_an_impossible_target_is_refused_with_what_is_possible(
    target: tuple[object, ...], refuse: Refuse, reach_bundle: Path
):
    refuse("run", reach_bundle, *SOFT, "--target", *target, says=("target", "m"))


def test_a_keyboard_without_a_terminal_is_refused(reach_bundle: Path, tmp_path: Path):
    for command in (("run", reach_bundle), ("correct", reach_bundle, "--out", "data")):
        done = isthmus(*command, *SOFT, "--operator", "keyboard", folder=tmp_path)
        done.refused("needs a terminal", "another operator")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], ("arm.toml",)),
        (lambda text: "\n".join(line for line in text.splitlines() if not line.startswith("payload_kg")), ("payload",)),
        (lambda text: text.replace("payload_kg", "paylaod_kg"), ("paylaod_kg",)),
        (lambda text: "\x00\x01 not toml", ("arm.toml", "TOML")),
    ],
)
def test_a_broken_file_of_hidden_parameters_is_told(
    change: Callable[[str], str], says: tuple[str, ...], refuse: Refuse, tmp_path: Path
):
    path = tmp_path / "arm.toml"
    path.write_text(change(hidden_path("soft").read_text()))
    refuse("virtual", "--arm", path, "--seconds", 0.1, says=says)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text.replace("[workspace]", "[workplace]"), ("robot.toml", "workplace")),
        (lambda text: text.replace("baudrate", "baud"), ("robot.toml", "baud")),
        (lambda text: text.replace("model.xml", "nothing.xml"), ("nothing.xml",)),
        (lambda text: text + "\n= broken", ("robot.toml", "TOML")),
    ],
)
def test_a_broken_robot_file_is_told(
    change: Callable[[str], str], says: tuple[str, ...], refuse: Refuse, tmp_path: Path
):
    text = (ROBOTS_DIR / "so101" / "robot.toml").read_text()
    (tmp_path / "model.xml").write_bytes((ROBOTS_DIR / "so101" / "model.xml").read_bytes())
    (tmp_path / "robot.toml").write_text(change(text))
    refuse("robots", tmp_path / "robot.toml", says=says)
    refuse("calibrate", *SOFT, "--robot", tmp_path / "robot.toml", says=says)


def nominal_data() -> dict[str, Any]:
    joints = ArmCalibration.nominal(SPEC).joints
    return {"robot": "so101", "joints": {name: dict(vars(joint)) for name, joint in joints.items()}}


def lerobot_data() -> dict[str, Any]:
    keys = ("id", "drive_mode", "homing_offset", "range_min", "range_max")
    joints = ArmCalibration.nominal(SPEC).joints
    return {name: {key: getattr(joint, key) for key in keys} for name, joint in joints.items()}


def set_in(data: dict[str, Any], *keys: str, value: object) -> dict[str, Any]:
    inner = data
    for key in keys[:-1]:
        inner = inner[key]
    inner[keys[-1]] = value
    return data


def without(data: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name != key}


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (set_in(nominal_data(), "robot", value="koch"), ("koch", "so101")),
        (set_in(nominal_data(), "joints", "gripper", "range_max", value=5000), ("gripper", "range_max", "5000")),
        (set_in(nominal_data(), "joints", "gripper", "offset_rad", value="a lot"), ("offset_rad", "a lot")),
        (set_in(nominal_data(), "joints", "elbow_flex", "id", value=9), ("elbow_flex", "id is 9", "3")),
        (set_in(nominal_data(), "joints", "elbow_flex", "range_min", value=2600), ("elbow_flex", "range")),
        (without(lerobot_data(), "wrist_roll"), ("missing", "wrist_roll")),
        (set_in(lerobot_data(), "tail", value=lerobot_data()["gripper"]), ("tail",)),
        (set_in(lerobot_data(), "gripper", "homing_offset", value=9000), ("gripper", "homing_offset", "9000")),
        ([1, 2, 3], ("joints.json",)),
    ],
)
def test_a_joint_calibration_that_does_not_fit_is_told(
    data: object, says: tuple[str, ...], refuse: Refuse, reach_bundle: Path, tmp_path: Path
):
    path = tmp_path / "joints.json"
    path.write_text(json.dumps(data))
    refuse("run", reach_bundle, *SOFT, *TARGET, "--joints", path, says=says)


@pytest.fixture(scope="module")
def other_robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for a robot of another name."""
    path = tmp_path_factory.mktemp("other") / "other.onnx"
    write_reach_bundle(path, replace(reach_contract(), robot="koch"))
    return path


def test_a_bundle_for_another_robot_is_refused(refuse: Refuse, other_robot: Path):
    refuse("run", other_robot, *SOFT, *TARGET, says=("koch", "so101"))


def test_a_bundle_trained_with_other_gains_is_refused(refuse: Refuse, tmp_path: Path):
    contract = reach_contract()
    joints = tuple(replace(joint, kp=2 * joint.kp) for joint in contract.joints)
    write_reach_bundle(tmp_path / "strong.onnx", replace(contract, joints=joints))
    said = refuse("run", tmp_path / "strong.onnx", *SOFT, *TARGET, says=("shoulder_pan", "kp", "retrain"))
    assert str(load_robot("so101").joints[0].kp) in said


def test_a_bundle_whose_golden_rows_fail_is_refused(refuse: Refuse, reach_bundle: Path, tmp_path: Path):
    model = onnx.load(str(reach_bundle))
    gain = next(
        tensor for node in model.graph.node for tensor in (a.t for a in node.attribute) if tensor.raw_data == b"\0\0 B"
    )
    gain.raw_data = b"\0\0!B"  # 40 -> 40.25
    onnx.save_model(model, str(tmp_path / "edited.onnx"))
    refuse("run", tmp_path / "edited.onnx", *SOFT, *TARGET, says=("damaged or was edited", "export again"))
    (tmp_path / "changed.onnx").write_bytes(seal(model.SerializeToString()))
    refuse("run", tmp_path / "changed.onnx", *SOFT, *TARGET, says=("golden row", "export again"))


@pytest.mark.parametrize("keep", [0, 100, 20_000])
def test_a_file_that_is_no_bundle_or_only_part_of_one_is_refused(
    keep: int, refuse: Refuse, reach_bundle: Path, tmp_path: Path
):
    path = tmp_path / "part.onnx"
    path.write_bytes(reach_bundle.read_bytes()[:keep])
    for command in (("run", path, *SOFT), ("correct", path, *SCRIPTED, "--out", "data")):
        refuse(*command, says=("part.onnx",))
    model = onnx.load(str(reach_bundle))
    kept = [p for p in model.metadata_props if p.key != GOLDEN_KEY]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    path.write_bytes(seal(model.SerializeToString()))
    refuse("run", path, *SOFT, says=("part.onnx", GOLDEN_KEY, "isthmus export"))


def test_learn_needs_a_dataset_with_enough_corrections(refuse: Refuse, reach_bundle: Path, tmp_path: Path):
    learn = ("--base", reach_bundle, "--out", "better.onnx")
    (tmp_path / "empty").mkdir()
    refuse("learn", "empty", *learn, says=("empty", "dataset"))
    refuse("learn", "nothing", *learn, says=("nothing", "dataset"))
    with pytest.raises(SystemExit):
        main(["correct", str(reach_bundle), *SCRIPTED, "--episodes", "2", "--out", "few"])
    refuse("learn", "few", *learn, says=("at least", "isthmus correct"))
    assert not (tmp_path / "better.onnx").exists() and not (tmp_path / "joints.json").exists()


def test_a_real_arm_is_touched_off_with_points_and_a_terminal_only(
    refuse: Refuse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    points = tmp_path / "points.txt"
    points.write_text("0.2 0.1\n")
    joints = tmp_path / "nominal.json"
    ArmCalibration.nominal(SPEC).save(joints)
    arm = ("calibrate", "--port", "/dev/isthmus-nothing", "--joints", joints, "--touch-off", 6)
    refuse(*arm, says=("--points",))
    refuse(*arm, "--points", points, says=("points.txt", "x y z"))
    refuse(*arm, "--points", "nothing.txt", says=("nothing.txt",))
    points.write_text("0.2 0.1 0.1\n" * 6)
    refuse(*arm, "--points", points, says=("needs a terminal",))
