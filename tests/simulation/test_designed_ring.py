"""Simulated runs in a designed order, with hops at the end that add noise alone."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plain_loops import reference_run
from setups import changed, setup_of

from skipring.data import NodeData
from skipring.delays import Exponential, Gamma
from skipring.errors import InvalidInput
from skipring.learning import LinearModel, StepSizes, loss_named
from skipring.privacy import OUTSIDER, forecast
from skipring.runs import parse_run
from skipring.schedules import DesignedRing, RandomRing, Schedule, designed_order
from skipring.simulation import Result, simulate
from skipring.simulation.account import noise_for, planned, privacy_of
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.setup import Hops, RunOutput, Setup
from skipring.simulation.wide_runs import WideRuns
from skipring.timeouts import timeout_for_skip


def setup(loss: str = "logistic", **changes: Any) -> Setup:
    """Twelve nodes of 5 rows, 4 features."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((100, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    scores = x @ rng.standard_normal(4)
    y = np.digitize(scores, [-0.5, 0.5]) if loss == "softmax" else (scores > 0.0).astype(np.int64)
    labels = scores.clip(-1.0, 1.0) if loss == "squared" else y
    values: dict[str, Any] = {
        "model": LinearModel(loss=loss_named(loss), features=4, diameter=8.0, classes=3 if loss == "softmax" else 2),
        "data": NodeData(features=x[:60], labels=labels[:60], start=np.arange(0, 61, 5)),
        "test_x": x[60:],
        "test_y": labels[60:].astype(np.float64),
        "schedule": RandomRing(12),
        "steps": 240,
        "delay": Gamma(0.25, 1.0),
        "timeout": 0.05,
        "hop_latency": 0.01,
        "step_sizes": StepSizes(0.5),
        "protects": "node",
        "noise_multiplier": 1.0,
        "seed": 7,
        "evaluate_every": 25,
    }
    return setup_of(**(values | changes))


def all_runs(case: Setup, runs: int) -> list[RunOutput]:
    return sorted(run_many(case, list(range(runs))), key=lambda run: run.number)


def designed(loss: str = "logistic", closing: int = 2, **changes: Any) -> Setup:
    return setup(loss, schedule=DesignedRing(12, seed=3, closing=closing, search=200), **changes)


@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(("protects", "batch"), [("node", None), ("record", 2)])
def test_without_chance_it_follows_the_plain_loop(loss: str, protects: Any, batch: int | None) -> None:
    case = designed(loss, noise_multiplier=0.0, batch=batch, protects=protects, timeout=math.inf)
    fast = run_one(case, 0)
    order = designed_order(12, 20, seed=3, closing=2, search=200)
    assert fast.offered.tolist() == order.whole_path.tolist()
    plain = reference_run(case, 0)
    assert fast.model == pytest.approx(plain.model, abs=2e-6)
    assert fast.loss == pytest.approx(plain.losses, abs=1e-5)
    assert (fast.updates[-1], case.points[-1]) == (242, 242)


def only_closing(case: Setup, **changes: Any) -> Setup:
    """Next to nothing is learned, and the closing hops make steps of size 1."""
    sizes = (1e-9,) * case.steps + (1.0, 1.0)
    return changed(case, step_sizes=StepSizes(1.0, "own", sizes), noise_multiplier=2.0, **changes)


def test_closing_hops_add_the_noise_of_an_update_and_nothing_else() -> None:
    case = only_closing(designed(steps=12, batch=None, timeout=math.inf))
    case = changed(case, model=dataclasses.replace(case.model, diameter=1e3))
    std = case.protection.noise_std(case.model, 2.0)
    models = np.array([output.model for output in all_runs(case, 600)])
    # 2400 numbers: a variance is off by more than 15 % with probability 1e-6.
    assert np.var(models) == pytest.approx(2.0 * std**2, rel=0.15)
    plain = np.array([reference_run(case, number).model for number in range(600)])
    assert np.var(plain) == pytest.approx(2.0 * std**2, rel=0.15)


def test_closing_hops_are_projected_as_updates_are() -> None:
    case = only_closing(designed(steps=12, batch=None, timeout=math.inf))
    case = changed(case, model=dataclasses.replace(case.model, diameter=0.5))
    for output in all_runs(case, 20):
        assert np.linalg.norm(output.model) == pytest.approx(0.25, rel=1e-5)


def test_closing_nodes_may_be_skipped() -> None:
    case = designed(steps=12, delay=Exponential(1.0), timeout=timeout_for_skip(Exponential(1.0), 0.5))
    taken = np.array([output.updated[-2:] for output in all_runs(case, 400)])
    assert 0.4 < taken.mean() < 0.6  # 800 coins: 1e-8


