"""A plan that is written down is the run that was planned."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipring.runs import RunFile, read_run_file
from skipring.simulation import build, simulate
from skipring.timeouts import best_timeout

Command = Callable[[str], Any]
PLAN = "plan --nodes 12 --delay gamma:0.25,1 --time 20 --epsilon 4 --dimension 30 --no-figure --protects node --json"


@pytest.mark.parametrize(
    "more",
    [
        "",
        "--protects record --rows 37 --schedule random-ring",
        # Forecasts of walks take long.
        pytest.param("--protects record --batch 10 --schedule random-walk", marks=pytest.mark.slow),
        "--gradient-bound 0.5",
    ],
)
def test_a_written_plan_is_what_a_simulation_of_it_does(more: str, skipring: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    answer = skipring(f"{PLAN} {more} --write {file}")
    assert answer.code == 0, answer.err
    best = answer.data["walk"]["plan"]
    assert answer.data["run_file"] == str(file)
    setup = build(read_run_file(file))
    assert (setup.data.nodes, setup.steps, setup.protection.batch) == (12, best["steps"], best["batch"])
    assert (setup.timeout, setup.step_sizes.largest) == (best["timeout"], best["learning_rate"])
    assert setup.noise_multiplier == pytest.approx(best["noise_multiplier"], rel=1e-6)
    result = simulate(
        read_run_file(file).model_copy(
            update={"simulation": read_run_file(file).simulation.model_copy(update={"runs": 20})}
        )
    )
    assert result.privacy.epsilon == pytest.approx(4.0, rel=1e-5)
    # Twenty runs: five standard errors.
    spread = result.summary().latency
    assert spread.mean == pytest.approx(best["expected_time"], abs=5.0 * spread.std / math.sqrt(20))


def test_a_plan_of_persons_says_what_is_still_missing(skipring: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    answer = skipring(f"{PLAN.removesuffix(' --json')} --protects person --rows 30 --rows-per-person 3 --write {file}")
    assert "name your data and its persons in it" in " ".join(answer.out.split())
    assert max(len(line) for line in answer.out.splitlines() if str(tmp_path) not in line) <= 80
    assert tomllib.loads(file.read_text())["data"] == {"nodes": 12, "rows_per_person": 3}
    assert "data.person missing" in skipring(f"simulate {file} --out {tmp_path}/out").err


def test_no_file_is_overwritten(skipring: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("mine")
    for name, why in (("run.toml", "exists already"), ("nowhere/run.toml", "there is no such folder")):
        answer = skipring(f"{PLAN} --write {tmp_path}/{name}")
        assert (answer.code, len(answer.err.splitlines())) == (2, 1)
        assert f"--write {tmp_path}/{name}: {why}" in answer.err
    assert (tmp_path / "run.toml").read_text() == "mine"


def test_a_plan_says_where_its_bound_promises_nothing(skipring: Command) -> None:
    loud = skipring(PLAN).data["walk"]
    assert loud["plan"]["error_bound"] > 10.0  # gradient bound x diameter
    assert loud["remark"].startswith("Nothing promises that this plan beats guessing")
    large = "--protects record --batch 100000 --diameter 1 --dimension 1 --time 2000"
    quiet = skipring(f"{PLAN} {large}").data["walk"]
    assert (quiet["remark"] is None) == (quiet["plan"]["error_bound"] < 1.0)
    assert quiet["remark"] is None


def test_the_timeout_of_most_updates_is_the_usual_one() -> None:
    law, walk = {"law": "gamma:0.25,1"}, {"name": "random-ring"}
    runs = [
        RunFile.model_validate({"schedule": walk, "delay": law | {"timeout": "most-updates"}}),
        RunFile.model_validate({"schedule": walk, "delay": law}),
    ]
    setups = [build(run) for run in runs]
    assert {setup.timeout for setup in setups} == {best_timeout(setups[0].delay, 0.01)}
