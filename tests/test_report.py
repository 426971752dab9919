"""The page about simulations: everything in one file, and the numbers of the result folders."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from collections.abc import Callable
from functools import cache
from html import unescape
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from skipring._numbers import number, upper
from skipring.privacy import Histogram, forecast
from skipring.report import report_page
from skipring.report.page import Folder, _epsilon_lines, load_folders, row_of
from skipring.report.page_parts import error_chart, pair_chart, settings_table, skip_chart, xy_layout
from skipring.runs import RunFile, with_changes
from skipring.simulation import Result, simulate
from skipring.simulation.table import latex_table

SMALL = ["schedule.name=random-ring", "simulation.runs=3", "simulation.evaluate_every=200", "delay.law=gamma:0.25,1"]


def small(*changes: str) -> RunFile:
    return with_changes(None, [*SMALL, *changes])


@cache
def shown(*changes: str) -> str:
    """The page about one simulation, without the chart library."""
    return without_library(report_page([Folder("run", simulate(small(*changes)))]))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two simulations: the best timeout, and a ring that waits for everyone."""
    base = tmp_path_factory.mktemp("results")
    simulate(small(), out=base / "quick")
    simulate(small("schedule.name=ring", "delay.timeout=inf"), out=base / "patient_ring")
    return [base / "quick", base / "patient_ring"]


@pytest.fixture(scope="module")
def page(folders: list[Path]) -> str:
    return report_page(load_folders(folders))


def without_library(page: str) -> str:
    """Return a page without the chart library, which is the only script of more than a million characters."""
    # A regular expression for this takes a second.
    first, *scripts = page.split("<script>")
    parts = [first]
    for script in scripts:
        text, end, after = script.partition("</script>")
        parts.append(after if len(text) >= 1_000_000 else f"<script>{text}{end}{after}")
    return "".join(parts)


def test_a_run_on_a_file_does_not_name_the_data_set_it_did_not_read(tmp_path: Path) -> None:
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,ill\n" + "".join(f"{row % 7},{row % 5},{'no' if row % 3 else 'yes'}\n" for row in range(60)))
    own = shown(f"data.path={rows}", "data.label=ill", "data.nodes=5")
    assert "data.path" in own
    assert "breast-cancer" not in own
    assert "breast-cancer" in shown()


def test_a_page_says_what_was_run_on_which_rows_and_no_settings_that_nobody_looked_at() -> None:
    own = shown("data.nodes=5")
    assert "<title>skipring: breast-cancer: logistic, 5 nodes, random-ring</title>" in own
    assert "<h1>breast-cancer: logistic, 5 nodes, random-ring</h1>" in own
    assert "Data: breast-cancer: 455 rows to learn from, 114 to test, 30 columns, 5 nodes." in own
    assert "latency, in the unit of the law of delays" in own
    for unused in ("gossip.", "federated.", "stragglers.", "data.alpha", "data.exponent", "data.shards_per_node"):
        assert f"<code>{unused}" not in own
    other = shown("data.nodes=5", "data.split=dirichlet", "stragglers.lost_link=0.1")
    assert "<code>data.alpha" in other
    assert "<code>stragglers.lost_link" in other
    rival = shown("data.nodes=5", "schedule.name=gossip", "schedule.steps=2")
    assert "<code>gossip.rounds" in rival
    assert "<code>federated" not in rival


def test_columns_are_said_as_a_schema_has_them_and_labels_keep_off_their_lines() -> None:
    ill = {"name": "ill", "label": True, "person": False, "categories": ["no", "yes, much"], "missing": None}
    columns = [{"name": "age", "range": [20, 80]}, ill]
    table = settings_table(["a"], [{"column": columns, "data": {"standardise": False}}])
    assert "<code>column.age</code></td><td>range = [20, 80]</td>" in table
    said = "label = true, categories = [&quot;no&quot;, &quot;yes, much&quot;]"
    assert f"<code>column.ill</code></td><td>{said}</td>" in table
    assert "<td>false</td>" in table
    for value, sign in ((1.0, 1), (9.0, -1)):
        (note,) = pair_chart(Histogram(edges=(0.0, 5.0, 10.0), counts=(1, 2)), value, 0)[1]["annotations"]
        assert note["xshift"] * sign > 0
        assert (note["y"], note["yanchor"]) == (1, "bottom")  # above the bars


