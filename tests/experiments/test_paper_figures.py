"""The paper's simulated figures, from the sweeps that come with skipring to files, tables and messages."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.experiments import Cell, Store, Sweep
from skipring.experiments.curves import EmpiricalCurve, paper_sweep
from skipring.experiments.theory import LAWS
from skipring.privacy import Guarantee, InThisRun, PrivacyReport, nothing_promised
from skipring.report.curves import (
    draw_law_panels,
    draw_lines,
    draw_rivals,
    draw_series,
)
from skipring.simulation import ResolvedFacts, Result, simulate

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
SKIPS = [1e-4, 0.5, 0.7]


# --- Drawing


def zigzag(law: str, skip: float, *, spread: float = 0.02, points: int = 30, **values: Any) -> EmpiricalCurve:
    """A curve with bars of one length, which no drawing program can simplify to a straight line."""
    latency = np.linspace(0.0, 100.0, points)
    return EmpiricalCurve(
        law=law,
        values={"delay.skip": skip, **values},
        noise_multiplier=2.0,
        runs=3,
        steps=10 * np.arange(points),
        updates=5.0 * np.arange(points),
        latency=latency,
        latency_std=np.full(points, 100.0 * spread),
        error=0.3 + 0.1 * np.cos(np.arange(points)),
        error_std=np.full(points, spread),
    )


def words_in(path: Path) -> list[str]:
    """All texts of an SVG, which are drawn as outlines and repeated in comments."""
    return re.findall(r"<!-- (.*?) -->", path.read_text())


def groups_in(path: Path, name: str) -> list[list[ElementTree.Element]]:
    """The paths of every group of an SVG whose name begins like this."""
    tree = ElementTree.parse(path)
    found = [group for group in tree.iter() if str(group.get("id", "")).startswith(name)]
    return [[part for part in group.iter() if part.tag.endswith("path")] for group in found]


def corners(path: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] (\S+) (\S+)", path.get("d", ""))]


def bars_in(path: Path) -> list[list[tuple[float, float]]]:
    """For each group of error bars of an SVG, the width and the height of its bars."""
    groups = []
    for group in groups_in(path, "LineCollection"):
        ends = [corners(bar) for bar in group]
        groups.append([(abs(b[0] - a[0]), abs(b[1] - a[1])) for a, b in ends])
    return groups


def looks_in(path: Path) -> list[tuple[str, str]]:
    """Colour and dashes of every line of an SVG with more corners than frames, grids and bars have."""
    found = []
    for line, *_ in (paths for paths in groups_in(path, "line2d") if paths):
        if len(corners(line)) > 10:
            style = dict(part.split(": ") for part in line.get("style", "").split("; ") if ": " in part)
            found.append((style["stroke"], style.get("stroke-dasharray", "none")))
    return found


def drawn_twice(draw: Callable[[list[Path]], None], folder: Path) -> Path:
    """Draw the same twice, expect the same bytes, and return the SVG."""
    first, second = folder / "first.svg", folder / "second.svg"
    for path in (first, second):
        draw([path])
    assert first.read_bytes() == second.read_bytes()
    return first


def test_a_row_has_a_panel_for_each_law_and_bars_both_ways(tmp_path: Path) -> None:
    curves = [zigzag(law, skip, spread=spread) for law in LAWS for skip, spread in ((0.5, 0.01), (0.7, 0.03))]
    image = drawn_twice(lambda paths: draw_law_panels(curves, paths, title="Houses", until={}), tmp_path)
    words = words_in(image)
    assert words.count("average latency") == 3
    assert words.count("error rate on the test set") == 1
    assert (words.count("p = 0.5"), words.count("p = 0.7")) == (1, 1)  # one legend for all
    for title in ("exponential (mean 1)", "gamma (shape 1/4, scale 1)", "Pareto type II (shape 3, scale 2)"):
        assert title in words
    assert "Houses; mean of 3 runs, bars: one standard deviation" in words
    bars = bars_in(image)
    assert len(bars) == 2 * len(curves)
    for across, up, wide, high in zip(*(bars[place::4] for place in range(4)), strict=True):
        assert {len(group) for group in (across, up, wide, high)} == {9}
        assert all(height == 0.0 for _, height in (*across, *wide))
        assert all(width == 0.0 for width, _ in (*up, *high))
        # Three times the deviation, three times the bar.
        assert [width for width, _ in wide] == pytest.approx([3.0 * width for width, _ in across], rel=1e-3)
        assert [height for _, height in high] == pytest.approx([3.0 * height for _, height in up], rel=1e-3)
        assert min(height for _, height in up) > 1.0
    assert len(set(looks_in(image))) == 2


def test_a_panel_shows_nothing_beyond_its_axis(tmp_path: Path) -> None:
    curves = [zigzag(law, 0.5, points=101) for law in ("gamma", "Lomax")]
    draw_law_panels(curves, [tmp_path / "cut.svg"], title="Cut", until={"gamma": 50.0})
    short, long = (
        len(corners(paths[0]))
        for paths in groups_in(tmp_path / "cut.svg", "line2d")
        if paths and len(corners(paths[0])) > 10
    )
    assert (short, long) == (51, 101)
    assert [len(group) for group in bars_in(tmp_path / "cut.svg")] == [9] * 4


def test_rivals_are_drawn_with_bars_and_their_epsilon_and_none_looks_like_another(tmp_path: Path) -> None:
    curves = [zigzag("exponential:1", skip, rival=rival) for rival in range(7) for skip in (1e-4, 0.5)]
    # Not straight, either: a staircase.
    epsilons = [np.floor(curve.latency / 7.0) + place for place, curve in enumerate(curves)]

    def draw(paths: list[Path]) -> None:
        draw_rivals(
            curves,
            epsilons,
            paths,
            title="Rivals",
            name=lambda curve: f"rival {curve.values['rival']}",
            until=100.0,
            top_epsilon=30.0,
            epsilon_label="epsilon by a theorem",
        )

    image = drawn_twice(draw, tmp_path)
    words = words_in(image)
    for label in (
        "error rate on the test set",
        "epsilon by a theorem",
        "p = 0.0001",
        "p = 0.5",
        "rival 0",
        "rival 6",
        "Rivals; bars: one standard deviation over runs",
    ):
        assert words.count(label) == 1
    assert words.count("average latency") == 2
    assert [len(group) for group in bars_in(image)] == [9] * 28
    looks = looks_in(image)
    errors, privacy = looks[:14], looks[14:]
    assert errors == privacy  # a curve looks the same in both halves
    assert len(set(errors)) == 14


def test_lines_are_told_apart_though_there_are_more_than_colours(tmp_path: Path) -> None:
    curves = {f"case {place}": zigzag("lomax:3,2", 0.5) for place in range(9)}
    image = drawn_twice(lambda paths: draw_lines(curves, paths, title="Cases"), tmp_path)
    words = words_in(image)
    for label in (*curves, "Cases", "average latency", "error rate on the test set"):
        assert words.count(label) == 1
    assert len(set(looks_in(image))) == 9
    ends = [bar for group in bars_in(image) for bar in group if bar[0] == 0.0]
    assert len(ends) >= 9  # at the end of each line; the legend has some more
    assert min(height for _, height in ends) > 1.0


def test_series_are_drawn_with_their_deviations(tmp_path: Path) -> None:
    x = [0.1, 1.0, 10.0, 100.0]
    series = {"narrow": (x, [0.1, 0.3, 0.2, 0.4], [0.01] * 4), "wide": (x, [0.2, 0.4, 0.3, 0.5], [0.02] * 4)}

    def draw(paths: list[Path]) -> None:
        draw_series(series, paths, title="Series", xlabel="alpha", ylabel="error", log_x=True)

    image = drawn_twice(draw, tmp_path)
    for label in ("narrow", "wide", "Series", "alpha", "error"):
        assert words_in(image).count(label) == 1
    groups = [[height for _, height in group] for group in bars_in(image) if len(group) == 4]
    assert len(groups) == 2
    assert groups[1] == pytest.approx([2.0 * height for height in groups[0]], rel=1e-3)


def test_a_figure_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for name in ("file/row.svg", "row.bmp"):
        with pytest.raises(InvalidInput, match="figure = "):
            draw_law_panels([zigzag("gamma", 0.5)], [tmp_path / name], title="", until={})


# --- The command


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("figure 4", "--row missing: must be 1, 2, 3 or 4"),
        ("figure 4 --row 7", "--row 7: must be 1, 2, 3 or 4"),
        ("figure 4 --row 0", "--row 0: must be 1, 2, 3 or 4"),
        ("figure 4 --row two", "--row two: "),
        ("figure 4 --row 1 --clipped", "--clipped: the option is for rows 3 and 4; rows 1 and 2 need no clipping"),
        ("figure 4 --row 3 --tight", "--tight: the option is for row 2"),
        ("figure 4 --row 2 --runs 0", "--runs 0: must be at least 1"),
        ("figure 4 --row 2 --quick --runs -3", "--runs -3: must be at least 1"),
        ("figure 5 --row 2", "--row: the option is for Figure 4"),
        ("figure 5 --row 0", "--row: the option is for Figure 4"),
        ("figure 4 --row 2 --records", "--records: the option is for rows 3 and 4; rows 1 and 2 need no clipping"),
        ("figure 4 --row 3 --records --clipped", "--clipped: with records each record's gradient is clipped"),
        ("figure 5 --clipped", "--clipped: the option is for Figure 4"),
        ("figure 5 --records", "--records: the option is for Figure 4"),
        ("figure 5 --runs 0", "--runs 0: must be at least 1"),
        ("figure 7", "NUMBER 7: must be one of 2, 3, 4, 5, 6"),
        ("figure 1", "NUMBER 1: must be one of 2, 3, 4, 5, 6"),
        ("figure 2 --quick", "--quick: Figure 2 is computed, not simulated: leave the option out"),
        ("figure 3 --row 1", "--row: Figure 3 is computed, not simulated: leave the option out"),
        ("figure 6 --tight", "--tight: Figure 6 is computed, not simulated: leave the option out"),
        ("figure 2 --clipped", "--clipped: Figure 2 is computed, not simulated: leave the option out"),
        ("figure 2 --runs 0", "--runs: Figure 2 is computed, not simulated: leave the option out"),
        ("figure 2 --runs 5", "--runs: Figure 2 is computed, not simulated: leave the option out"),
        ("figure 2 --cells somewhere", "--cells: Figure 2 is computed, not simulated: leave the option out"),
        ("figure 2 --points 1", "--points 1: must be at least 2"),
        ("beyond nothing", "NAME nothing: must be one of skew, stragglers, traces, nodes, order, laps, rivals, images"),
        ("beyond laps --cells x", "--cells x: laps keeps no simulations"),
        ("beyond skew --runs 0", "--runs 0: must be at least 1"),
        ("numbers .", "DIR figure4-row2.csv: cannot be read: No such file or directory"),
        ("numbers", "DIR paper-figures/figure4-row2.csv: cannot be read: No such file or directory"),
    ],
)
def test_what_cannot_be_meant_gets_one_line_before_any_work(
    skipring: Command, tmp_path: Path, line: str, expected: str
) -> None:
    answer = skipring(f"paper {line}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {expected}")
    assert answer.err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_its_data_a_figure_says_where_to_put_it(
    skipring: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(tmp_path / "nowhere"))
    answer = skipring("paper figure 4 --row 1 --quick --out figures")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: SWEEP figure4-row1: SKIPRING_DATA = ")
    assert answer.err.count("\n") == 1
    assert not list((tmp_path / "figures").glob("figure4*"))


@pytest.fixture(scope="session")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the houses; where there are none, with as many made-up ones."""
    for folder in (os.environ.get("SKIPRING_DATA"), ROOT.parent / "shared" / "data"):
        if folder and (Path(folder) / "houses.npz").is_file():
            return Path(folder).resolve()
    made_up = tmp_path_factory.mktemp("houses")
    rng = np.random.default_rng(1)
    most = {"median_house_value": 5e5, "median_income": 15, "housing_median_age": 52, "total_rooms": 1e4}
    most |= {"total_bedrooms": 2e3, "population": 6e3, "households": 2e3, "latitude": 42}
    shares = rng.random((20_640, 8))
    arrays: dict[str, Any] = {
        "openml823_X": shares * np.array(list(most.values())),
        "openml823_feature_names": np.array(list(most)),
        "openml823_label_P": ((shares - 0.5) @ rng.normal(size=8) > 0.0).astype(np.uint8),
    }
    np.savez(made_up / "houses.npz", **arrays)
    return made_up


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_row_of_figure_4_from_data_to_files(
    skipring: Command, houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(houses))
    answer = skipring("paper figure 4 --row 1 --quick --runs 2 --out figures --json")
    assert answer.code == 0, answer.err
    data = answer.data
    assert (data["figure"], data["sweep"]) == (4, "figure4-row1")
    files = [tmp_path / "figures" / f"figure4-row1-quick.{suffix}" for suffix in ("png", "svg", "csv")]
    assert [tmp_path / file for file in data["files"]] == files
    rows = table(files[2])
    assert [(curve["delay"], curve["skip"]) for curve in data["curves"]] == [(law, p) for law in LAWS for p in SKIPS]
    for curve in data["curves"]:
        mine = [row for row in rows if row["delay"] == curve["delay"] and float(row["delay.skip"]) == curve["skip"]]
        assert len(mine) <= 121
        assert {row["runs"] for row in mine} == {"2"}
        assert float(mine[0]["latency"]) == 0.0
        # The axis ends at 1000, and points are a few hops apart.
        assert 980.0 < curve["latency"] <= 1000.1
        assert float(mine[-1]["latency"]) == pytest.approx(curve["latency"], rel=1e-5)
        assert float(mine[-1]["test_error"]) == pytest.approx(curve["test_error"], rel=1e-5)
        assert float(mine[-1]["test_error_std"]) == pytest.approx(curve["test_error_std"], rel=1e-5)
        assert 0.0 < curve["test_error"] < 1.0
    assert len(list((tmp_path / "figures" / "sweeps" / "cells").iterdir())) == 3
    before = [file.read_bytes() for file in files]
    again = skipring("paper figure 4 --row 1 --quick --runs 2 --out figures")  # nothing is left to simulate
    assert again.code == 0
    assert before[0].startswith(b"\x89PNG")
    assert [file.read_bytes() for file in files] == before
    words = " ".join(again.out.split())
    assert "logistic regression, 10 nodes" in words
    assert "Test error at the end of the axis" in words
    for curve in data["curves"]:
        assert f"{curve['test_error']:.4f} ± {curve['test_error_std']:.4f}" in words
    assert max(map(len, again.out.splitlines())) <= 80


