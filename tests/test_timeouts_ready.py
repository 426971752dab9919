"""The law of rounds whose nodes remember: exact in the limit, and how good for 4, 10, 100 and 1000 nodes."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.delays import Constant, Delay, Empirical, Exponential, Gamma, Lomax
from skipring.errors import InvalidInput
from skipring.planning import Budget, frontier, plan
from skipring.privacy import forecast
from skipring.schedules import schedule, schedule_kind
from skipring.simulation.lateness import Lateness, timeline
from skipring.simulation.stragglers import Drawn
from skipring.timeouts import TurnLaw, best_timeout, choose_timeout_ready, expected_latency, round_law, skip_probability

#: How far off the law is at most, for duration and for the share of turns with an update, by number of nodes and order.
GOOD = {
    "random-ring": {4: 0.05, 10: 0.025, 100: 0.02, 1000: 0.03},
    "ring": {4: 0.07, 10: 0.03, 100: 0.02, 1000: 0.02},
    "random-walk": {4: 0.13, 10: 0.07, 100: 0.02, 1000: 0.02},
}


def simulated(law: Delay, timeout: float, hop: float, nodes: int, ready: Any, order: str) -> tuple[float, float]:
    """Return a round's mean duration and the share of turns without an update, without the first quarter of a run."""
    rng = np.random.default_rng(1)
    hops = nodes * max(200, 120_000 // nodes)
    nobody = np.zeros(hops, np.bool_)
    run = timeline(
        Lateness(ready=ready),
        Drawn(schedule(order, nodes).path(hops, rng), law.sample(rng, hops), np.zeros(hops), nobody, nobody),
        np.full(hops, timeout),
        rng,
        nodes=nodes,
        hop_latency=hop,
        least_share=1.0,
    )
    first = hops // 4
    return float(run.clock[-1] - run.clock[first]) / (hops - first) * nodes, 1.0 - float(run.updated[first:].mean())


@pytest.mark.parametrize("nodes", [4, 10, 100, 1000])
@pytest.mark.parametrize("ready", ["kept", "ahead"])
@pytest.mark.parametrize("order", list(GOOD))
@pytest.mark.parametrize(
    ("law", "timeout", "hop"),
    [(Lomax(3.0, 2.0), 0.2139, 0.01), (Exponential(1.0), 0.3, 0.05), (Gamma(0.25, 1.0), 0.02, 0.01)],
    ids=["lomax", "exponential", "gamma"],
)
def test_how_good_the_law_of_large_rings_is(
    law: Delay, timeout: float, hop: float, order: Any, ready: Any, nodes: int
) -> None:
    duration, skip = simulated(law, timeout, hop, nodes, ready, order)
    found = round_law(law, timeout, hop, nodes, ready, turns=schedule_kind(order).turns or TurnLaw.IN_ROUNDS)
    assert found.duration == pytest.approx(duration, rel=GOOD[order][nodes])
    assert 1.0 - found.skip_probability == pytest.approx(1.0 - skip, rel=GOOD[order][nodes])
    pace = duration / nodes / (1.0 - skip)
    assert found.time_between_updates == pytest.approx(pace, rel=2 * GOOD[order][nodes])


def test_fresh_is_lemma_one() -> None:
    law = Gamma(0.25, 1.0)
    found = round_law(law, 0.1, 0.01, 50, "fresh")
    assert found.duration == pytest.approx(expected_latency(law, 0.1, 0.01, 50))
    assert found.skip_probability == skip_probability(law, 0.1)
    assert choose_timeout_ready(law, 0.01, 50, "fresh").timeout == best_timeout(law, 0.01)


def test_a_ring_of_nodes_that_all_take_the_same() -> None:
    """Everyone needs 3, a hop takes 1, there are 10: who prepares ahead is never waited for."""
    law = Constant(3.0)
    ahead = round_law(law, 0.5, 1.0, 10, "ahead", turns=TurnLaw.IN_PLACE)
    assert ahead.duration == pytest.approx(10.0)
    assert ahead.skip_probability == 0.0
    kept = round_law(law, 0.5, 1.0, 10, "kept", turns=TurnLaw.IN_PLACE)
    # Skipped at every other turn, after which it is ready: a wait of 0.5 each second turn.
    assert kept.skip_probability == pytest.approx(0.5)
    assert kept.duration == pytest.approx(12.5)


@pytest.mark.parametrize("ready", ["kept", "ahead"])
def test_never_skipping_skips_nobody(ready: Any) -> None:
    law = round_law(Lomax(3.0, 2.0), math.inf, 0.01, 100, ready)
    assert law.skip_probability == 0.0
    if ready == "kept":
        assert law.duration == pytest.approx(expected_latency(Lomax(3.0, 2.0), math.inf, 0.01, 100), rel=1e-3)


@pytest.mark.parametrize("law", [Lomax(3.0, 2.0), Gamma(0.25, 1.0), Exponential(1.0), Empirical([0.1, 0.1, 0.2, 5.0])])
def test_remembering_is_quicker_and_the_chosen_timeout_is_the_best(law: Delay) -> None:
    paces = []
    for ready in ("fresh", "kept", "ahead"):
        choice = choose_timeout_ready(law, 0.01, 200, ready)
        paces.append(choice.time_between_updates)
        for factor in (0.3, 3.0):
            other = round_law(law, choice.timeout * factor, 0.01, 200, ready)
            assert choice.time_between_updates <= other.time_between_updates * 1.002
    assert paces == sorted(paces, reverse=True)


def test_what_has_no_law_is_refused() -> None:
    with pytest.raises(InvalidInput, match="mean is infinite"):
        round_law(Lomax(0.8, 1.0), 0.1, 0.01, 100, "kept")
    with pytest.raises(InvalidInput, match="ready"):
        round_law(Lomax(3.0, 1.0), 0.1, 0.01, 100, "sometimes")  # type: ignore[arg-type]


def budget(**changes: Any) -> Budget:
    values: dict[str, Any] = {
        "nodes": 60,
        "delay": Gamma(0.25, 1.0),
        "hop_latency": 0.01,
        "epsilon": 2.0,
        "delta": 1e-6,
        "dimension": 8,
        "gradient_bound": 1.0,
        "diameter": 10.0,
        "time": 30.0,
        "protects": "node",
    }
    return Budget(**(values | changes))


def test_a_plan_for_nodes_that_prepare_ahead_keeps_its_budget_and_beats_the_paper_s_nodes() -> None:
    plans = plan(budget(ready="ahead"), ("fresh",))
    assert plans.best.ready == "ahead"
    assert plans.run.keywords["others"] is not None
    assert plans.run.keywords["others"] > 0
    assert forecast(plans.run).keeps(2.0, 1e-6)
    fresh = next(other for other in plans.alternatives if other.name == "ready fresh")
    assert plans.best.error_bound < fresh.error_bound
    assert plans.best.expected_time <= 30.0
    assert ("paper's accounting", "its theorems need skips that are independent") in plans.left_out


@pytest.mark.slow
def test_the_frontier_shows_each_kind_of_readiness() -> None:
    (point,) = frontier(budget(), [2.0], ("kept", "ahead"))
    bounds = {each.name: each.error_bound for each in point.plans}
    assert bounds["ready ahead"] < bounds["best plan"]
    assert "ready kept" in bounds


@pytest.mark.parametrize("order", ["ring", "random-walk"])
def test_there_is_no_plan_where_there_is_no_forecast(order: Any) -> None:
    with pytest.raises(InvalidInput, match="nothing is promised"):
        budget(ready="kept", schedule=order)


# -- on the command line ------------------------------------------------------------------------------

Command = Callable[[str], Any]


def test_the_timeout_of_nodes_that_prepare_ahead(skipring: Command) -> None:
    found = skipring("timeout --delay lomax:3,2 --ready ahead --nodes 1000 --json").data
    assert found["time_between_updates"] == pytest.approx(0.0102, abs=2e-4)
    assert found["time_between_updates_fresh"] == pytest.approx(0.738, abs=1e-3)
    assert "Lemma 2" in skipring("timeout --delay lomax:3,2 --ready kept --nodes 50").out


@pytest.mark.parametrize(
    "line",
    [
        "timeout --delay lomax:3,2 --ready kept",
        "timeout --delay lomax:3,2 --nodes 10",
        "timeout --delay lomax:3,2 --ready kept --nodes 10 --skip 0.1",
        "timeout --delay lomax:3,2 --ready never --nodes 10",
        "timeout --delay lomax:0.5,2 --ready kept --nodes 10",
        "plan --nodes 10 --delay lomax:3,2 --epsilon 2 --dimension 8 --steps 100 --protects node --ready kept"
        " --schedule ring",
        "plan --nodes 10 --delay lomax:3,2 --epsilon 2 --dimension 8 --steps 100 --protects node --ready slowly",
    ],
)
def test_what_does_not_go_together_is_one_line(skipring: Command, line: str) -> None:
    answer = skipring(line)
    assert answer.code == 2
    assert answer.err.strip().count("\n") == 0


def test_a_plan_says_what_its_readiness_rests_on(skipring: Command, tmp_path: Path) -> None:
    file = tmp_path / "plan.toml"
    line = "plan --nodes 40 --delay gamma:0.25,1 --epsilon 4 --dimension 8 --steps 400 --protects node --ready ahead"
    line += f" --write {file}"
    out = " ".join(skipring(f"{line} --no-figure").out.split())
    assert "ready kept" in out
    assert "update in each round wherever their turn comes" in out
    assert 'ready = "ahead"' in file.read_text()
