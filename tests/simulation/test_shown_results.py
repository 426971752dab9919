"""A result in a notebook: what it looks like, and what leaves it for other tools."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import skipring
import skipring.simulation.rivals
from skipring.errors import InvalidInput
from skipring.report.page import load_folders, report_page
from skipring.runs import with_changes
from skipring.simulation import Result, simulate

SMALL = [
    "data.nodes=10",
    "schedule.name=random-ring",
    "schedule.steps=40",
    "simulation.runs=3",
    "simulation.evaluate_every=20",
]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return simulate(with_changes(None, SMALL), out=tmp_path_factory.mktemp("shown") / "ring_1")


def test_the_repr_is_short_and_says_what_came_out(result: Result) -> None:
    lines = repr(result).splitlines()
    assert len(lines) == 2
    assert max(map(len, lines)) <= 120
    assert lines[0] == "<Result of random-ring: logistic, 10 nodes, 40 steps, 3 runs;"
    assert f"test error {result.test_error[:, -1].mean():.4g} ± " in lines[1]
    assert "epsilon 8 at delta 1e-05 for one record (promised)>" in lines[1]
    bare = simulate(with_changes(None, [*SMALL, "privacy.noise_multiplier=0", "simulation.runs=1"]))
    assert "1 run;" in repr(bare)
    assert "no epsilon" in repr(bare)


def test_a_frame_has_a_row_for_each_run_and_point(result: Result) -> None:
    frame = result.to_pandas()
    assert list(frame.columns) == ["run", "steps", "updates", "latency", "test_error", "loss"]
    assert len(frame) == 3 * 3
    for number in range(3):
        rows = frame[frame["run"] == number]
        assert rows["steps"].tolist() == [0, 20, 40]
        for name in ("updates", "latency", "test_error", "loss"):
            assert np.array_equal(rows[name].to_numpy(), getattr(result, name)[number])


def test_without_pandas_it_is_said_how_to_get_it(result: Result, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InvalidInput, match="needs pandas: pip install pandas"):
        result.to_pandas()


def test_the_latex_is_that_of_the_page(result: Result, tmp_path: Path) -> None:
    result.save(tmp_path / "ring_1")
    page = report_page(load_folders([tmp_path / "ring_1"]))
    for line in result.latex("ring_1").splitlines():
        assert line.replace("&", "&amp;") in page
    assert r"ring\_1 & random-ring & " in result.latex("ring_1")
    assert result.latex().splitlines()[5].startswith("random-ring & random-ring & ")


@pytest.mark.parametrize(
    "room",
    [skipring, skipring.report, skipring.experiments, skipring.simulation.rivals],
    ids=lambda room: room.__name__,
)
def test_dir_shows_names_that_are_not_loaded_yet(room: object) -> None:
    shown = dir(room)
    assert shown
    assert all(hasattr(room, name) for name in shown)
    assert "TYPE_CHECKING" not in shown


def test_dir_shows_the_rooms() -> None:
    assert {"delays", "timeouts", "privacy", "simulation", "network"} <= set(dir(skipring))
    assert not [name for name in dir(skipring) if name.startswith("_") and name != "__version__"]
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = skipring.nothing
