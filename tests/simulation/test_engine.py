"""The simulator does what Algorithm 1 says, the same on any number of threads."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from plain_loops import reference_run
from setups import changed, setup_of

from skipring.data import NodeData
from skipring.delays import Delay, Empirical, Exponential, Gamma, Lomax, Mixture, Never
from skipring.errors import InvalidInput
from skipring.learning import LOGISTIC, SQUARED, LinearModel, StepSizes, loss_named
from skipring.privacy import Unit, calibrate, forecast
from skipring.runs import Stragglers
from skipring.schedules import RandomRing, schedule
from skipring.simulation.account import noise_for, planned, privacy_of
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.setup import RunOutput, Setup
from skipring.simulation.stragglers import draw_hops
from skipring.timeouts import best_timeout, expected_latency, skip_probability, timeout_for_skip


def setup(loss: str = "logistic", **changes: Any) -> Setup:
    """A small problem: 12 nodes of 5 rows, 4 features."""
    rng = np.random.default_rng(3)
    x = rng.standard_normal((100, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    scores = x @ rng.standard_normal(4)
    classes = 3 if loss == "softmax" else 2
    y = np.digitize(scores, [-0.5, 0.5]) if loss == "softmax" else (scores > 0.0).astype(np.int64)
    labels = scores.clip(-1.0, 1.0) if loss == "squared" else y
    values: dict[str, Any] = {
        "model": LinearModel(loss=loss_named(loss), features=4, diameter=8.0, classes=classes),
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
        "batch": 3,
        "seed": 7,
        "evaluate_every": 25,
    }
    return setup_of(**(values | changes))


def all_runs(case: Setup, runs: int, **more: Any) -> list[RunOutput]:
    return sorted(run_many(case, list(range(runs)), **more), key=lambda run: run.number)


@pytest.mark.sample(10)
@pytest.mark.parametrize("name", ["ring", "random-ring", "random-walk"])
@pytest.mark.parametrize(
    ("loss", "more"),
    [
        ("logistic", {}),
        ("logistic", {"clip": 0.2}),
        ("logistic", {"ridge": 0.3, "diameter": 0.5}),
        ("softmax", {}),
        ("softmax", {"clip": 0.4, "ridge": 0.1}),
        ("squared", {}),
        ("squared", {"clip": 0.3}),
    ],
)
def test_without_chance_it_follows_the_plain_loop(name: str, loss: str, more: dict[str, Any]) -> None:
    """No noise, whole batches, nobody late; the walk and the random ring are given the same path."""
    case = setup(loss, noise_multiplier=0.0, batch=None, timeout=math.inf)
    case = changed(
        case, model=dataclasses.replace(case.model, **more), schedule=schedule(name, 12), delay=Exponential(1.0)
    )
    fast = run_one(case, 0)
    plain = reference_run(case, 0, fast.offered)
    assert fast.model == pytest.approx(plain.model, abs=2e-6)
    assert fast.test_error == pytest.approx(plain.errors, abs=1e-5)
    assert fast.loss == pytest.approx(plain.losses, abs=1e-5)
    assert fast.updates[-1] == case.steps


@pytest.mark.sample(9)
@pytest.mark.parametrize("name", ["ring", "random-ring", "random-walk"])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(("protects", "batch", "most"), [("record", 2, 1), ("record", 9, 1), ("person", 3, 2)])
def test_records_and_persons_follow_the_plain_loop(name: str, loss: str, protects: Unit, batch: int, most: int) -> None:
    """Nodes of different sizes rotate through parts, skipped or not, and all divide by the same batch."""
    case = setup(loss, noise_multiplier=0.0, batch=batch, protects=protects, rows_per_person=most, delay=Never())
    start = np.array([0, 1, 12, 14, 20, 25, 31, 33, 40, 47, 53, 55, 60])
    data = dataclasses.replace(case.data, start=start, persons=np.arange(60) // most if most > 1 else None)
    if most > 1:  # nobody is at two nodes
        data = dataclasses.replace(data, start=np.array([0, 2, 12, 14, 20, 26, 32, 34, 40, 46, 52, 56, 60]))
    late = Mixture([0.5, 0.5], [Exponential(1e9), Exponential(1e-9)])
    case = changed(case, data=data, schedule=schedule(name, 12), delay=late, timeout=1.0)
    fast = run_one(case, 0)
    assert 0 < fast.updates[-1] < case.steps
    plain = reference_run(case, 0, fast.offered, fast.updated)
    assert fast.model == pytest.approx(plain.model, abs=2e-6)
    assert fast.loss == pytest.approx(plain.losses, abs=1e-5)
    if protects == "record":
        assert case.part_counts[0] == 1
        assert case.most_units == {2: 2, 9: 7}[batch]  # parts of a node are alike in size


def test_nodes_with_different_numbers_of_parts_are_all_in_the_forecast() -> None:
    case = setup(batch=2, protects="record")
    sizes = np.array([6, 6, 4, 4, 4, 4, 4, 4, 6, 6, 8, 4])  # three parts, or two, or four
    case = changed(case, data=dataclasses.replace(case.data, start=np.append(0, np.cumsum(sizes))))
    assert case.part_counts == (2, 3, 4)
    run = planned(case)
    assert (run.unit.parts, run.unit.every) == ((2, 3), 1)  # what holds for two parts holds for four
    stated = privacy_of(case, 1e-5, None)
    assert stated.planned == run
    each = [forecast(run.replace(parts=every)).epsilon(1e-5) for every in (1, 2, 3)]
    assert stated.epsilon == max(each[1:]) < 0.8 * each[0]
    noise = noise_for(case, 2.0, 1e-5)
    assert noise == calibrate(forecast(run).with_noise, 2.0, 1e-5)


@pytest.mark.sample(1)
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_with_chance_it_has_the_same_law_as_the_plain_loop(loss: str) -> None:
    """Means of the error, of the model and of the latency agree; false alarm below 1e-4 for the whole test."""
    case = setup(loss)
    fast = all_runs(case, 600)
    plain = [reference_run(case, number) for number in range(300)]
    pairs = [
        (np.array([run.test_error[-1] for run in fast]), np.array([run.errors[-1] for run in plain])),
        (np.array([run.latency[-1] for run in fast]), np.array([run.latency for run in plain])),
        *zip(np.array([run.model for run in fast]).T, np.array([run.model for run in plain]).T, strict=True),
    ]
    for a, b in pairs:
        spread = math.sqrt(a.var() / len(a) + b.var() / len(b))
        assert abs(a.mean() - b.mean()) <= 5.0 * spread + 1e-12
        assert 0.75 < (a.std() + 1e-12) / (b.std() + 1e-12) < 1.33


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(threads: int) -> None:
    case = setup()
    for one, other in zip(all_runs(case, 8), all_runs(case, 8, threads=threads), strict=True):
        for name in ("test_error", "loss", "latency", "updates", "model", "offered", "updated"):
            assert getattr(one, name).tobytes() == getattr(other, name).tobytes()


def test_runs_and_seeds_differ() -> None:
    models = {run_one(case, number).model.tobytes() for case in (setup(), setup(seed=8)) for number in range(5)}
    assert len(models) == 10


@pytest.mark.parametrize("loss", ["logistic", "softmax"])
def test_the_loss_is_the_mean_test_loss(loss: str) -> None:
    case = setup(loss)
    run = run_one(case, 0)
    if loss == "softmax":
        scores = case.test_x @ run.model.reshape(3, 4).T
        each = np.log(np.exp(scores).sum(axis=1)) - scores[np.arange(len(scores)), case.test_y.astype(int)]
    else:
        each = np.logaddexp(0.0, -(2.0 * case.test_y - 1.0) * (case.test_x @ run.model))
    assert run.loss[-1] == pytest.approx(each.mean(), abs=1e-5)


@pytest.mark.parametrize("diameter", [0.1, 8.0, 300.0])
def test_the_tables_serve_any_diameter(diameter: float) -> None:
    model = LinearModel(loss=LOGISTIC, features=4, diameter=diameter)
    case = setup(
        model=model, noise_multiplier=0.0, batch=None, timeout=math.inf, step_sizes=StepSizes(100.0, "constant")
    )
    fast = run_one(case, 0)
    plain = reference_run(case, 0, fast.offered)
    # Steps of 100 are no contraction: what differs in the eighth digit grows, but not far within a bounded ball.
    assert fast.model == pytest.approx(plain.model, abs=1e-3 * diameter)
    each = np.logaddexp(0.0, -(2.0 * case.test_y - 1.0) * (case.test_x @ fast.model))
    assert fast.loss[-1] == pytest.approx(each.mean(), rel=1e-4)


def test_models_stay_in_their_ball() -> None:
    for run in all_runs(setup(noise_multiplier=50.0), 20):
        assert np.linalg.norm(run.model) <= 4.0 * (1 + 1e-12)


def test_batches_are_drawn_without_replacement_and_evenly() -> None:
    """A squared loss on unit vectors shows which rows were used; chi-square of 5 rows at 1e-6."""
    x = np.eye(5)
    case = setup(
        "squared",
        model=LinearModel(loss=SQUARED, features=5, diameter=1e6),
        data=NodeData(features=np.tile(x, (2, 1)), labels=np.ones(10), start=np.array([0, 5, 10])),
        test_x=x,
        test_y=np.ones(5),
        schedule=RandomRing(2),
        steps=2,
        timeout=math.inf,
        noise_multiplier=0.0,
        batch=2,
        step_sizes=StepSizes(1e-3, "constant"),
    )
    counts = np.zeros(5)
    for run in run_many(case, list(range(3000))):
        moved = run.model * 2.0 / 1e-3
        used = np.rint(moved)  # two updates of two rows each: the sum over a node's two rows is exact to 1e-3
        assert used.sum() == pytest.approx(4.0, abs=0.01)
        assert used.max() <= 2.0
        counts += used
    expected = counts.sum() / 5
    assert ((counts - expected) ** 2 / expected).sum() < 35.0


LAWS: list[Delay] = [Exponential(1.0), Gamma(0.25, 1.0), Lomax(3.0, 2.0), Empirical([0.1, 0.2, 0.2, 1.0, 5.0])]


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_latency_and_skips_are_those_of_the_lemmas(law: Delay) -> None:
    """Mean latency within 5 standard errors of Lemma 1, skip rate within 5 of p: false alarm below 1e-5."""
    timeout = timeout_for_skip(law, 0.3)
    case = setup(delay=law, timeout=timeout, steps=600, evaluate_every=600)
    runs = all_runs(case, 300)
    latency = np.array([run.latency[-1] for run in runs])
    expected = expected_latency(law, timeout, 0.01, 600)
    assert abs(latency.mean() - expected) <= 5.0 * latency.std() / math.sqrt(300)
    p = skip_probability(law, timeout)
    rate = 1.0 - np.mean([run.updated.mean() for run in runs])
    assert abs(rate - p) <= 5.0 * math.sqrt(p * (1 - p) / (300 * 600))


@pytest.mark.parametrize(
    ("law", "hop_latency", "wins"),
    [(Gamma(0.25, 1.0), 0.01, True), (Lomax(3.0, 2.0), 0.01, True), (Exponential(1.0), 0.1, False)],
)
def test_skipping_wins_where_lemma_2_says_so(law: Delay, hop_latency: float, wins: bool) -> None:
    """Updates made by a common time, skipping with p = 0.7 against waiting; 6 standard errors apart."""
    by_time = []
    for timeout in (timeout_for_skip(law, 0.7), math.inf):
        case = setup(delay=law, timeout=timeout, hop_latency=hop_latency, steps=6000, evaluate_every=20)
        by_time.append((all_runs(case, 40), 0.5 * expected_latency(law, timeout, hop_latency, 6000)))
    time = min(horizon for _, horizon in by_time)
    counts = [
        np.array([run.updates[np.searchsorted(run.latency, time, side="right") - 1] for run in runs])
        for runs, _ in by_time
    ]
    gap = counts[0].mean() - counts[1].mean()
    spread = math.sqrt(sum(count.var() / len(count) for count in counts))
    assert (gap > 6.0 * spread) if wins else (gap < -6.0 * spread)
    assert (best_timeout(law, hop_latency) < math.inf) == wins


def hops(nodes: int, rounds: int) -> Any:
    return np.tile(np.arange(nodes), rounds)


def test_slow_nodes_take_longer() -> None:
    rng = np.random.default_rng(0)
    delays = draw_hops(Exponential(1.0), hops(2, 50_000), 2, Stragglers(speeds=(1.0, 3.0)), rng).answers
    assert delays[0::2].mean() == pytest.approx(1.0, abs=0.03)
    assert delays[1::2].mean() == pytest.approx(3.0, abs=0.09)


def test_stragglers_persist() -> None:
    """Slow for 1/5 of the time, in spells of 10 turns on average."""
    rng = np.random.default_rng(0)
    law = Empirical([1.0])
    who = Stragglers(slow_factor=9.0, become_slow=0.025, become_fast=0.1)
    slow = draw_hops(law, hops(100, 2000), 100, who, rng).answers.reshape(2000, 100) > 5.0
    assert slow.mean() == pytest.approx(0.2, abs=0.02)
    ends = slow[:-1] & ~slow[1:]
    assert ends.sum() / slow[:-1].sum() == pytest.approx(0.1, abs=0.01)


def test_the_dead_do_not_answer_until_they_return() -> None:
    rng = np.random.default_rng(0)
    delays = draw_hops(Exponential(1.0), hops(50, 1000), 50, Stragglers(die=0.01, revive=0.04), rng).answers
    dead = np.isinf(delays).reshape(1000, 50)
    assert not dead[0].any()
    assert dead[200:].mean() == pytest.approx(0.2, abs=0.04)


def test_lost_links_are_skips() -> None:
    case = setup(timeout=5.0, stragglers=Stragglers(lost_link=0.25), delay=Exponential(1e-3), steps=4800)
    assert np.mean([run.updated.mean() for run in all_runs(case, 10)]) == pytest.approx(0.75, abs=0.015)


def test_a_walk_visits_states_by_visits() -> None:
    rng = np.random.default_rng(0)
    path = rng.integers(0, 30, 60_000)
    delays = draw_hops(
        Empirical([1.0]), path, 30, Stragglers(slow_factor=2.0, become_slow=0.3, become_fast=0.3), rng
    ).answers
    assert (delays > 1.5).mean() == pytest.approx(0.5, abs=0.02)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"batch": 6}, "batch"),
        ({"batch": 0}, "batch"),
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": math.inf, "stragglers": Stragglers(die=0.1)}, "timeout"),
        ({"timeout": math.inf, "delay": Mixture((0.5, 0.5), (Exponential(1.0), Never()))}, "timeout"),
        ({"schedule": RandomRing(5)}, "nodes"),
        ({"test_x": np.ones((3, 2)), "test_y": np.ones(3)}, "features"),
        ({"test_x": 2.0 * np.ones((3, 4)), "test_y": np.ones(3)}, "unit_rows"),
    ],
)
def test_impossible_setups_are_refused(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        setup(**changes)
    assert refused.value.parameter == parameter


def test_unused_is_not_shared_between_runs() -> None:
    """A run does not depend on which others were simulated with it."""
    case = setup()
    alone = next(iter(run_many(case, [5])))
    together = all_runs(case, 6)[5]
    assert alone.model.tobytes() == together.model.tobytes()