def test_the_page_shows_the_numbers_of_the_files(page: str, folders: list[Path]) -> None:
    cells = [re.sub("<[^>]*>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", page)]
    for folder in folders:
        privacy = json.loads((folder / "privacy.json").read_text())
        settings = json.loads((folder / "run.json").read_text())
        errors = np.load(folder / "metrics.npz")["test_error"][:, -1]
        assert folder.name in cells
        assert f"{number(float(errors.mean()))} ± {errors.std(ddof=1):.2g}" in cells
        worst = privacy["in_this_run"]["guarantee"]["epsilon"]
        for value in (privacy["promised"]["epsilon"], privacy["paper"]["epsilon"], worst):
            assert upper(value) in cells
        assert number(settings["resolved"]["noise_multiplier"]) in cells
        assert str(settings["privacy"]["delta"]) in cells
        for value in (worst, privacy["in_this_run"]["median"], privacy["in_this_run"]["pair_99"]):
            assert upper(value) in page
    for name in ("skipring", "Python", "numpy", "numba"):
        assert name in cells


def test_the_page_loads_nothing_from_anywhere(page: str) -> None:
    assert page.count("plotly.js v") == 1
    rest = without_library(page)
    assert len(rest) < 1_000_000 < len(page)
    assert "://" not in rest
    assert not re.search(r"""(?:src|href)\s*=|url\(|@import""", rest)
    assert "default-src 'none'" in rest  # and the library may not, either


def test_the_same_folders_give_the_same_page(page: str, folders: list[Path]) -> None:
    assert report_page(load_folders(folders)) == page


def test_every_chart_has_its_place(page: str) -> None:
    for chart in ("error", "epsilon", "pairs-0", "pairs-1", "skips-0"):
        assert page.count(f'<div id="{chart}"') == 1
    assert 'id="skips-1"' not in page
    assert "nobody was ever skipped" in page


def test_on_a_log_axis_all_lines_begin_at_its_left_end_with_what_was_known_then(folders: list[Path]) -> None:
    results = [(folder.name, folder.result) for folder in load_folders(folders)]
    traces, layout = error_chart(results, log_x=True)
    left = min(float(result.latency[:, 1].min()) for _, result in results)
    assert layout["xaxis"]["range"][0] == pytest.approx(math.log10(left))
    for (_, result), line in zip(results, traces[1::2], strict=True):
        assert line["x"][0] == pytest.approx(left)
        assert line["x"][-1] == pytest.approx(float(result.latency[:, -1].mean()))
        # As many points for each tenfold latency: none is far from the next, however slow the run.
        assert max(b / a for a, b in pairwise(line["x"])) < 1.1
    patient = results[1][1]
    assert traces[3]["y"][0] == pytest.approx(patient.test_error[:, 0].mean())


def test_settings_say_whom_the_noise_hides_also_where_the_file_did_not(page: str) -> None:
    assert re.search(r"<code>privacy\.protects</code></td><td[^>]*>record</td>", page)


def test_what_holds_for_all_folders_is_said_once(page: str, folders: list[Path]) -> None:
    words = "which no epsilon covers"
    assert page.count(words) == 1
    note = next(line for line in re.findall(r"<li>.*?</li>", page) if words in line)
    assert note.startswith("<li>All: Features are")
    alone = report_page(load_folders(folders[:1]))
    assert "quick</span>: Features are" in alone
    third = simulate(small("data.standardise=false", "model.classes=['malignant', 'benign']"))
    some = re.findall(r"<li>.*?</li>", report_page([*load_folders(folders), Folder("third", third)]))
    assert sum(words in line for line in some) == 1
    assert re.search(r"quick</span>, .*patient_ring</span>: Features are", next(line for line in some if words in line))


def test_words_of_a_legend_have_room(folders: list[Path]) -> None:
    for long in ("short", "a name of a few words that is rather long"):
        layout = xy_layout("latency", "error", legend=2, longest=len(long))
        assert layout["legend"]["entrywidthmode"] == "pixels"
        assert layout["legend"]["entrywidth"] >= 6.5 * len(long)


