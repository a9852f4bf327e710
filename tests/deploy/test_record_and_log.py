"""What is recorded can be read again, whole or cut off, by us and by the mcap library."""

import json
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import PERIOD_NS, SPEC, Bench
from mcap.reader import make_reader

from isthmus.deploy.log import LogError, read_log
from isthmus.deploy.messages import make_event
from isthmus.deploy.record import LogMetadata, RecordWriter, RingSink, drain
from isthmus.deploy.shm import Ring
from isthmus.policies.episode import tick_dtype

METADATA = LogMetadata(
    robot="so101",
    joint_names=SPEC.joint_names,
    policy_ids=("a" * 64, "b" * 64),
    num_actions=5,
    period_ns=PERIOD_NS,
    calibration="nominal",
    lockstep=False,
)
DTYPE = tick_dtype(6, 5)


def random_ticks(count: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    ticks = np.zeros(count, dtype=DTYPE)
    for name in DTYPE.names or ():
        shape = ticks[name].shape
        floats = DTYPE[name].base.kind == "f"
        ticks[name] = rng.normal(size=shape) if floats else rng.integers(0, 2**40, shape)
    ticks["tick"] = np.arange(count)
    ticks["human_target"][::3] = np.nan
    ticks["base_action"][::5, 1] = np.nan
    return ticks


def write(path: Path, ticks: np.ndarray) -> None:
    writer = RecordWriter(path, METADATA)
    for tick in ticks:
        writer.tick(np.array(tick))
    writer.event(make_event("mode", monotonic_ns=7, text='NaN and "quotes" -> HOLD'))
    writer.close()
    writer.close()


def test_every_number_comes_back_bit_for_bit_and_nan_as_nan(tmp_path: Path):
    ticks = random_ticks(200)
    write(tmp_path / "log.mcap", ticks)
    log = read_log(tmp_path / "log.mcap")
    assert log.complete
    assert log.metadata == METADATA
    for name in DTYPE.names or ():
        np.testing.assert_array_equal(log.ticks[name], ticks[name])
    assert [event.text for event in log.events] == ['NaN and "quotes" -> HOLD']
    assert np.isnan(log.events[0].value)


def test_the_mcap_librarys_own_reader_finds_valid_json_with_a_schema(tmp_path: Path):
    write(tmp_path / "log.mcap", random_ticks(60))
    with (tmp_path / "log.mcap").open("rb") as file:
        messages = list(make_reader(file, validate_crcs=True).iter_messages(topics="/tick"))
        file.seek(0)
        metadata = list(make_reader(file).iter_metadata())
    assert len(messages) == 60
    for schema, channel, message in messages:
        assert schema is not None
        assert (schema.encoding, channel.message_encoding) == ("jsonschema", "json")
        data = json.loads(message.data, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
        assert list(data) == json.loads(schema.data)["required"] == list(DTYPE.names or ())
        assert message.log_time == data["monotonic_ns"]
    assert json.loads(metadata[0].metadata["joint_names"]) == list(SPEC.joint_names)


def test_a_file_cut_off_anywhere_reads_up_to_the_break(tmp_path: Path):
    ticks = random_ticks(120)
    write(tmp_path / "log.mcap", ticks)
    data = (tmp_path / "log.mcap").read_bytes()
    counts = []
    for cut in np.linspace(2500, len(data) - 1, 60).astype(int):
        (tmp_path / "cut.mcap").write_bytes(data[:cut])
        log = read_log(tmp_path / "cut.mcap")
        np.testing.assert_array_equal(log.ticks["joint_pos"], ticks["joint_pos"][: len(log.ticks)])
        counts.append(len(log.ticks))
    assert counts == sorted(counts)
    assert counts[-1] == 120
    assert max(np.diff(counts)) <= 20  # a chunk is about a quarter of a second


def test_a_damaged_middle_ends_the_log_there(tmp_path: Path):
    write(tmp_path / "log.mcap", random_ticks(120))
    data = bytearray((tmp_path / "log.mcap").read_bytes())
    data[len(data) // 2] ^= 0xFF
    (tmp_path / "log.mcap").write_bytes(data)
    assert 10 < len(read_log(tmp_path / "log.mcap").ticks) < 120


@pytest.mark.parametrize("content", [b"", b"hello", bytes(1000)])
def test_what_is_no_log_is_told(content: bytes, tmp_path: Path):
    (tmp_path / "x.mcap").write_bytes(content)
    with pytest.raises(LogError, match="no isthmus log"):
        read_log(tmp_path / "x.mcap")
    with pytest.raises(LogError, match="cannot read"):
        read_log(tmp_path / "nothing.mcap")


def test_episodes_are_those_that_ended(tmp_path: Path):
    bench = Bench()
    writer = RecordWriter(tmp_path / "log.mcap", METADATA)
    bench.sink.tick, bench.sink.event = writer.tick, writer.event
    bench.arm()
    for episode, length in ((0, 20), (1, 30), (2, 10)):
        bench.start_policy(length, episode=episode)
        now = bench.clock.now_ns()
        writer.event(make_event("episode_begin", monotonic_ns=now, episode=episode, text="a" * 64))
        if episode < 2:
            end = make_event(
                "episode_end", monotonic_ns=now, episode=episode, success=episode, value=0.02, operator="me"
            )
            writer.event(end)
        bench.desk.ask_hold()
        bench.steps(5)
    writer.close()
    episodes = read_log(tmp_path / "log.mcap").episodes()
    assert [len(episode.ticks) for episode in episodes] == [20, 30]
    assert [episode.success for episode in episodes] == [False, True]
    assert {episode.policy_id for episode in episodes} == {"a" * 64}
    assert episodes[0].info == {"final_error_m": 0.02}
    assert episodes[0].operator == "me"
    assert episodes[0].period_ns == PERIOD_NS


def test_a_ring_between_two_sides_loses_nothing_that_fits(tmp_path: Path):
    from isthmus.deploy.messages import EVENT_DTYPE

    ticks, events = Ring(DTYPE, 64), Ring(EVENT_DTYPE, 8)
    sink = RingSink(ticks, events)
    writer = RecordWriter(tmp_path / "log.mcap", METADATA)
    written = random_ticks(100)
    for tick in written[:70]:
        sink.tick(np.array(tick))
    sink.event(make_event("fault", monotonic_ns=1, text="cable"))
    assert sink.dropped == 6
    assert drain(writer, ticks, [events]) == 65
    for tick in written[70:]:
        sink.tick(np.array(tick))
    assert drain(writer, ticks, [events]) == 30
    writer.close()
    log = read_log(tmp_path / "log.mcap")
    np.testing.assert_array_equal(log.ticks["tick"], [*range(64), *range(70, 100)])
    assert log.events[0].text == "cable"
    ticks.close()
    events.close()
