"""The learning curve as a file and as a picture."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from PIL import Image

from isthmus.hardware.structure import read_json, write_json
from isthmus.policies.curve import Curve, CurvePoint
from isthmus.policies.learning.curve_plot import curve_rows, plot_curve, plot_curves
from isthmus.sim.tasks import get_task

POINTS = (
    CurvePoint(steps=100, seconds=1.0, reward=0.1, success=None),
    CurvePoint(steps=200, seconds=2.5, reward=0.2, success=0.25, metrics={"cart_error": 0.5}),
)


def test_a_curve_survives_its_file_and_one_without_metrics_still_loads(tmp_path):
    write_json(tmp_path / "curve.json", Curve(points=POINTS))
    assert read_json(tmp_path / "curve.json", Curve).points == POINTS
    old = '{"points": [{"steps": 100, "seconds": 1.0, "reward": 0.1, "success": null}]}'
    (tmp_path / "old.json").write_text(old)
    assert read_json(tmp_path / "old.json", Curve).points == POINTS[:1]


def test_each_quantity_has_a_row_with_its_unit_and_gaps_where_no_episode_ended():
    rows = dict(curve_rows(Curve(points=POINTS), get_task("cartpole-balance")))
    assert list(rows) == ["reward per tick", "success, %", "cart_error, m"]
    np.testing.assert_array_equal(rows["success, %"], [np.nan, 25.0])
    np.testing.assert_array_equal(rows["cart_error, m"], [np.nan, 0.5])


def test_the_picture_shows_the_points_and_a_run_without_any_has_one_too(tmp_path):
    pictures = []
    for points in (POINTS, (POINTS[0], replace(POINTS[1], reward=0.1)), ()):
        plot_curve(Curve(points=points), get_task("cartpole-balance"), tmp_path / "curve.png")
        with Image.open(tmp_path / "curve.png") as picture:
            pictures.append(np.asarray(picture))
    assert (pictures[0] != pictures[1]).any() and pictures[2].shape == pictures[0].shape
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]


def test_a_curve_is_cut_where_its_checkpoint_ends():
    assert Curve(points=POINTS).until(200).points == POINTS
    assert Curve(points=POINTS).until(199).points == POINTS[:1]
    assert Curve(points=POINTS).until(0).points == ()


def test_a_picture_of_several_runs_shows_all_of_the_longest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    drawn: list[Figure] = []
    save = Figure.savefig

    def keep(self: Figure, *arguments: Any, **keywords: Any) -> None:
        drawn.append(self)
        save(self, *arguments, **keywords)

    monkeypatch.setattr(Figure, "savefig", keep)
    short, long = (
        Curve(points=tuple(CurvePoint(steps=i, seconds=i, reward=0.0, success=0.5) for i in range(1, last)))
        for last in (5, 50)
    )
    plot_curves({"short": short, "long": long}, get_task("cartpole-balance"), tmp_path / "curves.png")
    assert all(axis.get_xlim()[0] == 0 for axis in drawn[0].axes)
    assert drawn[0].axes[1].get_xlim()[1] >= 49