def test_text_of_users_is_escaped(folders: list[Path]) -> None:
    result = Result.load(folders[0])
    evil = dict(result.settings) | {"data": {"path": "<img src=x>"}}
    page = without_library(
        report_page([Folder("<script>alert(1)</script>", dataclasses.replace(result, settings=evil))])
    )
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page


def test_a_folder_may_have_the_name_of_a_script(folders: list[Path], tmp_path: Path) -> None:
    odd = tmp_path / "<script>"
    shutil.copytree(folders[0], odd)
    page = without_library(report_page(load_folders([odd])))
    assert "&lt;script&gt;" in page
    assert page.count("<script>") == page.count("</script>")


def test_the_latex_table_has_the_numbers_of_the_page(page: str, folders: list[Path]) -> None:
    found = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)
    assert found is not None
    text = unescape(found.group(1))
    lines = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(lines) == 1 + len(folders)
    assert r"\begin{tabular}{lllrrrrrrrrr}" in text
    for folder, line in zip(load_folders(folders), lines[1:], strict=True):
        row = row_of(folder)
        cells = line.removesuffix(r" \\").split(" & ")
        assert cells[0] == folder.name.replace("_", r"\_")
        assert cells[1] == row.schedule
        assert cells[2] == row.protects == "record"
        assert cells[3] == number(row.timeout).replace("infinity", r"$\infty$")
        middle = ("skip_rate", "noise_multiplier", "epsilon_in_this_run", "epsilon_promised", "epsilon_paper")
        assert cells[4:9] == [(upper if key.startswith("epsilon") else number)(getattr(row, key)) for key in middle]
        assert cells[9] == rf"{number(row.test_error.mean)} $\pm$ {row.test_error.std:.2g}"
        assert cells[10:] == [number(row.latency), number(row.updates)]


def test_latex_signs_are_escaped() -> None:
    assert r"50\% \& \$ \textbackslash{}x\_y" in latex_table(["name"], [[r"50% & $ \x_y"]], 1)


def test_all_pairs_are_in_the_histogram(folders: list[Path]) -> None:
    for folder in folders:
        found = Result.load(folder).privacy.in_this_run
        assert found is not None
        histogram = found.histogram
        assert histogram is not None
        assert len(histogram.edges) == 41
        assert len(histogram.counts) == 40
        assert sum(histogram.counts) == 113 * 112
        assert histogram.edges[-1] == pytest.approx(found.worst)
        below = np.cumsum(histogram.counts) / (113 * 112)
        assert histogram.edges[0] < found.median < histogram.edges[-1]
        # The bin of the median is the first whose share reaches one half.
        place = int(np.searchsorted(below, 0.5))
        assert histogram.edges[place] - 1e-6 <= found.median <= histogram.edges[place + 1] + 1e-6


def test_the_record_of_a_folder_is_that_of_the_run(folders: list[Path]) -> None:
    for folder in folders:
        result = Result.load(folder)
        record = result.privacy.planned_for(3390)
        assert record == result.privacy.planned
        assert forecast(record).epsilon(1e-5) == result.privacy.epsilon
        assert result.privacy.planned_for(3278).steps == 3390  # whole rounds


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (["privacy.noise_multiplier=0"], "without noise there is no differential privacy"),
        (["privacy.noise_multiplier=2", "stragglers.die=0.1", "stragglers.revive=0.5"], "independent and alike"),
        (["privacy.noise_multiplier=2", "schedule.steps=500"], "whole rounds"),
        (["privacy.noise_multiplier=2", "learning.rate=9", "schedule.steps=226"], "The noise of others is not counted"),
        (
            ["schedule.steps=226", "learning.step_size=constant"],
            "theorems do not cover this; the method tight does</td>",
        ),
        (["schedule.steps=226", "simulation.record_path=false"], "was not recorded"),
        (
            ["data.nodes=2", "schedule.steps=2000", "delay.skip=0.9", "privacy.noise_multiplier=10"],
            "Do not rely on the paper&#x27;s line: Theorem 3 claims",
        ),
    ],
)
def test_what_is_missing_is_said_in_words(changes: list[str], words: str) -> None:
    assert words in shown(*changes)


def test_a_value_of_the_paper_that_is_not_shown_to_hold_is_marked_in_the_table() -> None:
    few = ["data.nodes=2", "schedule.steps=2000", "delay.skip=0.9", "privacy.noise_multiplier=10"]
    assert shown(*few).count("(not proven)") == 3  # in both tables, and in the one for LaTeX
    assert "(not proven)" not in shown("schedule.steps=226")


