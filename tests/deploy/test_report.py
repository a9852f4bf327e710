"""A run directory made by the real session and recorder on a fake arm, and the page that is made of it."""

import base64
import dataclasses
import json
import re
import xml.etree.ElementTree as ET
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from deploy_fakes import PERIOD_NS, SPEC
from PIL import Image
from report_run import ARM, RESULTS, Page, identified, record

from isthmus.deploy import report
from isthmus.deploy.commands.attempts import Attempts
from isthmus.deploy.commands.report import Report
from isthmus.deploy.log import read_log
from isthmus.deploy.loop_results import LOG_NAMES, LoopResults, Rate
from isthmus.deploy.report import write_report
from isthmus.deploy.report_data import ReportError
from isthmus.deploy.report_html import NOTHING
from isthmus.deploy.report_takeover import examine, find_takeover
from isthmus.hardware.structure import FormatError, write_json
from isthmus.hardware.virtual.client import VirtualArmError
from isthmus.policies.curve import Curve, CurvePoint


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("logs")
    record(folder / "helped.mcap", operator=True)
    record(folder / "alone.mcap", operator=False)
    helped, alone = (folder / "helped.mcap").read_bytes(), (folder / "alone.mcap").read_bytes()
    return dict(zip(LOG_NAMES, (alone, helped, helped, alone), strict=True))


MakeRun = Callable[..., Path]


@pytest.fixture
def make_run(tmp_path: Path, logs: dict[str, bytes], monkeypatch: pytest.MonkeyPatch) -> MakeRun:
    def draw(path: Path, joint_pos: np.ndarray, target: np.ndarray, *, width: int, height: int) -> None:
        assert joint_pos.shape == (6,) and target.shape == (3,)
        Image.new("RGB", (width, height), "grey").save(path)

    def make(results: LoopResults = RESULTS) -> Path:
        if results.config.arm == "hard":  # a file of its own: the shipped ones may change
            (tmp_path / "arm.toml").write_text(ARM)
        write_json(tmp_path / "results.json", results)
        for name, data in logs.items():
            if results.residual is not None or name != LOG_NAMES[-1]:
                (tmp_path / name).write_bytes(data)
        points = tuple(
            CurvePoint(steps=24576 * n, seconds=2.0 * n, reward=0.1 * n, success=None if n == 1 else 0.2 * n)
            for n in range(1, 5)
        )
        for folder in ("train", "retrain"):
            (tmp_path / folder).mkdir()
            write_json(tmp_path / folder / "curve.json", Curve(points=points))
        identified().save(tmp_path / "identified.json")
        return tmp_path

    monkeypatch.setattr(report, "render_pose", draw)
    return make


def page_of(directory: Path) -> Page:
    return Page(write_report(directory).read_text())