def test_wide_models_close_in_the_same_way() -> None:
    nodes = 12
    case = designed(steps=2 * nodes, noise_multiplier=0.0, timeout=math.inf)
    rng = np.random.default_rng(1)
    path = case.path(rng)
    hops = Hops(path, np.ones(len(path), dtype=bool), np.zeros((0, 2), np.int64))  # everybody, and all rows
    wide = WideRuns(case).run(case, 0, rng, hops, lambda: False)
    assert wide.updates[-1] == 2 * nodes + 2
    assert wide.model == pytest.approx(run_one(case, 0).model, abs=2e-6)
    noisy = changed(only_closing(case), noise_multiplier=1.0)
    moved = WideRuns(noisy).run(noisy, 0, rng, hops, lambda: False).model
    assert np.linalg.norm(moved) > 0.01


def test_with_nobody_skipped_a_run_gives_away_what_was_promised() -> None:
    case = designed(timeout=math.inf, delay=Exponential(1.0))
    report = privacy_of(case, 1e-5, run_one(case, 0))
    assert report.in_this_run is not None
    assert report.promised.epsilon is not None
    # The forecast is about an observer that may pass the token on unchanged, which here everybody updated.
    assert report.in_this_run.worst * (1.0 - 1e-9) <= report.promised.epsilon <= 1.002 * report.in_this_run.worst
    outsider, seen = report.promised.beside(OUTSIDER), report.in_this_run.guarantee.beside(OUTSIDER)
    assert outsider is not None
    assert seen is not None
    assert outsider.epsilon == pytest.approx(seen.epsilon, rel=1e-6)
    assert report.planned == planned(case)


def test_the_noise_for_a_budget_keeps_it_for_every_pair() -> None:
    case = designed(timeout=math.inf, delay=Exponential(1.0))
    noise = noise_for(case, 4.0, 1e-5)
    case = changed(case, noise_multiplier=noise)
    report = privacy_of(case, 1e-5, run_one(case, 0))
    assert report.in_this_run is not None
    assert report.in_this_run.worst <= 4.0 * (1.0 + 1e-6)
    assert report.in_this_run.worst >= 3.99
    assert report.in_this_run.above == 0.0


def test_the_forecast_of_a_random_ring_is_an_average_and_says_who_is_above_it() -> None:
    case = setup(noise_multiplier=3.0)
    report = privacy_of(case, 1e-5, run_one(case, 0))
    assert report.in_this_run is not None
    assert 0.0 < (report.in_this_run.above or 0.0) < 1.0
    assert report.in_this_run.worst > (report.promised.epsilon or 0.0)
    assert not report.holds_for_every_pair
    assert privacy_of(designed(noise_multiplier=3.0), 1e-5, None).holds_for_every_pair


def test_without_the_same_chance_for_all_there_is_no_forecast() -> None:
    report = privacy_of(designed(patient_every=3), 1e-5, run_one(designed(patient_every=3), 0))
    assert report.promised.refused is not None
    assert report.in_this_run is not None


RUN: dict[str, Any] = {
    "data": {"name": "breast-cancer", "nodes": 10},
    "schedule": {"name": "designed-ring", "steps": 40, "search": 100},
    "delay": {"law": "exponential:1", "skip": 0.2},
    "privacy": {"epsilon": 6.0, "protects": "node"},
    "simulation": {"runs": 2, "seed": 5},
}


def test_a_run_file_names_it(tmp_path: Path) -> None:
    result = simulate(parse_run(RUN), out=tmp_path / "run")
    plan = result.privacy.planned
    assert plan is not None
    assert (plan.keywords.get("closing"), plan.keywords.get("order_seed"), plan.keywords.get("search")) == (2, 5, 100)
    assert forecast(plan).epsilon(1e-5) <= 6.0 * (1.0 + 1e-9)
    assert result.points[-1] == 42
    assert Result.load(tmp_path / "run").privacy == result.privacy


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        (r"schedule.closing = 2: is for designed-ring", {"name": "random-ring", "closing": 2}),
        (r"schedule.search = 2: is for designed-ring", {"name": "ring", "search": 2}),
        (r"schedule.closing = -1", {"closing": -1}),
        (r"schedule.steps = 41: must be a multiple of nodes = 10", {"steps": 41}),
    ],
)
def test_what_makes_no_sense_is_refused_by_its_key(words: str, changes: dict[str, Any]) -> None:
    values = RUN | {"schedule": {"name": "designed-ring", "steps": 40} | changes}
    with pytest.raises(InvalidInput, match=words):
        simulate(parse_run(values))


def test_two_nodes_have_no_order_to_choose() -> None:
    with pytest.raises(InvalidInput, match=r"data.nodes = 2: two nodes have one order only"):
        simulate(parse_run(RUN | {"data": {"nodes": 2}, "schedule": {"name": "designed-ring", "steps": 40}}))


def test_a_designed_ring_is_a_schedule() -> None:
    assert isinstance(DesignedRing(5), Schedule)
