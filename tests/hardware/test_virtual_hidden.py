"""Hidden parameters are read strictly."""

from pathlib import Path

import pytest

from isthmus.hardware.structure import FormatError
from isthmus.hardware.virtual.hidden import ARMS_DIR, arm_names, load_hidden

HARD = (ARMS_DIR / "hard.toml").read_text()


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_shipped_arms_can_all_be_read():
    assert set(arm_names()) == {"hard", "soft", "worn"}
    for name in arm_names():
        load_hidden(name)


def test_shipped_arms_have_the_character_their_names_say():
    soft, worn, hard = load_hidden("soft"), load_hidden("worn"), load_hidden("hard")
    assert max(abs(offset) for offset in soft.encoder_offset_deg.values()) <= 0.6
    assert min(abs(offset) for offset in hard.encoder_offset_deg.values()) >= 1.0
    assert len({offset > 0 for offset in hard.encoder_offset_deg.values()}) == 2
    assert soft.latency_ms < worn.latency_ms < hard.latency_ms
    assert soft.gain_scale > worn.gain_scale > hard.gain_scale


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(FormatError, match=r"unknown virtual arm 'gentle'; available: hard, soft, worn"):
        load_hidden("gentle")


@pytest.mark.parametrize(
    ("line", "replacement", "said"),
    [
        ("payload_kg = 0.1", "payload_kg = 0.2", r"payload_kg = 0.2 lies outside 0.0 .. 0.15"),
        ("friction_scale = 1.5", "friction_scale = 0.4", r"friction_scale = 0.4 lies outside 0.5 .. 2.0"),
        ("gain_scale = 0.8", "gain_scale = 1.5", r"gain_scale = 1.5 lies outside 0.6 .. 1.4"),
        ("latency_ms = 35.0", "latency_ms = 4.0", r"latency_ms = 4.0 lies outside 5.0 .. 40.0"),
        ("latency_ms = 35.0", "latency_ms = nan", r"latency_ms = nan lies outside"),
        ("elbow_flex = -2.0", "elbow_flex = -3.1", r"encoder_offset_deg.elbow_flex = -3.1 lies outside -3.0 .. 3.0"),
        ("elbow_flex = 0.5", "elbow_flex = 1.1", r"backlash_deg.elbow_flex = 1.1 lies outside 0.0 .. 1.0"),
        ("elbow_flex = -2.0\n", "", r"\[encoder_offset_deg\] needs exactly the joints shoulder_pan, .*got"),
        ("elbow_flex = -2.0", "elbow = 2.5", r"\[encoder_offset_deg\] needs exactly the joints .*, elbow,"),
        ("seed = 13\n", "", r"seed"),
        ("seed = 13", 'seed = "13"', r"seed"),
        ("seed = 13", "seed = 13\nsticky = 1", r"sticky"),
        ("seed = 13", "seed = ", r"cannot be read as TOML"),
    ],
)
def test_a_bad_file_names_file_key_value_and_range(tmp_path, line, replacement, said):
    assert line in HARD
    path = write(tmp_path / "bad.toml", HARD.replace(line, replacement, 1))
    with pytest.raises(FormatError, match=said) as caught:
        load_hidden(path)
    assert "bad.toml" in str(caught.value)
