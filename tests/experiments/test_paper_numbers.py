"""The paper's numbers beside ours: read off the figures, and the table that is shipped."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.experiments import Cell, straggler_names
from skipring.experiments.curves import EmpiricalCurve, paper_sweep
from skipring.experiments.statements import _curves, paper_numbers, statements_markdown
from skipring.experiments.theory import LAWS
from skipring.privacy import forecast, planned_run
from skipring.report.curves import (
    write_empirical_csv,
)

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
SKIPS = [1e-4, 0.5, 0.7]


def steps_of(cell: Cell, law: str, latency: Sequence[float], error: Sequence[float]) -> EmpiricalCurve:
    """A curve of a shipped sweep's cell with these points."""
    count = len(latency)
    return EmpiricalCurve(
        law=law,
        values=cell.changes,
        noise_multiplier=cell.run.privacy.noise_multiplier or 3.849,
        runs=2,
        steps=np.arange(count),
        updates=np.arange(count, dtype=np.float64),
        latency=np.array(latency),
        latency_std=np.zeros(count),
        error=np.array(error),
        error_std=np.zeros(count),
    )


def write_numbers(
    folder: Path,
    *,
    gamma: tuple[float, float, float] = (0.23, 0.15, 0.12),
    pareto: tuple[float, float, float] = (0.24, 0.22, 0.21),
) -> None:
    """Write small CSV files as the figures leave them; given are the errors where the panels of row 2 end."""
    finals = {"exponential": (0.2, 0.19, 0.21), "gamma": gamma, "Lomax": pareto}
    for name in ("figure4-row2", "figure4-row2-tight"):
        sweep = paper_sweep(name)
        until = sweep.figure["until"]
        curves = [
            steps_of(cell, law, [0.0, 0.5 * until[law], 0.99 * until[law], 1.02 * until[law]], [0.5, 0.3, final, 0.01])
            for law, errors in finals.items()
            for cell, error in zip(sweep.cells, errors, strict=True)
            for final in [0.07 if "tight" in name else error]
        ]
        write_empirical_csv(curves, folder / f"{name}.csv", until=until)
    errors = {
        "row3": 0.12,
        "row4": 0.66,
        "row3-clipped": 0.74,
        "row4-clipped": 0.85,
        "row3-records": 0.08,
        "row4-records": 0.6,
    }
    for name, best in errors.items():
        curves = [
            steps_of(cell, law, [0.0, 100.0], [0.9, best + 0.01 * place])
            for law in LAWS
            for place, cell in enumerate(paper_sweep(f"figure4-{name}").cells)
        ]
        write_empirical_csv(curves, folder / f"figure4-{name}.csv")
    curves, epsilons = [], []
    for number, cell in enumerate(paper_sweep("figure5").cells):
        latency, error = [0.0, 1000.0 + number, 5000.0 + number, 25_000.0], [0.5, 0.3 + 0.01 * number, 0.2, 0.1]
        curves.append(steps_of(cell, "exponential:1", latency, error))
        epsilons.append(np.array([0.0, 1.0, 5.0 + number, 99.0]))
    write_empirical_csv(curves, folder / "figure5.csv", epsilons)


def test_numbers_are_read_off_the_figures(tmp_path: Path) -> None:
    write_numbers(tmp_path)
    statements = paper_numbers(tmp_path)
    assert len({statement.about for statement in statements}) == len(statements)
    assert [statement.ours for statement in statements] == [
        "80.0 %",
        "2.202 by Theorem 3, 0.693 proven",
        "23.0 % / 15.0 % / 12.0 %",
        "24.0 % / 22.0 % / 21.0 %",
        "12000 / 12000 / 12000",
        "20.0 % / 19.0 % / 21.0 %",
        "88.0 %",
        "34.0 %",
        "26.0 %",
        "15.0 %",
        "92.0 %",
        "40.0 %",
        # Cells of Figure 5 are numbered: the token is 0, gossip at p = 0.5 is 5 and 6, the server 9, 10 and 11.
        "5005",
        "10.00",
        "5006 (token: 80.0 % at 24000)",
        "30.0 %; 39.0 % / 40.0 % / 41.0 %",
        "93.0 %",
    ]


def test_a_file_says_when_an_error_is_reached_and_what_was_by_then(tmp_path: Path) -> None:
    cell = paper_sweep("figure4-row2").cells[0]
    write_empirical_csv([steps_of(cell, "gamma", [0.0, 1.0, 2.0, 3.0], [0.5, 0.3, 0.4, 0.2])], tmp_path / "one.csv")
    (curve,) = _curves(tmp_path, "one").values()
    assert [curve.reaches(error) for error in (0.5, 0.3, 0.25, 0.1)] == [0.0, 1.0, 3.0, math.inf]
    assert [curve.error(latency) for latency in (0.0, 0.9, 1.0, 2.99, math.inf)] == [0.5, 0.5, 0.3, 0.4, 0.2]


def test_an_order_that_differs_from_the_papers_is_admitted(tmp_path: Path) -> None:
    def admitted() -> list[bool]:
        found = paper_numbers(tmp_path)
        why = [next(s.why for s in found if s.about.startswith(law)) for law in ("gamma delays:", "Pareto delays:")]
        return [reason == "not the same order" for reason in why]

    write_numbers(tmp_path)
    assert admitted() == [False, False]
    write_numbers(tmp_path, pareto=(0.24, 0.21, 0.22))
    assert admitted() == [False, True]
    write_numbers(tmp_path, gamma=(0.12, 0.15, 0.23))
    assert admitted() == [True, False]
    write_numbers(tmp_path, gamma=(0.23, 0.23, 0.12))  # no order
    assert admitted() == [True, False]