def test_many_nodes_are_shown_as_a_histogram(folders: list[Path]) -> None:
    result = Result.load(folders[0])
    assert skip_chart(result, 0)[0][0]["type"] == "bar"
    many = dataclasses.replace(result, offered=np.tile(result.offered, 2), skipped=np.tile(result.skipped, 2))
    assert skip_chart(many, 0)[0][0]["type"] == "histogram"


def test_a_node_that_was_never_asked_has_no_bar(folders: list[Path]) -> None:
    result = Result.load(folders[0])
    offered, skipped = result.offered.copy(), result.skipped.copy()
    offered[7] = skipped[7] = 0
    (bars,), _ = skip_chart(dataclasses.replace(result, offered=offered, skipped=skipped), 0)
    assert 7 not in bars["customdata"]
    assert bars["y"] == sorted(bars["y"], reverse=True)


Command = Callable[..., tuple[int, str, str]]


def test_report_writes_the_page(skipring_words: Command, folders: list[Path], tmp_path: Path, page: str) -> None:
    (tmp_path / "comparison.png").touch()
    code, out, _ = skipring_words("report", *map(str, folders), "comparison.png", "--out", "sub/page.html", "--json")
    data = json.loads(out)
    assert code == 0
    assert (tmp_path / "sub" / "page.html").read_text(encoding="utf-8") == page
    assert [row["name"] for row in data["folders"]] == ["quick", "patient_ring"]
    assert data["folders"][1]["timeout"] == np.inf
    assert data["left_out"] == ["comparison.png"]


def test_cells_of_a_sweep_are_called_by_what_differs(folders: list[Path], tmp_path: Path) -> None:
    cells = [tmp_path / "0123456789abcdef", tmp_path / "00000000deadbeef"]
    for folder, cell in zip(folders, cells, strict=True):
        shutil.copytree(folder, cell)
    names = [folder.name for folder in load_folders([*cells, folders[0]])]
    assert names == ["name random-ring, timeout -", "name ring, timeout inf", "quick"]
    assert [folder.name for folder in load_folders(cells[:1])] == ["0123456789abcdef"]  # nothing to tell it from


def test_lines_end_with_the_numbers_of_the_table(folders: list[Path]) -> None:
    for folder in load_folders(folders):
        row = row_of(folder)
        _, line = error_chart([(folder.name, folder.result)], log_x=False)[0]
        assert (line["x"][-1], line["y"][-1]) == pytest.approx((row.latency, row.test_error.mean))
        lines, _ = _epsilon_lines(folder, 0)
        assert (lines[0]["x"][-1], lines[0]["y"][-1]) == pytest.approx((row.latency, row.epsilon_promised))


def test_an_epsilon_line_ends_with_the_run_also_in_the_middle_of_a_round() -> None:
    folder = Folder("run", simulate(small("schedule.name=random-walk", "schedule.steps=500")))
    lines, _ = _epsilon_lines(folder, 0)
    assert (lines[0]["x"][-1], lines[0]["y"][-1]) == pytest.approx(
        (row_of(folder).latency, folder.result.privacy.epsilon)
    )


def test_folders_of_the_same_name_are_told_apart(folders: list[Path], tmp_path: Path) -> None:
    shutil.copytree(folders[0], tmp_path / "quick")
    names = [folder.name for folder in load_folders([folders[0], tmp_path / "quick"])]
    assert len(set(names)) == 2


def test_bad_folders_get_one_line_and_exit_code_2(skipring_words: Command, folders: list[Path], tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file.txt").touch()
    shutil.copytree(folders[0], tmp_path / "broken")
    (tmp_path / "broken" / "run.json").write_text("{")
    for words, named in (
        (["none"], "none"),
        (["empty"], "run.json is missing"),
        (["file.txt"], "file.txt"),
        (["broken"], "is damaged"),
        ([str(folders[0]), "--out", "empty"], "--out empty"),
        ([str(folders[0]), "--out", "file.txt/page.html"], "--out file.txt/page.html"),
        ([], "DIR"),
    ):
        code, out, err = skipring_words("report", *words)
        assert (code, out) == (2, "")
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        assert named in err