# Cells that are finished are not simulated again. Made-up ones stand for hours of work on a GPU.


def made_up(cell: Cell, number: int, privacy: Mapping[str, Any]) -> Result:
    """A result whose error falls from 0.5 to 0.1 and a bit more for each cell, in three runs that differ by 0.02."""
    steps, every = cell.run.schedule.steps or 5, cell.run.simulation.evaluate_every
    points = np.append(np.arange(0, steps, every), steps)
    runs = cell.run.simulation.runs
    error = np.linspace(0.5, 0.1 + 0.01 * number, len(points))
    offsets = 0.02 * (np.arange(runs) - (runs - 1) / 2.0)
    share = 1.0 - (cell.run.delay.skip or 0.0)
    noise = cell.run.privacy.noise_multiplier or 50.0 + number
    nothing = np.zeros((runs, len(points)))
    return Result(
        settings=cell.run.model_dump(mode="json"),
        resolved=ResolvedFacts(
            nodes=10,
            steps=steps,
            timeout=1.0,
            noise_multiplier=noise,
            gradient_bound=1.0,
            smoothness=0.25,
            model="logistic",
            parameters=2,
            noise_std=0.1,
            rows=100,
            test_rows=20,
            columns=2,
        ),
        points=points,
        test_error=error + offsets[:, None],
        loss=nothing,
        latency=points * (1.0 + np.abs(offsets[:, None])),
        updates=np.tile((share * points).astype(np.int64), (runs, 1)),
        models=np.zeros((runs, 0)),
        offered=np.full(10, 10),
        skipped=np.full(10, 3),
        privacy=replace(PrivacyReport(delta=1e-6, promised=stated(None)), **privacy),
    )


