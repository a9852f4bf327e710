"""The virtual arm as a process: third-party client, lockstep, crashes around it."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import scservo_sdk
import serial

from isthmus.hardware.virtual.client import ControlClient, VirtualArm, VirtualArmError
from isthmus.hardware.virtual.hidden import ARMS_DIR, load_hidden

COUNT = 2 * np.pi / 4096  # rad
IDS = (1, 2, 3, 4, 5, 6)


class Sdk:
    """Feetech's own client; its time-out for 16 ms adapters is too short for a busy machine."""

    def __init__(self, port: str, timeout_ms: float = 3000.0) -> None:
        self.port = scservo_sdk.PortHandler(port)
        self.port.setPacketTimeout = lambda packet_length: self.port.setPacketTimeoutMillis(timeout_ms)
        assert self.port.openPort()
        self.packets = scservo_sdk.PacketHandler(0)

    def read(self, servo: int, address: int, size: int = 2) -> int:
        reader = {1: self.packets.read1ByteTxRx, 2: self.packets.read2ByteTxRx}[size]
        value, result, error = reader(self.port, servo, address)
        assert (result, error) == (scservo_sdk.COMM_SUCCESS, 0)
        return value

    def write(self, servo: int, address: int, value: int, size: int = 1) -> None:
        writer = {1: self.packets.write1ByteTxRx, 2: self.packets.write2ByteTxRx}[size]
        assert writer(self.port, servo, address, value) == (scservo_sdk.COMM_SUCCESS, 0)

    def sync_read(self, address: int) -> list[int]:
        group = scservo_sdk.GroupSyncRead(self.port, self.packets, address, 2)
        for servo in IDS:
            assert group.addParam(servo)
        assert group.txRxPacket() == scservo_sdk.COMM_SUCCESS
        return [group.getData(servo, address, 2) for servo in IDS]

    def sync_write(self, address: int, values: list[int]) -> None:
        group = scservo_sdk.GroupSyncWrite(self.port, self.packets, address, 2)
        for servo, value in zip(IDS, values, strict=True):
            assert group.addParam(servo, [value & 255, value >> 8])
        assert group.txPacket() == scservo_sdk.COMM_SUCCESS

    def close(self) -> None:
        self.port.closePort()


@pytest.fixture
def arm() -> Iterator[VirtualArm]:
    with VirtualArm("hard", lockstep=True) as arm:
        yield arm


@pytest.fixture
def sdk(arm: VirtualArm) -> Iterator[Sdk]:
    sdk = Sdk(arm.port)
    yield sdk
    sdk.close()


def packet(*body: int) -> bytes:
    framed = bytes((body[0], len(body), *body[1:]))
    return b"\xff\xff" + framed + bytes((255 - sum(framed) % 256,))


