"""Logs that are cut off, of other robots or forms, or full of what no robot gives: one clear refusal or finding, never a traceback."""

import json
import struct
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
import zstandard
from benches import Good
from mcap.data_stream import RecordBuilder
from mcap.records import Chunk, Metadata
from mcap.stream_reader import StreamReader
from mcap.writer import Writer

from isthmus.deploy.doctor.diagnose import diagnose
from isthmus.deploy.doctor.findings import Diagnosis
from isthmus.deploy.doctor.signal_file import LARGEST_CHUNK, read_signals, write_signals
from isthmus.deploy.doctor.signal_log import SignalLog, SignalMetadata
from isthmus.deploy.log import LogError

METADATA = SignalMetadata(
    robot="so101", joint_names=("a", "b"), period_ns=20_000_000, target="joint_target", policy_id="", source="a test"
)
TICK = {"begin": False, "signals": {"joint_pos": [0.0, 1.0]}}


def written(path: Path, ticks: list[object], *, chunk_size: int = 1 << 20, **metadata: object) -> Path:
    """A log by hand: any messages, any metadata; bytes go in as they are."""
    with path.open("wb") as file:
        writer = Writer(file, chunk_size=chunk_size)
        writer.start(profile="", library="a test")
        writer.add_metadata("isthmus.signals", {k: json.dumps(v) for k, v in {**asdict(METADATA), **metadata}.items()})
        channel = writer.register_channel("/signals", "json", writer.register_schema("signals", "jsonschema", b"{}"))
        for place, tick in enumerate(ticks):
            data = tick if isinstance(tick, bytes) else json.dumps(tick).encode()
            writer.add_message(channel, place * 20_000_000, data, place * 20_000_000, place)
        writer.finish()
    return path