def stated(epsilon: float | None) -> Guarantee:
    nothing = nothing_promised("node", 1e-6, "nobody asked")
    return nothing if epsilon is None else replace(nothing, epsilon=epsilon, refused=None)


def finish(
    sweep: Sweep,
    folder: Path,
    privacy: Callable[[int], Mapping[str, Any]] = lambda _: {"promised": stated(1.0)},
) -> None:
    """Leave a made-up result of every cell where the command looks for them."""
    store = Store(folder)
    store.prepare()
    for number, cell in enumerate(sweep.cells):
        store.keep(cell.key, made_up(cell, number, privacy(number)))


def promised(number: int) -> Mapping[str, Any]:
    return {"promised": stated(13.1 + 0.1 * number)}


def in_this_run(worst: float) -> Mapping[str, Any]:
    return {"in_this_run": InThisRun(guarantee=stated(worst), median=1.0, pair_99=1.5)}


def refused(_: int) -> Mapping[str, Any]:
    return {"refused": "gradients are not clipped"}


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("options", "name", "privacy", "title"),
    [
        ("--row 3", "figure4-row3", refused, "MNIST, 60 nodes; not clipped: no privacy guarantee"),
        (
            "--row 3 --clipped",
            "figure4-row3-clipped",
            promised,
            "MNIST, 60 nodes, a node's gradient clipped; epsilon 13.1 to 13.3 of a node (replace-one), delta 1e-06",
        ),
        (
            "--row 3 --records",
            "figure4-row3-records",
            promised,
            "MNIST, 60 nodes, records protected; epsilon 13.1 to 13.3 of a record (replace-one), delta 1e-06",
        ),
        ("--row 2 --tight", "figure4-row2-tight", promised, "logistic regression, 1000 nodes, noise for a proven"),
    ],
)
def test_figures_say_what_is_promised(
    skipring: Command, tmp_path: Path, options: str, name: str, privacy: Any, title: str
) -> None:
    finish(paper_sweep(name, changes=["simulation.runs=3"]), tmp_path / "cells", privacy)
    answer = skipring(f"paper figure 4 {options} --runs 3 --out figures --cells cells --json")
    assert answer.code == 0, answer.err
    assert any(words.startswith(title) for words in words_in(tmp_path / "figures" / f"{name}.svg"))
    assert not (tmp_path / "figures" / "sweeps").exists()
    curves = answer.data["curves"]
    assert len(curves) == 9
    for place, curve in enumerate(curves):
        # Where the axis ends before the curve, its error is higher.
        assert 0.1 + 0.01 * (place % 3) - 1e-9 <= curve["test_error"] < 0.5
        assert curve["test_error_std"] == pytest.approx(0.02)
    rows = table(tmp_path / "figures" / f"{name}.csv")
    assert {row["delay"] for row in rows} == set(LAWS)


