"""What can be wrong with `isthmus run` before anything starts: each is told with cause and remedy, and no arm moves."""

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import serial
from command_line import Refuse
from deploy_fakes import SPEC
from reach_bundle import reach_contract, write_reach_bundle

from isthmus.deploy import log_space
from isthmus.deploy.cli import main
from isthmus.deploy.log import read_log
from isthmus.hardware.joint_calibration import ArmCalibration

SOFT = ("--arm", "soft", "--lockstep")
TARGET = ("--target", 0.25, 0.1, 0.15)


@pytest.fixture(scope="module")
def other_robot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A bundle for a robot of another name."""
    path = tmp_path_factory.mktemp("other") / "other.onnx"
    write_reach_bundle(path, replace(reach_contract(), robot="koch"))
    return path


def test_a_run_without_a_policy_is_told_what_is_missing(refuse: Refuse):
    refuse("run", *SOFT, says=("no bundle is given", "isthmus run policy.onnx"))


@pytest.mark.parametrize("name", ["joystick", "", "leader+joystick", "Keyboard"])
def test_an_unknown_operator_is_told_with_those_there_are(name: str, refuse: Refuse, reach_bundle: Path):
    refuse("run", reach_bundle, *SOFT, "--operator", name, says=("is unknown", "keyboard", "gamepad", "joined by +"))


@pytest.mark.parametrize(
    ("name", "says"), [("pedal", "pedal+leader"), ("leader", "--leader-port"), ("none+pedal", "joined")]
)
def test_an_operator_that_cannot_drive_is_told_before_anything_starts(
    name: str, says: str, refuse: Refuse, reach_bundle: Path, tmp_path: Path
):
    refuse("run", reach_bundle, *SOFT, "--operator", name, says=(says.split("+")[0],))
    assert list(tmp_path.iterdir()) == []


def test_the_second_of_several_bundles_is_checked_as_the_first(
    refuse: Refuse, reach_bundle: Path, other_robot: Path, tmp_path: Path
):
    refuse("run", reach_bundle, other_robot, *SOFT, *TARGET, says=("other.onnx", "koch", "so101"))
    (tmp_path / "part.onnx").write_bytes(reach_bundle.read_bytes()[:1000])
    refuse("run", reach_bundle, tmp_path / "part.onnx", *SOFT, *TARGET, says=("part.onnx",))


def test_a_forbidden_port_is_told_with_group_and_command(
    refuse: Refuse, reach_bundle: Path, monkeypatch: pytest.MonkeyPatch
):
    def forbidden(*_: object, **__: object) -> None:
        raise serial.SerialException(errno.EACCES, "Permission denied")

    monkeypatch.setattr(serial, "Serial", forbidden)
    monkeypatch.setattr("isthmus.hardware.feetech_bus.permission_remedy", lambda port: "join dialout")
    refuse("run", reach_bundle, *SOFT, *TARGET, says=("no permission to open serial port /dev/pts/", "join dialout"))


def test_a_port_that_does_not_exist_is_told(refuse: Refuse, reach_bundle: Path, tmp_path: Path):
    ArmCalibration.nominal(SPEC).save(tmp_path / "nominal.json")
    for more in ((), ("--dry-run",)):
        arm = ("--port", "/dev/isthmus-nothing", "--joints", "nominal.json", *more)
        refuse("run", reach_bundle, *arm, *TARGET, says=("/dev/isthmus-nothing does not exist", "/dev/serial/by-id"))


def test_a_disk_without_room_for_the_recording_is_told_before_anything_moves(
    refuse: Refuse, reach_bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "run.mcap").write_bytes(b"of another day")
    monkeypatch.setattr(
        log_space.shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(1 << 40, 1 << 40, 5 << 20)
    )
    refuse("run", reach_bundle, *SOFT, *TARGET, says=("--log run.mcap", "5.0 MiB are free", "make room"))
    assert [path.name for path in tmp_path.iterdir()] == ["run.mcap"]
    assert (tmp_path / "run.mcap").read_bytes() == b"of another day"


def test_the_room_that_a_recording_needs_is_never_less_than_what_it_takes(reach_bundle: Path, tmp_path: Path):
    with pytest.raises(SystemExit):
        main(["run", str(reach_bundle), *SOFT, "--targets", "2", "--log", str(tmp_path / "run.mcap")])
    log = read_log(tmp_path / "run.mcap")
    seconds = len(log.ticks) * log.metadata.period_ns * 1e-9
    needed, taken = log_space.log_bytes(log.metadata, seconds), (tmp_path / "run.mcap").stat().st_size
    assert taken < needed < 20 * taken