def test_a_log_that_is_cut_off_is_read_up_to_the_break_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path / "log.mcap", [TICK] * 200, chunk_size=1000)
    whole, data = read_signals(path), path.read_bytes()
    assert whole.broken == "" and len(whole) == 200
    path.write_bytes(data[: len(data) // 2])
    cut = read_signals(path)
    assert cut.broken == "ends in the middle" and 20 < len(cut) < 200
    harmed = bytearray(data)
    harmed[data.index(b"zstd", len(data) // 3) + 30] ^= 0xFF
    path.write_bytes(harmed)
    assert "damaged" in read_signals(path).broken


def test_every_cut_of_a_log_is_read_or_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.mcap", [TICK] * 60, chunk_size=400)
    data = path.read_bytes()
    for size in range(0, len(data), 37):
        path.write_bytes(data[:size])
        try:
            log = read_signals(path)
        except LogError as error:
            assert "log.mcap" in str(error) and "expected" in str(error)
        else:
            assert log.broken or len(log) == 60
            assert len(log.stamps) == len(log.begin) == len(log.signals["joint_pos"])


def test_a_cut_is_a_note_that_says_how_many_ticks_were_read(good: Callable[[str, int], Good]) -> None:
    sound = good("reach", 0)
    log = replace(sound.logs[0], broken="ends in the middle")
    diagnosis = diagnose(sound.bundle.path, sound.robot, log)
    notes = [finding.cause for finding in diagnosis.findings if finding.severity == "note"]
    assert diagnosis.healthy
    assert any("ends in the middle" in words and f"first {len(log)} ticks" in words for words in notes)


@pytest.mark.parametrize(
    ("tick", "said"),
    [
        ([1, 2], "tick 3: it is"),
        (b"{", "tick 3: it is no JSON"),
        (b"\xff\xfe", "tick 3: it is no JSON"),
        (b"[" * 100_000, "tick 3: it is no JSON"),
        ({"begin": True}, "tick 3: it is"),
        ({"signals": [1]}, "tick 3: it is"),
        ({**TICK, "begin": "no"}, "begin is 'no'"),
        ({"signals": {"joint_pos": 1.0}}, "joint_pos is 1.0"),
        ({"signals": {"joint_pos": ["1.0", "2.0"]}}, "expected a list of numbers"),
        ({"signals": {"joint_pos": [True, False]}}, "expected a list of numbers"),
        ({"signals": {"joint_pos": [[1.0], [2.0]]}}, "expected a list of numbers"),
        (b'{"signals":{"joint_pos":[1' + b"0" * 400 + b",0]}}", "no float can hold"),
        (b'{"signals":{"joint_pos":[1' + b"0" * 5000 + b",0]}}", "tick 3"),
        ({"signals": {"joint_pos": [1.0]}}, "joint_pos has 1 values, expected 2"),
        ({"signals": {"joint_vel": [1.0, 2.0]}}, "joint_pos has no values"),
        ({"signals": {"joint_pos": [1.0, 2.0], "gyro": [1.0]}}, "gyro has 1 values, expected none"),
        ({**TICK, "executed": None}, "executed is None"),
        ({**TICK, "executed": [1.0, 2.0]}, "executed has 2 values, expected none"),
    ],
)
def test_a_tick_that_is_none_is_refused_by_its_number(tick: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(LogError) as error:
        read_signals(written(tmp_path / "log.mcap", [TICK, TICK, TICK, tick]))
    assert said in str(error.value) and "record it again" in str(error.value)


@pytest.mark.parametrize(
    ("metadata", "said"),
    [
        ({"schema": 7}, "another version of isthmus"),
        ({"period_ns": 0}, "period_ns is 0"),
        ({"period_ns": -5}, "period_ns is -5"),
        ({"target": "bananas"}, "expected one of joint_target"),
        ({"joint_names": "ab"}, "joint_names is 'ab'"),
    ],
)
def test_metadata_of_another_form_is_refused(metadata: dict[str, object], said: str, tmp_path: Path) -> None:
    with pytest.raises(LogError, match=said):
        read_signals(written(tmp_path / "log.mcap", [TICK] * 3, **metadata))  # pyright: ignore[reportArgumentType]


def test_lost_readings_are_lost_however_they_are_written(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.mcap", [b'{"signals":{"joint_pos":[Infinity,null]}}', b'{"signals":{"joint_pos":[NaN,2]}}']
    )
    np.testing.assert_array_equal(read_signals(path).signals["joint_pos"], [[np.nan, np.nan], [np.nan, 2.0]])


def test_what_is_no_file_is_refused_at_once(tmp_path: Path) -> None:
    import os

    os.mkfifo(tmp_path / "fifo")
    for path in (tmp_path, tmp_path / "fifo", Path("/dev/zero"), tmp_path / "nothing"):
        with pytest.raises(LogError, match=r"expected a \.mcap file"):
            read_signals(path)


@pytest.mark.parametrize("size", [LARGEST_CHUNK + 1, 1 << 33])
def test_a_chunk_that_unpacks_to_too_much_is_refused_before_it_is_unpacked(size: int, tmp_path: Path) -> None:
    packer = zstandard.ZstdCompressor().compressobj(size=size)
    data = b"".join(packer.compress(bytes(1 << 20)) for _ in range(1))  # the frame's header is what counts
    data += packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
    for told in (size, 0):
        body = (
            struct.pack("<QQQI", 0, 1, told, 0) + struct.pack("<I", 4) + b"zstd" + struct.pack("<Q", len(data)) + data
        )
        path = tmp_path / "log.mcap"
        header = b"\x01" + struct.pack("<Q", 8) + bytes(8)
        path.write_bytes(b"\x89MCAP0\r\n" + header + b"\x06" + struct.pack("<Q", len(body)) + body)
        with pytest.raises(LogError, match="a chunk unpacks to"):
            read_signals(path)


def test_a_stamp_that_mcap_cannot_hold_is_refused_and_the_old_file_kept(
    good: Callable[[str, int], Good], tmp_path: Path
) -> None:
    log, path = good("reach", 0).logs[0].part(slice(0, 5)), tmp_path / "log.mcap"
    write_signals(path, log)
    before = path.read_bytes()
    with pytest.raises(LogError, match="none before 0"):
        write_signals(path, replace(log, stamps=log.stamps - 10**12))
    assert path.read_bytes() == before and [*tmp_path.iterdir()] == [path]


def _other(log: SignalLog, **changes: object) -> SignalLog:
    return replace(log, metadata=replace(log.metadata, **changes))


def _all(log: SignalLog, change: Callable[[np.ndarray], np.ndarray]) -> SignalLog:
    return replace(log, signals={name: change(values) for name, values in log.signals.items()})


ODD: dict[str, tuple[Callable[[SignalLog], SignalLog], str]] = {
    "of another robot": (lambda log: _other(log, robot="spot"), "of robot 'spot'"),
    "a joint short": (lambda log: _other(log, joint_names=log.metadata.joint_names[:-1]), "the log has joints"),
    "a joint twice": (
        lambda log: _other(log, joint_names=log.metadata.joint_names[:1] * 2 + log.metadata.joint_names[2:]),
        "the log has joints",
    ),
    "targets of three joints": (
        lambda log: replace(log, executed=log.signals["joint_pos"][:, :3]),
        "executed target has 3 values",
    ),
    "huge numbers": (lambda log: _all(log, lambda v: v * 0 + 1e308), "as large as"),
    "a reading that is huge": (
        lambda log: log.with_signals(joint_vel=log.signals["joint_vel"] * 1e200),
        "joint_vel is as large as",
    ),
    "nothing finite": (lambda log: _all(log, lambda v: v * np.nan), "not finite"),
    "a column that is not finite": (
        lambda log: log.with_signals(joint_pos=log.signals["joint_pos"] * [np.nan, 1, 1, 1, 1, 1]),
        "not finite",
    ),
    "nothing but zeros": (lambda log: _all(log, lambda v: v * 0.0), ""),
    "no signals": (lambda log: replace(log, signals={}), "lacks joint_pos"),
    "one tick": (lambda log: log.part(slice(0, 1)), "too short"),
    "an episode at every tick": (lambda log: replace(log, begin=np.ones_like(log.begin)), "no episode in it has more"),
    "stamps going backwards": (lambda log: replace(log, stamps=log.stamps[::-1].copy()), "go backwards"),
    "one stamp going backwards": (
        lambda log: replace(log, stamps=np.where(np.arange(len(log)) == 200, log.stamps - 10**9, log.stamps)),
        "go backwards",
    ),
    "stamps standing still": (lambda log: replace(log, stamps=np.full_like(log.stamps, 5)), "stand still"),
}


def _without_warnings(sound: Good, log: SignalLog) -> Diagnosis:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return diagnose(sound.bundle.path, sound.robot, log)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_log_is_a_fault_that_says_what_is_odd(name: str, good: Callable[[str, int], Good]) -> None:
    sound, (change, said) = good("reach", 0), ODD[name]
    diagnosis = _without_warnings(sound, change(sound.logs[0]))
    assert any(said in finding.cause for finding in diagnosis.faults), [f.cause for f in diagnosis.findings]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda log: log.part(slice(0, 12)), "only 12 ticks"),
        (lambda log: replace(log, executed=None, proposed=None), "does not say what was written"),
        (lambda log: replace(log, executed=log.executed * np.nan), "does not say what was written"),
        (lambda log: _other(log, target="joint_velocity_target"), "targets were not compared"),
    ],
)
def test_what_a_log_cannot_show_is_noted(
    change: Callable[[SignalLog], SignalLog], said: str, good: Callable[[str, int], Good]
) -> None:
    sound = good("reach", 0)
    diagnosis = _without_warnings(sound, change(sound.logs[0]))
    assert diagnosis.healthy
    assert any(said in finding.cause for finding in diagnosis.findings if finding.severity == "note")


def test_gravity_that_is_nothing_is_a_fault(good: Callable[[str, int], Good]) -> None:
    sound = good("sway", 0)
    assert not _without_warnings(
        sound, sound.logs[0].with_signals(gravity=sound.logs[0].signals["gravity"] * 0.0)
    ).healthy


def test_a_chunk_that_was_packed_as_a_stream_is_read(tmp_path: Path) -> None:
    path = written(tmp_path / "log.mcap", [TICK] * 20)
    with path.open("rb") as file:
        records = list(StreamReader(file, emit_chunks=True).records)
    chunk = next(record for record in records if isinstance(record, Chunk))
    metadata = next(record for record in records if isinstance(record, Metadata))
    packer = zstandard.ZstdCompressor().compressobj()  # which does not say how much there will be
    data = packer.compress(zstandard.decompress(chunk.data)) + packer.flush()
    assert zstandard.get_frame_parameters(data).content_size == zstandard.CONTENTSIZE_UNKNOWN
    builder = RecordBuilder()
    metadata.write(builder)
    replace(chunk, data=data).write(builder)
    path.write_bytes(b"\x89MCAP0\r\n" + builder.end())
    assert len(read_signals(path)) == 20