@pytest.mark.slow  # what is proven of gossip takes long; the published epsilons are tested on their own
def test_figure_5_from_finished_cells_to_files(
    skipring: Command, houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(houses))
    sweep = paper_sweep("figure5", changes=["simulation.runs=3"])
    finish(sweep, tmp_path / "cells")
    answer = skipring("paper figure 5 --runs 3 --cells cells --out figures --json")
    assert answer.code == 0, answer.err
    curves = answer.data["curves"]
    assert [curve["skip"] for curve in curves] == [cell.run.delay.skip for cell in sweep.cells]
    names = [f"{cell.run.schedule.name}, noise {cell.run.privacy.noise_multiplier:.3g}" for cell in sweep.cells]
    assert [curve["schedule"] for curve in curves] == names
    assert curves[0]["epsilon"] == pytest.approx(2.202, abs=1e-3)
    rows = table(tmp_path / "figures" / "figure5.csv")
    words = words_in(tmp_path / "figures" / "figure5.svg")
    for curve, cell in zip(curves, sweep.cells, strict=True):
        assert words.count(curve["schedule"]) == 1  # in the legend
        mine = [
            row
            for row in rows
            if row["schedule.name"] == cell.run.schedule.name
            and float(row["delay.skip"]) == cell.run.delay.skip
            and float(row["noise_multiplier"]) == cell.run.privacy.noise_multiplier
        ]
        epsilons = [float(row["epsilon"]) for row in mine]
        assert epsilons[0] == 0.0
        assert epsilons == sorted(epsilons)
        shown = [row for row in mine if float(row["latency"]) <= 24002.4]
        assert float(shown[-1]["epsilon"]) == pytest.approx(curve["epsilon"], rel=1e-5)
        assert float(shown[-1]["latency"]) == pytest.approx(curve["latency"], rel=1e-5)
    assert len(bars_in(tmp_path / "figures" / "figure5.svg")) == 2 * 12