def eventually(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 30.0
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_the_sdk_finds_six_servos_of_the_right_model(sdk):
    for servo in IDS:
        assert sdk.packets.ping(sdk.port, servo) == (777, scservo_sdk.COMM_SUCCESS, 0)
    assert sdk.read(1, 62, 1) == 120
    assert sdk.read(1, 55, 1) == 1


def test_the_sdk_reads_what_it_wrote(sdk):
    sdk.write(3, 21, 16)
    sdk.write(3, 48, 700, 2)
    assert (sdk.read(3, 21, 1), sdk.read(3, 48)) == (16, 700)


def test_the_sdk_sees_the_guided_pose_with_the_encoder_offsets(arm, sdk):
    pose = np.array([0.3, -0.4, 0.5, -0.2, 0.1, 0.3])
    arm.guide(pose)
    np.testing.assert_allclose(arm.truth().joint_pos, pose, atol=1e-12)
    offset = load_hidden("hard").per_joint("encoder_offset_deg", load_hidden("hard").encoder_offset_deg)
    np.testing.assert_allclose(sdk.sync_read(56), 2048 + (pose + offset) / COUNT, atol=0.5 + 1e-9)


def test_the_sdk_moves_the_joints_to_where_it_told_them(arm, sdk):
    for servo in IDS:
        sdk.write(servo, 21, 16)
        sdk.write(servo, 42, sdk.read(servo, 56), 2)
        sdk.write(servo, 40, 1)
    goals = [2200, 1700, 2300, 2200, 1900, 2300]
    sdk.sync_write(42, goals)
    arm.advance(4.0)
    droop = 1.0 / (17.8 * 0.8) / COUNT  # counts: at most 1 N m of gravity and friction over the stiffness
    assert np.abs(np.array(sdk.sync_read(56)) - goals).max() < droop
    assert sdk.read(1, 66, 1) == 0


def test_time_stands_still_in_lockstep_and_bytes_are_answered_at_once(arm, sdk):
    arm.advance(0.5)
    before = sdk.sync_read(56)
    time.sleep(0.2)
    assert sdk.sync_read(56) == before
    assert arm.truth().time_s == pytest.approx(0.5)


def swing(params: Path, ticks: int) -> np.ndarray:
    """Truth after each tick; the goal is written without an answer right before time advances."""
    seen = []
    with VirtualArm(params, lockstep=True) as arm, serial.Serial(arm.port, 1_000_000, timeout=10) as port:
        port.write(packet(0xFE, 3, 40, 1))
        for tick in range(ticks):
            port.write(packet(0xFE, 0x82, 56, 2, *IDS))
            assert len(port.read(6 * 8)) == 6 * 8
            goal = 2048 + int(400 * np.sin(0.2 * tick))
            parameters = [byte for servo in IDS for byte in (servo, goal & 255, goal >> 8)]
            port.write(packet(0xFE, 0x83, 42, 2, *parameters))
            arm.advance(0.02)
            seen.append(arm.truth().joint_pos)
    return np.array(seen)


def test_the_same_bytes_give_the_same_motion(tmp_path):
    noisy = tmp_path / "noisy.toml"
    noisy.write_text("encoder_noise_counts = 0.7\n" + (ARMS_DIR / "hard.toml").read_text())
    first, second = swing(noisy, 150), swing(noisy, 150)
    np.testing.assert_array_equal(first, second)
    assert np.ptp(first[:, 0]) > 0.3


def test_real_time_runs_as_fast_as_the_wall_clock():
    with VirtualArm("soft") as arm:
        with pytest.raises(VirtualArmError, match="advance: this arm runs in real time; start it with --lockstep"):
            arm.advance(0.02)
        first = arm.truth()
        time.sleep(0.5)
        second = arm.truth()
    wall = (second.monotonic_ns - first.monotonic_ns) * 1e-9
    assert 0.1 < second.time_s - first.time_s <= wall + 0.01


def test_the_arm_holds_when_its_client_is_killed_and_serves_the_next(arm):
    script = (
        "import serial, sys, time\n"
        "port = serial.Serial(sys.argv[1], 1000000, timeout=10, exclusive=True)\n"
        "port.write(bytes.fromhex(sys.argv[2]))\n"
        "print('written', flush=True)\n"
        "time.sleep(60)\n"
    )
    goal = packet(0xFE, 3, 42, 2048 & 255, 2048 >> 8)
    command = [sys.executable, "-c", script, arm.port, (packet(0xFE, 3, 40, 1) + goal).hex()]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"written\n"
        arm.advance(3.0)
        client.kill()
    held = arm.truth().tip_pos
    assert held[2] > 0.15
    arm.advance(3.0)
    np.testing.assert_allclose(arm.truth().tip_pos, held, atol=0.002)
    with serial.Serial(arm.port, 1_000_000, timeout=10, exclusive=True) as port:
        port.write(packet(4, 1))
        assert port.read(6) == packet(4, 0)


def test_the_server_ends_with_its_parent_and_leaves_nothing_behind():
    script = (
        "import time\n"
        "from isthmus.hardware.virtual.client import VirtualArm\n"
        "arm = VirtualArm('soft', lockstep=True)\n"
        "print(arm.pid, arm.control_path, flush=True)\n"
        "time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid, path = parent.stdout.readline().split()
        assert alive(int(pid)) and Path(os.fsdecode(path)).exists()
        parent.kill()
    assert eventually(lambda: not alive(int(pid)))
    assert not Path(os.fsdecode(path)).exists()


def test_the_server_ends_on_sigterm_and_removes_socket_and_link(tmp_path):
    control, link = tmp_path / "c.sock", tmp_path / "arm"
    command = [sys.executable, "-m", "isthmus.hardware.virtual.server", "--params", "soft", "--control", str(control)]
    with subprocess.Popen([*command, "--link", str(link), "--lockstep"], stdout=subprocess.PIPE) as server:
        assert server.stdout is not None
        assert server.stdout.readline()
        with serial.Serial(str(link), 1_000_000, timeout=10) as port:
            port.write(packet(1, 1))
            assert port.read(6) == packet(1, 0)
        with ControlClient(control) as second:
            assert second.truth().time_s == 0.0
        again = subprocess.run(command, capture_output=True, text=True)
        assert again.returncode == 2
        assert "is another arm running there?" in again.stderr
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0
    assert list(tmp_path.iterdir()) == []


def test_closing_twice_is_fine_and_a_closed_arm_says_so():
    arm = VirtualArm("soft", lockstep=True)
    arm.close()
    arm.close()
    assert not alive(arm.pid)
    with pytest.raises(VirtualArmError, match="truth: the connection to the virtual arm is broken"):
        arm.truth()


def test_a_second_connection_sees_the_same_arm(arm):
    with ControlClient(arm.control_path) as other:
        arm.advance(0.1)
        assert other.truth().time_s == pytest.approx(0.1)


def test_what_keeps_the_arm_from_starting_reaches_the_caller(tmp_path):
    with pytest.raises(VirtualArmError, match=r"did not start: .*unknown virtual arm 'nobody'; available: hard"):
        VirtualArm("nobody")
    with pytest.raises(VirtualArmError, match=r"no virtual arm at .*x\.sock .*is its server running"):
        ControlClient(tmp_path / "x.sock")


def test_requests_that_make_no_sense_are_refused_by_name(arm):
    with pytest.raises(VirtualArmError, match="inject: unknown fault 'melt'; available: drop"):
        arm.inject("melt")
    with pytest.raises(VirtualArmError, match="guide: a pose has 6 angles"):
        arm.guide([0.0])
    with pytest.raises(VirtualArmError, match="fly: unknown op 'fly'; available: advance"):
        arm._request("fly")
    with pytest.raises(VirtualArmError, match="advance: expected one number, dt_s"):
        arm._request("advance")
    arm.advance(0.02)


def test_an_overloaded_servo_reports_it_and_lets_go(arm, sdk):
    for servo in IDS:
        sdk.write(servo, 42, 2048, 2)
        sdk.write(servo, 40, 1)
    arm.advance(3.0)
    height = arm.truth().tip_pos[2]
    arm.inject("error", joint="shoulder_lift", bits=0x20)
    assert sdk.packets.read2ByteTxRx(sdk.port, 2, 56)[2] == 0x20
    assert sdk.read(2 + 1, 40, 1) == 1
    arm.advance(5.0)
    assert arm.truth().tip_pos[2] < height - 0.05
    arm.clear()
    assert sdk.read(2, 40, 1) == 0


def test_a_missing_servo_times_out_in_the_sdk(arm):
    sdk = Sdk(arm.port, timeout_ms=50.0)
    arm.inject("missing", joint="gripper")
    assert sdk.packets.ping(sdk.port, 6)[1] == scservo_sdk.COMM_RX_TIMEOUT
    sdk.close()


def test_pulling_the_plug_ends_the_port_for_the_host(arm):
    with serial.Serial(arm.port, 1_000_000, timeout=10) as port:
        arm.unplug()
        arm.unplug()
        with pytest.raises(serial.SerialException):
            port.write(packet(1, 1))
            port.read(6)
    assert arm.truth().time_s == 0.0


def test_a_picture_shows_the_target(arm, tmp_path):
    try:
        arm.render(tmp_path / "without.png", width=160, height=120)
    except VirtualArmError as error:
        pytest.skip(f"no OpenGL on this machine: {error}")
    arm.render(tmp_path / "with.png", [0.25, 0.0, 0.1], width=160, height=120)
    image = pytest.importorskip("matplotlib.image")
    without, ball = image.imread(tmp_path / "without.png"), image.imread(tmp_path / "with.png")
    assert without.shape == (120, 160, 3)
    changed = np.abs(ball - without).max(axis=2) > 0.1
    assert 5 < changed.sum() < 0.1 * changed.size
    red, green, blue = ball[changed].mean(axis=0)
    assert green > max(red, blue)


def test_drawing_without_opengl_names_the_remedy(arm, tmp_path, monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", "disable")
    with pytest.raises(VirtualArmError, match="install libegl1 or libosmesa6 and set MUJOCO_GL to egl or osmesa"):
        arm.render(tmp_path / "none.png")


def test_the_client_needs_no_simulator():
    script = "import isthmus.hardware.virtual.client, sys; sys.exit('mujoco' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0
