"""A port that cannot be had: the message names whose it is, who has it, and the command that helps."""

import errno
import grp
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import serial

from isthmus.hardware import port_permission, port_users
from isthmus.hardware.errors import PortBusy, PortForbidden
from isthmus.hardware.feetech_bus import FeetechBus
from isthmus.hardware.port_permission import permission_remedy


@pytest.fixture
def device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of the group dialout that its group may open, seen by somebody outside that group."""
    path = tmp_path / "ttyUSB0"
    path.touch(mode=0o660)
    path.chmod(0o660)
    monkeypatch.setattr(grp, "getgrgid", lambda gid: grp.struct_group(("dialout", "x", gid, ["member"])))
    monkeypatch.setattr(os, "getegid", lambda: 1000)
    monkeypatch.setattr(os, "getgroups", lambda: [1000])
    monkeypatch.setattr(port_permission, "_user_name", lambda uid: "me")
    return path


def test_a_forbidden_port_names_the_group_and_the_command(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def forbidden(*_: object, **__: object) -> None:
        raise serial.SerialException(errno.EACCES, "Permission denied")

    monkeypatch.setattr(serial, "Serial", forbidden)
    with pytest.raises(
        PortForbidden, match=r"no permission .*ttyUSB0.*sudo usermod -aG dialout me.*log out and in again"
    ):
        FeetechBus(str(device), 1_000_000).open()


def test_a_member_who_has_not_logged_in_again_is_told(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(port_permission, "_user_name", lambda uid: "member")
    assert "you are in its group dialout, but" in permission_remedy(str(device))


def test_a_member_of_the_group_is_not_told_to_join_it(device: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getgroups", lambda: [device.stat().st_gid])
    said = permission_remedy(str(device))
    assert "usermod" not in said and "--device" in said


def test_a_device_that_no_group_may_open_gets_another_remedy(device: Path) -> None:
    device.chmod(stat.S_IRUSR | stat.S_IWUSR)
    said = permission_remedy(str(device))
    assert "mode 0600" in said and "chmod 0660" in said and "usermod" not in said


def test_a_device_that_is_gone_and_a_group_without_a_name_are_no_traceback(
    device: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unknown(gid: int) -> None:
        raise KeyError(gid)

    monkeypatch.setattr(grp, "getgrgid", unknown)
    assert f"group {device.stat().st_gid}:" in permission_remedy(str(device))
    assert "cannot be told" in permission_remedy("/dev/isthmus-nothing")


PROGRAM = """
import fcntl, os, sys
descriptor = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(descriptor, fcntl.LOCK_EX)
print("open", flush=True)
sys.stdin.read()
"""


def test_whoever_has_the_port_is_named_and_the_other_end_of_a_pseudo_terminal_is_not() -> None:
    master, slave = os.openpty()  # this process has both ends: it is the device
    port = os.ttyname(slave)
    other = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, port], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout is not None and other.stdin is not None
    try:
        assert other.stdout.readline() == "open\n"
        (user,) = port_users.port_users(port)
        assert user.pid == other.pid and user.command.startswith(sys.executable)
        with pytest.raises(PortBusy, match=rf"in use by another process: process {other.pid} \("):
            FeetechBus(port, 1_000_000).open()
    finally:
        other.stdin.close()
        other.wait()
        other.stdout.close()
    assert port_users.port_users(port) == []
    os.close(slave)
    os.close(master)


def test_nobody_has_dev_null_for_themselves() -> None:
    with subprocess.Popen(["sleep", "60"], stdin=subprocess.DEVNULL) as other:
        assert port_users.port_users("/dev/null") == []
        other.kill()


def test_a_process_that_is_gone_has_no_command() -> None:
    assert port_users.command_of(2**22 + 1) == "?"
    assert port_users.command_of(os.getpid()) != "?"