@pytest.mark.parametrize("name", ["skew", "stragglers", "nodes"])
def test_what_goes_beyond_the_paper_from_finished_cells_to_files(
    skipring: Command, houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(houses))  # for the row that is no cell
    sweep = paper_sweep(name, quick=True, changes=["simulation.runs=3"])
    # Where labels decide who is late, a simulation states none.
    stated = [cell.run.stragglers.slow_class is None and number % 2 for number, cell in enumerate(sweep.cells)]
    finish(sweep, tmp_path / "out" / "sweeps", lambda number: in_this_run(2.0) if stated[number] else {})
    answer = skipring(f"paper beyond {name} --quick --runs 3 --out out --json")
    assert answer.code == 0, answer.err
    files = [f"out/{name}-quick.{suffix}" for suffix in ("png", "svg", "csv")]
    assert answer.data["files"] == files
    assert all((tmp_path / file).stat().st_size > 1000 for file in files)
    found = answer.data["rows"]
    weighted = found.pop(1) if name == "stragglers" else {}
    errors = [0.1 + 0.01 * number for number in range(len(sweep.cells))]
    if name == "nodes":  # the first cell of each number of nodes has the lowest error
        counts = [cell.run.data.nodes for cell in sweep.cells]
        assert [row["nodes"] for row in found] == sorted(set(counts), key=lambda n: n or 0)
        errors = [errors[counts.index(row["nodes"])] for row in found]
        first = [sweep.cells[counts.index(row["nodes"])].run for row in found]
        assert [row["rounds"] * row["nodes"] for row in found] == [run.schedule.steps for run in first]
        assert [row["rate"] for row in found] == [run.learning.rate for run in first]
    assert [row["test_error"] for row in found] == pytest.approx(errors)
    assert [row["test_error_std"] for row in found] == pytest.approx([0.02] * len(found))
    if name == "stragglers":
        assert any(stated)
        assert [row["epsilon"] for row in found] == [2.0 if one else None for one in stated]
        assert {row["skip_rate"] for row in found} == {0.3}
        drawn = {row["case"] for row in found} - set(sweep.figure["leave_out"])
        assert drawn <= set(words_in(tmp_path / files[1]))
        assert len(drawn) == len(found) - 3
        assert all(row["updates"].count(" / ") == 1 for row in found)
        # The cell before it was made up; weights change nothing but the error.
        assert weighted["case"] == "timeout 0.2139, FedAU weights"
        assert weighted["case"] in words_in(tmp_path / files[1])
        twin = simulate(sweep.cells[0].run).summary()
        assert (weighted["skip_rate"], weighted["latency"]) == (twin.skip_rate, twin.latency.mean)
        assert weighted["test_error"] != twin.test_error.mean
        assert weighted["epsilon"] is None
    lines = table(tmp_path / files[2])
    kinds = {tuple(list(line.values())[: list(line).index("step")]) for line in lines}
    assert len(kinds) == len(sweep.cells) + bool(weighted)