def test_the_page_is_one_well_formed_document_that_loads_nothing_from_elsewhere(make_run: MakeRun):
    path = write_report(make_run())
    text = path.read_text()
    page = Page(text)
    assert path.name == "report.html" and text.startswith("<!DOCTYPE html>")
    assert page.open == []
    assert len(page.ids) == len(set(page.ids))
    assert all(link.startswith(("#", "data:image/png;base64,")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= set(page.ids)
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(page.ids)
    assert "http" not in text and "@import" not in text
    assert "prefers-color-scheme: dark" in text


def test_the_table_of_steps_says_what_the_results_say(make_run: MakeRun):
    table = page_of(make_run()).table("within 10 mm")
    assert list(table)[1:] == [
        "in simulation",
        "zero-shot on the arm",
        "after calibration from joint logs",
        "after corrections (encoder offsets)",
        "with the residual (not promoted)",
    ]
    assert [row[0] for row in table.values()][1:] == ["980 of 1000", "2 of 10", "3 of 10", "9 of 10", "8 of 10"]
    # With z = 1.96: (0.2 + 0.192 +- 1.96 sqrt(0.016 + 0.0096)) / 1.384 = 0.283 +- 0.227.
    assert table["zero-shot on the arm"][1:3] == ["20.0 %", "5.7 to 51.0 %"]
    assert table["zero-shot on the arm"][4:] == ["22.0", "36.4", NOTHING]
    assert table["in simulation"][4:] == [NOTHING, NOTHING, NOTHING]


def test_shares_of_the_gap_are_changes_of_the_rate_over_the_gap_and_may_be_negative(make_run: MakeRun):
    page = page_of(make_run())
    shares = [row[-1] for row in page.table("within 10 mm").values()][3:]
    assert shares == ["+13 %", "+77 %", "-13 %"]  # 0.1, 0.6 and -0.1 of 0.78
    assert "78.0 percentage points short" in page.text
    assert "90 % of the gap is closed" in page.text  # 0.7 of 0.78; the residual is not in use


def test_without_a_gap_no_share_is_given(make_run: MakeRun):
    page = page_of(make_run(dataclasses.replace(RESULTS, simulation=Rate(successes=1, episodes=10))))
    assert {row[-1] for row in page.table("within 10 mm").values()} == {"share of the gap closed", NOTHING}
    assert "no gap" in page.text


def test_the_verdict_speaks_of_the_policy_in_use(make_run: MakeRun):
    page = page_of(make_run())
    assert (
        "2 of 10 targets on the arm as it came, and 9 of 10 after calibration and 3 corrected episodes, more"
        in page.text
    )
    assert "offsets without a residual" in page.text


def test_identified_parameters_stand_beside_the_hidden_ones(make_run: MakeRun):
    page = page_of(make_run())
    table = page.table("Parameters from the joint log")
    assert table["friction, of the model's"] == ["1.450", "1.350 to 1.550", "1.500", "yes"]
    assert table["gain, of the model's"] == ["0.900", "0.850 to 0.950", "0.800", "no"]
    assert table["payload at the tip, g"] == ["70.0 (not identifiable: prior)", "20.0 to 120.0", "100.0", "yes"]
    assert table["latency, ms"] == ["34.5", "33.5 to 35.5", "35.0", "yes"]
    assert table["payload per gain, g"][2] == "125.0"
    assert page.table("Held-out")["all joints"] == ["1.146", "0.286", "0.25"]
    offsets = page.table("Encoder offsets")
    assert offsets["shoulder_pan"] == ["+2.00", "0.11", "+2.00", "+0.00"]
    assert offsets["wrist_roll"] == ["not identifiable", NOTHING, "+1.40", NOTHING]
    assert "cannot be seen in joint logs" in page.text


def test_the_takeover_is_that_of_the_log(make_run: MakeRun):
    directory = make_run()
    log = read_log(directory / LOG_NAMES[1])
    episode = next(e for e in log.episodes() if e.ticks["intervention"].any() and e.success)
    ticks = episode.ticks
    page = page_of(directory)
    begin_s = (ticks["monotonic_ns"][ticks["intervention"] == 1][0] - ticks["monotonic_ns"][0]) * 1e-9
    assert f"a person drove, {begin_s:.2f} to" in page.text
    row = page.table("must not jump")["in the whole attempt"]
    step = np.abs(np.diff(ticks["executed_target"], axis=0))
    limit = SPEC.array("velocity_limit") * PERIOD_NS * 1e-9
    joint = int(np.argmax((step / limit).max(axis=0)))
    assert row[0] == SPEC.joint_names[joint]
    assert float(row[1]) == pytest.approx(1e3 * step[:, joint].max(), abs=0.006)
    assert float(row[2]) == pytest.approx(1e3 * limit[joint], abs=0.006)
    assert f"{1e3 * episode.info['final_error_m']:.1f} mm" in page.text


def test_a_jump_of_the_command_at_entry_or_exit_is_found(logs: dict[str, bytes], tmp_path: Path):
    (tmp_path / "log.mcap").write_bytes(logs[LOG_NAMES[1]])
    view = find_takeover({"log.mcap": read_log(tmp_path / "log.mcap")})
    assert view is not None and view.exit is not None and view.largest.share <= 1.0 + 1e-9
    first = int(np.flatnonzero(view.episode.ticks["intervention"])[0])
    ticks = view.episode.ticks.copy()
    limit = SPEC.array("velocity_limit")[2] * PERIOD_NS * 1e-9
    ticks["executed_target"][first, 2] = ticks["joint_target"][first, 2] + 1.5 * limit
    after = view.episode.ticks[-1:].copy()
    after["executed_target"][0, 1] = after["joint_target"][0, 1] - 2.0 * SPEC.array("velocity_limit")[1] * 0.02
    broken = examine("log", dataclasses.replace(view.episode, ticks=ticks), after, SPEC)
    assert broken.entry.joint == "elbow_flex"
    assert broken.entry.share == pytest.approx(1.5)
    assert broken.exit is not None and broken.exit.joint == "shoulder_lift"
    assert broken.exit.share == broken.largest.share == pytest.approx(2.0)
    assert not broken.gave_back
    assert examine("log", view.episode, after[:0], SPEC).exit is None


def test_a_takeover_on_the_target_goes_before_one_that_was_not(logs: dict[str, bytes], tmp_path: Path):
    (tmp_path / "log.mcap").write_bytes(logs[LOG_NAMES[1]])
    log = read_log(tmp_path / "log.mcap")
    first = log.episodes()[0].ticks["episode"][0]
    events = tuple(
        dataclasses.replace(e, success=0) if (e.kind, e.episode) == ("episode_end", first) else e for e in log.events
    )
    view = find_takeover({"log.mcap": dataclasses.replace(log, events=events)})
    assert view is not None and view.episode.success and view.episode.ticks["episode"][0] != first


def test_every_picture_decodes_and_is_described(make_run: MakeRun):
    text = write_report(make_run()).read_text()
    page = Page(text)
    assert all((image.get("alt") or image.get("aria-label") or "").strip() for image in page.images)
    pngs = re.findall(r'src="data:image/png;base64,([^"]+)"', text)
    assert [Image.open(BytesIO(base64.b64decode(png))).size for png in pngs] == [(960, 640)]
    drawings = re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL)
    assert len(drawings) == 5 + 4  # a bar for each step; curves, errors, takeover, timings
    for drawing in drawings:
        assert len(list(ET.fromstring(drawing).iter())) > 3


def test_strings_are_escaped(make_run: MakeRun):
    config = dataclasses.replace(RESULTS.config, arm='<script>alert("x")</script>')
    text = write_report(make_run(dataclasses.replace(RESULTS, config=config))).read_text()
    assert "<script" not in text and "<one>" not in text and "zero-shot <arm>" not in text
    page = Page(text)
    assert "the residual loses <one> target & wins none" in page.text
    assert "no truth to compare with" in page.text


def test_the_timings_come_from_the_logs(make_run: MakeRun):
    directory = make_run()
    log = read_log(directory / LOG_NAMES[0])
    page = page_of(directory)
    row = page.table("Lateness")[LOG_NAMES[0]]
    assert row[:3] == [str(len(log.ticks)), "0", "+0.0000 %"]
    assert row[5] == f"{np.median(log.ticks['inference_us'][log.ticks['inference_us'] > 0]) * 1e-3:.3f}"
    assert "In all 1000 ticks, 1 missed (0.100 %); error of the achieved rate +0.0020 %" in page.text
    assert "All stages together: 151 s" in page.text


def test_what_is_missing_gets_a_sentence(make_run: MakeRun, logs: dict[str, bytes]):
    directory = make_run(dataclasses.replace(RESULTS, residual=None, verdict="nothing was left to learn"))
    (directory / "retrain/curve.json").unlink()
    (directory / "identified.json").unlink()
    for name in LOG_NAMES[:3]:
        (directory / name).write_bytes(logs[LOG_NAMES[0]])
    page = page_of(directory)
    assert len(page.table("within 10 mm")) == 1 + 4
    for sentence in ("nothing was left to learn", "no retraining", "No identified.json", "Nobody took over"):
        assert sentence in page.text
    (directory / "train/curve.json").unlink()
    assert "No learning curve" in page_of(directory).text


def test_without_opengl_the_page_says_so(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise VirtualArmError("cannot draw: off-screen drawing needs OpenGL: install libegl1")

    directory = make_run()
    monkeypatch.setattr(report, "render_pose", fail)
    page = page_of(directory)
    assert "No picture of the arm: cannot draw: off-screen drawing needs OpenGL" in page.text


def test_a_directory_without_a_run_is_refused(tmp_path: Path):
    with pytest.raises(ReportError, match=r"no results.json.*isthmus demo"):
        Report(directory=tmp_path).run()


def test_results_of_another_form_are_refused(make_run: MakeRun):
    directory = make_run()
    path = directory / "results.json"
    data = json.loads(path.read_text())
    del data["zero_shot"]
    path.write_text(json.dumps(data))
    with pytest.raises(FormatError, match="zero_shot"):
        write_report(directory)


def test_a_missing_log_is_named(make_run: MakeRun):
    directory = make_run()
    (directory / LOG_NAMES[3]).unlink()
    with pytest.raises(ReportError, match=r"4-residual.mcap.*results.json speaks of"):
        write_report(directory)


def test_an_evaluation_without_rows_is_refused(make_run: MakeRun):
    empty = dataclasses.replace(RESULTS, calibrated=Attempts(policy_id="calibrated", rows=()))
    with pytest.raises(ReportError, match="after calibration"):
        write_report(make_run(empty))


def test_the_command_prints_where_the_page_is(make_run: MakeRun, capsys: pytest.CaptureFixture[str]):
    directory = make_run()
    assert Report(directory=directory).run() == 0
    assert capsys.readouterr().out.strip() == str(directory / "report.html")
