"""`isthmus bench loop` and `isthmus bench peers`: short runs from end to end."""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
from command_line import Refuse

from isthmus.deploy.bench.contenders import Peer
from isthmus.deploy.bench.nanosleep import BenchError
from isthmus.deploy.bench.peers.numpy_driver import infer, load_layers
from isthmus.deploy.bench.stamps import CAPACITY, StampingClock, Stamps
from isthmus.deploy.bench.stub_robot import StubRobot
from isthmus.deploy.cli import main
from isthmus.deploy.commands.bench_loop import LoopTable
from isthmus.deploy.commands.bench_peers import PeerTable
from isthmus.deploy.commands.bench_small_policy import SIZES, write_small_bundle, write_small_network
from isthmus.deploy.log import read_log
from isthmus.deploy.modes import Mode
from isthmus.hardware.robot import load_robot
from isthmus.hardware.structure import structure
from isthmus.policies.bundle import load_bundle


def test_the_loop_is_measured_beside_c_and_records_every_tick(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ("bench", "loop", "--rates", "100", "--seconds", "0.4", "--segment", "0.2", "--out", tmp_path)
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert end.value.code == 0, capsys.readouterr().err
    table = structure(json.loads((tmp_path / "loop.json").read_text()), LoopTable, source="loop.json")
    (row,) = table.rows
    assert (row.rate_hz, row.ours.ticks, row.c.ticks, row.busy, row.growth) == (100.0, 40, 40, None, None)
    for loop in (row.ours, row.c):
        assert 0 <= loop.p50_us <= loop.p90_us <= loop.p99_us <= loop.max_us
    assert row.ours.cpu_us > row.c.cpu_us > 0
    assert row.recorded + row.dropped + row.dropped_traced == row.ticks > 40
    log = read_log(tmp_path / "loop-100.mcap").ticks
    assert (log["mode"][10:] == Mode.POLICY).all()
    assert np.isfinite(log["executed_target"][10:]).all() and np.ptp(log["executed_target"][10:, 0]) > 0
    printed = capsys.readouterr().out
    assert "C clock_nanosleep" in printed and "granted" in printed


def test_peers_are_measured_in_one_run_by_the_same_stamp(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    words = ("bench", "peers", "--rates", "100", "--seconds", "0.3", "--rounds", "1", "--out", tmp_path)
    with pytest.raises(SystemExit) as end:
        main([str(word) for word in words])
    assert end.value.code == 0, capsys.readouterr().err
    table = structure(json.loads((tmp_path / "peers.json").read_text()), PeerTable, source="peers.json")
    assert [row.loop for row in table.rows] == ["isthmus", "isthmus, usual priority", "C clock_nanosleep", "bare numpy"]
    for row in table.rows:
        assert row.ticks == 30 and row.cpu_us > 0 and row.p50_us <= row.p99_us
        assert 0 < row.rate_hz < 110
    assert table.rows[3].about == f"numpy {np.__version__}"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("loop", "--rates", 0), ("--rates is 0", "expected")),
        (("loop", "--rates", "nan"), ("--rates is nan", "expected")),
        (("loop", "--rates"), ("--rates", "at least one")),
        (("loop", "--seconds", 0), ("--seconds is 0", "expected")),
        (("loop", "--segment", 60), ("--segment is 60", "expected")),
        (("loop", "--rates", 2, "--segment", 0.2), ("--segment 0.2", "2 Hz")),
        (("loop", "--soak-minutes", -1), ("--soak-minutes is -1", "expected")),
        (("loop", "--out", "/proc/nothing"), ("--out", "cannot write")),
        (("peers", "--rates", -5), ("--rates is -5", "expected")),
        (("peers", "--seconds", "inf"), ("--seconds is inf", "expected")),
        (("peers", "--rounds", 0), ("--rounds is 0", "expected")),
        (("peers", "--holosoma-python", "nothing"), ("--holosoma-python nothing does not run",)),
        (("peers", "--motrix-python", sys.executable), ("--motrix-python", "has no motrix-deploy", "pip install")),
        (("peers", "--out", "/proc/nothing"), ("--out", "cannot write")),
    ],
)
def test_what_cannot_be_measured_is_refused_before_it_begins(
    words: tuple[object, ...], says: tuple[str, ...], refuse: Refuse
):
    refuse("bench", *words, says=says)


def test_a_tool_whose_loop_fails_is_quoted_with_its_log(tmp_path: Path):
    peer = Peer("efferent", "efferent", Path(sys.executable), tmp_path / "network.onnx", tmp_path)
    with pytest.raises(BenchError, match=r"loop of efferent failed: .*No module named.*efferent\.log"):
        peer.measure(100.0, 0.1)


def test_the_network_is_the_same_in_numpy_and_in_onnx(tmp_path: Path):
    path = write_small_network(tmp_path)
    session, layers = ort.InferenceSession(path), load_layers(path.with_suffix(".npz"))
    seen = np.random.default_rng(0).normal(0, 1, (20, SIZES[0])).astype(np.float32)
    expected = [np.asarray(session.run(["actions"], {"actor_obs": row[None]})[0])[0] for row in seen]
    np.testing.assert_allclose([infer(layers, row) for row in seen], expected, atol=1e-5)
    assert np.abs(expected).max() > 0.05


def test_the_bundle_is_as_wide_as_the_network_of_the_others_and_has_the_period_asked_for(tmp_path: Path):
    bundle = load_bundle(write_small_bundle(tmp_path / "bundle.onnx", 1_234_567))
    assert bundle.manifest.contract.period_ns == 1_234_567
    assert bundle.policy().run({n: np.zeros(w.shape) for n, w in bundle.policy().inputs.items()})[
        "observation"
    ].shape == (SIZES[0],)


def test_the_stub_follows_targets_as_a_joint_of_first_order():
    robot, target = StubRobot(load_robot("go2"), 0.01, Stamps()), np.full(12, 0.5)
    start = robot.read().joint_pos.copy()
    for _ in range(10):
        robot.write(target)
    state = robot.read()
    np.testing.assert_allclose(state.joint_pos, target + (start - target) * np.exp(-0.1 / 0.05), atol=1e-12)
    assert np.sign(state.joint_vel).tolist() == np.sign(target - start).tolist()


def test_stamps_say_when_each_tick_was_due_woke_and_read():
    stamps = Stamps()
    robot, clock = StubRobot(load_robot("go2"), 0.01, stamps), StampingClock(stamps)
    due = clock.now_ns() + 2_000_000
    for tick in range(3):
        clock.sleep_until(due + tick * 1_000_000)
        robot.read()
    deadline, wake, read = stamps.columns()
    assert (deadline - due).tolist() == [0, 1_000_000, 2_000_000]
    assert (deadline <= wake).all() and (wake <= read).all()
    stamps.restart()
    assert stamps.columns().shape == (3, 0) and stamps.total == 3
    stamps.ticks = CAPACITY + 1
    with pytest.raises(ValueError, match="room for"):
        stamps.columns()