def test_of_laps_and_their_rivals_the_best_at_each_epsilon_are_drawn_and_written(
    skipring: Command, houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a run was recorded, the epsilon in it counts, and else what is promised."""
    monkeypatch.setenv("SKIPRING_DATA", str(houses))
    sweep = paper_sweep("rivals", changes=["simulation.runs=3"])
    cells, budgets = sweep.cells, [cell.run.privacy.epsilon or 0.0 for cell in sweep.cells]
    seen = {number for number, cell in enumerate(cells) if cell.run.schedule.name == "gossip"}
    assert seen == {number for number, cell in enumerate(cells) if cell.run.simulation.record_path}

    def privacy(number: int) -> Mapping[str, Any]:
        if number in seen:
            return {"promised": stated(budgets[number]), **in_this_run(0.5 * budgets[number])}
        return {"promised": stated(budgets[number] * (1.0 - 1e-9))}

    finish(sweep, tmp_path / "out" / "sweeps", privacy)
    answer = skipring("paper beyond rivals --runs 3 --out out --json")
    assert answer.code == 0, answer.err
    expected: dict[tuple[str, float], int] = {}
    for number, cell in enumerate(cells):  # the first cell of each has the lowest error
        epsilon = budgets[number] * (0.5 if number in seen else 1.0)
        expected.setdefault((cell.run.schedule.name, epsilon), number)
    rows = answer.data["rows"]
    assert [(row["schedule"], row["epsilon"]) for row in rows] == list(expected)
    assert len(rows) == 4 * 6
    assert [row["test_error"] for row in rows] == pytest.approx([0.1 + 0.01 * each for each in expected.values()])
    given = [cells[each].changes for each in expected.values()]
    assert [row["rate"] for row in rows] == [changes.get("learning.rate") for changes in given]
    assert [row["steps"] for row in rows] == [changes.get("schedule.steps") for changes in given]
    assert set(sweep.figure["names"].values()) <= set(words_in(tmp_path / "out" / "rivals.svg"))
    lines = table(tmp_path / "out" / "rivals.csv")
    assert {(line["schedule.name"], float(line["epsilon"])) for line in lines} == set(expected)
    assert max(map(len, skipring("paper beyond rivals --runs 3 --out out").out.splitlines())) <= 80


def test_a_table_for_people_fits_their_window(
    skipring: Command, houses: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SKIPRING_DATA", str(houses))
    sweep = paper_sweep("stragglers", changes=["simulation.runs=3"])
    stated = [cell.run.stragglers.slow_class is None for cell in sweep.cells]
    finish(sweep, tmp_path / "out" / "sweeps", lambda number: in_this_run(2.5) if stated[number] else {})
    answer = skipring("paper beyond stragglers --runs 3 --out out")
    assert answer.code == 0, answer.err
    lines = answer.out.splitlines()
    assert max(map(len, lines)) <= 80
    words = " ".join(answer.out.split())
    assert sweep.title in words
    assert "case skip rate latency updates test error epsilon" in words
    assert words.count(" 2.5") == sum(stated) == 3
    assert "0.1000 ± 0.0200 -" in words  # no epsilon
    assert "0.2300 ± 0.0200 2.5" in words
    assert [line.strip() for line in lines[-3:]] == [f"out/stragglers.{suffix}" for suffix in ("png", "svg", "csv")]