def test_fixed_words_of_the_numbers_hold() -> None:
    """Some sentences name numbers that no CSV file has: they follow from the sweeps."""
    about = [
        ("figure4-row3-clipped", "22.0"),
        ("figure4-row4-clipped", "14.7"),
        ("figure4-row3-records", "14.3"),
        ("figure4-row4-records", "9.6"),
    ]
    for name, said in about:
        epsilons = []
        for cell in paper_sweep(name).cells:
            run = planned_run(
                schedule="random-ring",
                nodes=cell.run.data.nodes or 0,
                steps=cell.run.schedule.steps or 0,
                skip=cell.run.delay.skip or 0.0,
                noise_multiplier=10.5976,
                convex=False,
                protects=cell.run.privacy.protects,
                parts=2 if cell.run.privacy.protects == "record" else 1,  # nodes have 1000 rows, and use 500 at a time
            )
            epsilons.append(forecast(run).epsilon(1e-6))
        assert f"{max(epsilons):.1f}" == said


def test_numbers_are_printed_as_a_table(skipring: Command, tmp_path: Path) -> None:
    write_numbers(tmp_path / "figures")
    answer = skipring("paper numbers figures")
    assert answer.code == 0
    statements = paper_numbers(tmp_path / "figures")
    assert answer.out == statements_markdown(statements)
    head, rule, *lines = answer.out.splitlines()
    assert (head, rule) == ("| what | paper | ours | what differs, and why |", "|---|---|---|---|")
    assert len(lines) == len(statements)
    for line, statement in zip(lines, statements, strict=True):
        assert line.count("|") == 5  # no cell is cut in two
        assert [cell.strip() for cell in line.strip("|").split("|")] == [
            statement.about,
            statement.paper,
            statement.ours,
            statement.why,
        ]
    data = skipring("paper numbers figures --json").data
    assert [entry["ours"] for entry in data["statements"]] == [statement.ours for statement in statements]


@pytest.mark.parametrize("damage", ["", "delay,latency\ngamma,1\n", "first line only\n"])
def test_files_that_are_no_figures_get_one_line(skipring: Command, tmp_path: Path, damage: str) -> None:
    write_numbers(tmp_path)
    (tmp_path / "figure5.csv").write_text(damage)
    answer = skipring("paper numbers .")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith("error: DIR .: ")
    assert answer.err.count("\n") == 1


def test_the_shipped_table_is_that_of_the_shipped_figures() -> None:
    results = ROOT / "results"
    assert list(results.glob("*.csv")), "the figures are shipped with their numbers"
    written = (results / "paper-ours.md").read_bytes().decode()
    assert written.endswith("\n\n" + statements_markdown(paper_numbers(results)))


#: How the page of results calls the cells of the stragglers' sweep that its table has.
SLOW_NODES = {
    "fresh, Lemma 2's timeout (0.2139)": "timeout 0.2139",
    "the same, FedAU weights (cutoff 50)": "timeout 0.2139, FedAU weights",
    "fresh, patient every 5": "timeout 0.2139, patient every 5",
    "fresh, never skip": "never skip",
    "kept, timeout 0.2139": "kept, timeout 0.2139",
    "kept, timeout 0.02": "kept, timeout 0.02",
    "ahead, timeout 0.2139": "ahead, timeout 0.2139",
    "ahead, timeout 0.02": "ahead, timeout 0.02",
    "ahead, timeout 5": "ahead, timeout 5",
    "ahead, nobody slow, timeout 0.001": "nobody slow, ahead, timeout 0.001",
}


def test_the_table_of_slow_nodes_is_that_of_their_file() -> None:
    results = ROOT / "results"
    with (results / "stragglers.csv").open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["step"] == "40000"]
    sweep = paper_sweep("stragglers")
    names = straggler_names(sweep)
    names.insert(1, "timeout 0.2139, FedAU weights")
    ends = dict(zip(names, lines, strict=True))
    assert ends["timeout 0.2139, FedAU weights"]["weights"] == "FedAU, cutoff 50"
    for name, cell in zip(straggler_names(sweep), sweep.cells, strict=True):
        assert {key: ends[name][key] for key in cell.changes} == {key: str(v) for key, v in cell.changes.items()}
    page = (results / "README.md").read_text()
    rows = re.findall(r"^\| (.+?) \| (\S+) % \| (\S+) \| (\S+) / (\S+) \|$", page, re.MULTILINE)
    shown = {row[0]: row for row in rows if row[0] in SLOW_NODES}
    assert shown.keys() == SLOW_NODES.keys()
    for name, (_, error, time, least, most) in shown.items():
        end = ends[SLOW_NODES[name]]
        assert error == f"{100 * float(end['test_error']):.1f}"
        assert time == f"{float(end['latency']):,.0f}"
        # The mean over all nodes lies between the quarters'.
        assert float(least) - 0.05 <= float(end["updates"]) / 1000 <= float(most) + 0.05
