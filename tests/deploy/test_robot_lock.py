"""A second runtime on a robot is refused by name; a lock dies with its holder, and what is left behind locks nothing."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from isthmus.deploy import robot_lock
from isthmus.deploy.robot_lock import RobotLock, check_free, lock_folder, refuse_foreign, robot_key
from isthmus.hardware.errors import RobotInUse
from isthmus.hardware.port_users import PortUser

PROGRAM = """
import sys
from pathlib import Path
from isthmus.deploy.robot_lock import RobotLock
lock = RobotLock(sys.argv[1], folder=Path(sys.argv[2]))
print("locked", flush=True)
sys.stdin.read()
"""

GONE = b'{"pid": 4194305, "command": "isthmus run", "since": "once"}'  # above the largest process id of Linux


@pytest.fixture
def device(tmp_path: Path) -> str:
    (tmp_path / "ttyUSB0").touch()
    (tmp_path / "by-id").symlink_to(tmp_path / "ttyUSB0")
    return str(tmp_path / "ttyUSB0")


@pytest.fixture
def other(device: str, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """Another process that holds the robot."""
    command = [sys.executable, "-c", PROGRAM, device, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "locked\n"
        yield process
        process.kill()


def test_the_second_is_told_who_has_the_robot_since_when_and_what_to_do(
    device: str, other: subprocess.Popen[str], tmp_path: Path
):
    with pytest.raises(RobotInUse) as refused:
        RobotLock(device, folder=tmp_path)
    said = str(refused.value)
    assert f"process {other.pid} ({sys.executable}" in said and f"kill {other.pid}" in said
    assert "since 20" in said and device in said


def test_another_name_of_the_device_is_the_same_robot(device: str, other: subprocess.Popen[str], tmp_path: Path):
    with pytest.raises(RobotInUse, match=f"process {other.pid}"):
        RobotLock(str(tmp_path / "by-id"), folder=tmp_path)


def test_a_killed_holder_gives_the_robot_back(device: str, other: subprocess.Popen[str], tmp_path: Path):
    other.send_signal(signal.SIGKILL)
    other.wait()
    with RobotLock(device, folder=tmp_path) as lock:
        assert str(other.pid) not in lock.path.read_text() and str(os.getpid()) in lock.path.read_text()


def test_a_stopped_holder_keeps_the_robot(device: str, other: subprocess.Popen[str], tmp_path: Path):
    other.send_signal(signal.SIGSTOP)
    with pytest.raises(RobotInUse):
        RobotLock(device, folder=tmp_path)


def test_a_lock_that_was_given_back_can_be_taken_again_and_again(device: str, tmp_path: Path):
    for _ in range(3):
        lock = RobotLock(device, folder=tmp_path)
        lock.close()
        lock.close()


def test_two_robots_are_two_locks_and_a_name_needs_no_device(device: str, tmp_path: Path):
    with (
        RobotLock(device, folder=tmp_path),
        RobotLock("go2@192.168.123.161", folder=tmp_path) as lock,
        RobotLock("../up", folder=tmp_path) as odd,
    ):
        assert lock.path.parent == odd.path.parent == tmp_path
        with pytest.raises(RobotInUse, match=r"go2@192\.168"):
            RobotLock("go2@192.168.123.161", folder=tmp_path)
    assert robot_key("/dev/a/b") != robot_key("/dev/a-b")


@pytest.mark.parametrize("left", [b"", b"{", b"[1]", b"\xff\xfe", b'{"pid": "x", "command": 1}', b"null", GONE])
def test_a_file_that_was_left_behind_is_harmless_whatever_is_in_it(left: bytes, device: str, tmp_path: Path):
    path = tmp_path / f"isthmus-{robot_key(device)}.lock"
    path.write_bytes(left)
    with RobotLock(device, folder=tmp_path) as held:
        path.write_bytes(left)
        with pytest.raises(RobotInUse, match="another isthmus process"):
            RobotLock(device, folder=tmp_path)
        assert held.path == path


def test_every_user_may_open_the_file_whatever_the_umask(device: str, tmp_path: Path):
    before = os.umask(0o077)
    try:
        with RobotLock(device, folder=tmp_path) as lock:
            assert lock.path.stat().st_mode & 0o777 == 0o666
    finally:
        os.umask(before)


def test_a_lock_file_that_leads_elsewhere_or_cannot_be_opened_is_refused(device: str, tmp_path: Path):
    (tmp_path / "precious").write_text("keep")
    (tmp_path / f"isthmus-{robot_key(device)}.lock").symlink_to(tmp_path / "precious")
    with pytest.raises(RobotInUse, match=r"cannot open the lock file.*remove that file"):
        RobotLock(device, folder=tmp_path)
    assert (tmp_path / "precious").read_text() == "keep"
    with pytest.raises(RobotInUse, match="No such file"):
        RobotLock(device, folder=tmp_path / "nothing")


def test_the_folder_is_one_that_all_users_share(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    assert lock_folder().stat().st_mode & 0o002
    own = tmp_path / "own"
    own.mkdir(mode=0o700)
    monkeypatch.setattr(robot_lock, "_SHARED_FOLDERS", (tmp_path / "nothing", own, Path("/tmp")))
    assert lock_folder() == Path("/tmp")


def test_a_foreign_program_that_has_the_port_open_is_named(device: str, monkeypatch: pytest.MonkeyPatch):
    refuse_foreign(device)
    with subprocess.Popen(["sleep", "60"], stdin=open(device)) as foreign:
        try:
            with pytest.raises(
                RobotInUse, match=rf"in use by another process: process {foreign.pid} \(sleep 60\).*kill {foreign.pid}"
            ):
                refuse_foreign(device)
        finally:
            foreign.kill()


def test_modem_manager_is_known(monkeypatch: pytest.MonkeyPatch):
    users = [PortUser(pid=7, command="/usr/sbin/ModemManager")]
    monkeypatch.setattr(robot_lock, "port_users", lambda port: users)
    with pytest.raises(RobotInUse, match="sudo systemctl stop ModemManager"):
        refuse_foreign("/dev/ttyACM0")


def test_a_look_whether_a_robot_is_free_holds_nothing(device: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(robot_lock, "lock_folder", lambda: tmp_path)
    check_free(device)
    with RobotLock(device), pytest.raises(RobotInUse, match="one runtime per robot"):
        check_free(device)
    check_free(device)
