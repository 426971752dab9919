"""Nodes that remember what they prepared: who is sure to update, and what the forecast for them is worth.

The adversary below knows the orders of all rounds. It decides at each hop whether a node that is not sure to update
does so, and the target and the observer, too; all orders of small rings are enumerated.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from functools import cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr

from skipring.delays import Constant, Delay, Exponential, Gamma, Lomax, Mixture
from skipring.errors import InvalidInput
from skipring.privacy import (
    PaperBound,
    PlannedRun,
    Remembering,
    Transcript,
    TranscriptAccountant,
    calibrate,
    forecast,
    gdp_delta,
    planned_run,
    sure_others,
)
from skipring.privacy.lateness import fewest_successes
from skipring.schedules import KnownOrder, RandomRing
from skipring.simulation.lateness import Lateness, Timeline, timeline
from skipring.simulation.stragglers import Drawn
from skipring.timeouts import no_update_probability

Words = frozenset[str]


# -- an oracle that shares no code with the accountants ------------------------------------------------


def isotonic_cost(shifts: list[float], variances: list[float]) -> float:
    """The max-min formula: each update's slope is max over starts before it of min over ends after it of the means."""
    steps, cost = range(len(shifts)), 0.0
    for i in steps:
        slope = max(
            min(sum(shifts[j : k + 1]) / sum(variances[j : k + 1]) for k in steps if k >= i) for j in steps if j <= i
        )
        cost += slope * slope * variances[i]
    return cost


@cache
def leakage(path: str, law: str) -> float:
    """X of a path: U and N update (the target, others), L looks, W looks and updates; all see the final model."""
    total, counter, since = 0.0, 0, ""
    for letter in path + "L":
        if letter in "LW":
            sizes = [1.0 if law == "constant" else (counter - len(since) + 1 + i) ** -0.5 for i in range(len(since))]
            shifts = [size if each == "U" else 0.0 for size, each in zip(sizes, since, strict=True)]
            total += isotonic_cost(shifts, [size * size for size in sizes]) if "U" in since else 0.0
            counter, since = counter + (letter == "W"), ""
        else:
            counter, since = counter + 1, since + letter
    return total


def rounds_of(nodes: int, sure: int) -> Counter[Words]:
    """For each order of a round, the words that the adversary can make of it; nodes 2, ..., 1 + `sure` are sure."""
    choices = ["U|", "L|W", *["N"] * sure, *["N|"] * (nodes - 2 - sure)]
    return Counter(
        frozenset(map("".join, itertools.product(*(choices[node].split("|") for node in order))))
        for order in itertools.permutations(range(nodes))
    )


def worst_case(nodes: int, rounds: int, sure: int, law: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The law of the largest leakage that the adversary can reach, over all orders of all rounds."""
    one = rounds_of(nodes, sure)
    total = math.factorial(nodes) ** rounds
    found: Counter[float] = Counter()
    for orders in itertools.product(one.items(), repeat=rounds):
        worst = max(leakage("".join(words), law) for words in itertools.product(*(words for words, _ in orders)))
        found[worst] += math.prod(count for _, count in orders)
    return np.array(list(found)), np.array(list(found.values())) / total


def delta_of(values: Any, chances: Any, noise: float, epsilon: float) -> float:
    mu = np.maximum(np.sqrt(values) * 2.0 / noise, 1e-12)
    each = ndtr(0.5 * mu - epsilon / mu) - math.exp(epsilon) * ndtr(-0.5 * mu - epsilon / mu)
    return float(chances @ np.where(values > 0.0, np.maximum(each, 0.0), 0.0))


def planned(nodes: int, rounds: int, others: int, law: Any = "constant", noise: float = 2.0, **more: Any) -> PlannedRun:
    return planned_run(
        schedule="random-ring",
        nodes=nodes,
        steps=nodes * rounds,
        skip=0.0,
        noise_multiplier=noise,
        step_size=law,
        others=others,
        **more,
    )


CASES = [
    (4, 1, 1),
    (4, 2, 0),
    (4, 2, 1),
    (4, 2, 2),
    (5, 1, 2),
    (5, 2, 2),
    pytest.param(4, 3, 1, marks=pytest.mark.slow),
    pytest.param(5, 2, 1, marks=pytest.mark.slow),
]
QUESTIONS = ((2.0, 0.0), (2.0, 0.5), (2.0, 3.0), (6.0, 0.05), (6.0, 1.0), (20.0, 0.05))


@pytest.mark.parametrize("law", ["constant", "sqrt"])
@pytest.mark.parametrize(("nodes", "rounds", "sure"), CASES)
def test_no_adversary_is_better_than_the_forecast_for_those_who_are_sure(
    nodes: int, rounds: int, sure: int, law: str
) -> None:
    values, chances = worst_case(nodes, rounds, sure, law)
    for noise, epsilon in QUESTIONS:
        stated = forecast(planned(nodes, rounds, sure, law, noise)).delta(epsilon)
        assert delta_of(values, chances, noise, epsilon) <= stated * (1.0 + 1e-9), (noise, epsilon)


@pytest.mark.parametrize(("nodes", "rounds", "sure"), [(4, 2, 0), (4, 2, 1), (5, 2, 2)])
def test_one_more_than_are_sure_would_be_too_small(nodes: int, rounds: int, sure: int) -> None:
    values, chances = worst_case(nodes, rounds, sure, "constant")
    too_many = [
        forecast(planned(nodes, rounds, sure + 1, "constant", noise)).delta(epsilon) for noise, epsilon in QUESTIONS
    ]
    truth = [delta_of(values, chances, noise, epsilon) for noise, epsilon in QUESTIONS]
    assert any(stated < true for stated, true in zip(too_many, truth, strict=True))


def test_skips_that_depend_on_the_slot_break_the_forecast_of_independent_ones() -> None:
    """Four nodes, two rounds, everybody ready in the second half of a round only: why nodes that remember need more."""
    one = Counter(
        "".join(
            "ULNN"[node] if slot < 2 and node == 1 else "UWNN"[node] if slot >= 2 else ""
            for slot, node in enumerate(order)
        )
        for order in itertools.permutations(range(4))
    )
    found: Counter[float] = Counter()
    for first, second in itertools.product(one.items(), repeat=2):
        found[leakage(first[0] + second[0], "constant")] += first[1] * second[1]
    truth = delta_of(np.array(list(found)), np.array(list(found.values())) / 24**2, 6.0, 1.5)
    independent = planned_run(
        schedule="random-ring", nodes=4, steps=8, skip=0.5, noise_multiplier=6.0, step_size="constant"
    )
    assert truth == pytest.approx(2.43e-5, rel=1e-3)
    assert forecast(independent).delta(1.5) == pytest.approx(2.33e-5, rel=2e-3)


def test_that_some_nodes_update_is_not_enough_if_the_order_decides_which() -> None:
    """One of two others updates in each round, but the adversary chooses it when it has seen the order."""
    choices = [("U",), ("L",)]
    one = Counter(
        frozenset("".join((*choices, *what)[node][0] for node in order) for what in ((("N",), ("",)), (("",), ("N",))))
        for order in itertools.permutations(range(4))
    )
    found: Counter[float] = Counter()
    for first, second in itertools.product(one.items(), repeat=2):
        worst = max(leakage(a + b, "constant") for a, b in itertools.product(first[0], second[0]))
        found[worst] += first[1] * second[1]
    truth = delta_of(np.array(list(found)), np.array(list(found.values())) / 24**2, 6.0, 1.0)
    assert truth > 1.2 * forecast(planned(4, 2, 1, "constant", 6.0)).delta(1.0)


def test_the_floor_of_the_update_number_does_not_count_the_target() -> None:
    """It may never have updated before: with one more counted per round the bound for 1/sqrt steps is smaller."""
    sure = planned(6, 30, 4, "sqrt")
    independent = planned_run(schedule="random-ring", nodes=6, steps=180, skip=0.0, noise_multiplier=2.0)
    assert forecast(sure).epsilon(1e-6) > forecast(independent).epsilon(1e-6)
    assert forecast(planned(6, 30, 4)).epsilon(1e-6) == forecast(independent.replace(step_size="constant")).epsilon(
        1e-6
    )


# -- who is sure to update ----------------------------------------------------------------------------


@pytest.mark.parametrize("failure", [0.3, 1e-2, 1e-6, 1e-12])
def test_the_tail_of_a_sum_of_unequal_trials_is_bounded(failure: float) -> None:
    for chances in (np.linspace(0.1, 0.95, 60), np.full(40, 0.9), np.array([0.2, 0.999, 0.5]), np.ones(5)):
        law = np.ones(1)
        for chance in chances:  # the slow, obvious twin: one trial after the other
            law = np.convolve(law, [1.0 - chance, chance])
        least = fewest_successes(chances, failure)
        assert law[:least].sum() <= failure
        if failure == 1e-6 and len(chances) == 60:
            assert law[: least + 4].sum() > failure  # and not far from the truth


class Late(NamedTuple):
    """A ring of nodes that remember, and how long they compute; `share` of a computation is enough for an update."""

    ready: Literal["kept", "ahead"]
    law: Delay
    compute: Delay | None = None
    share: float = 1.0
    nodes: int = 40
    rounds: int = 4
    timeout: float = 0.3

    def sure(self, failure: float) -> int:
        late = Remembering(
            delay=self.law,
            timeout=self.timeout,
            ready=self.ready,
            hop_latency=0.05,
            compute=self.compute,
            share=self.share,
        )
        return sure_others(late, nodes=self.nodes, rounds=self.rounds, failure=failure)

    def walk(self, seed: int) -> tuple[Timeline, Any, Any, Any]:
        """Return what happened, the path, and the delays and computing times that were drawn."""
        rng = np.random.default_rng(seed)
        hops = self.nodes * self.rounds
        path, delays = RandomRing(self.nodes).path(hops, rng), self.law.sample(rng, hops)
        computing = np.zeros(hops) if self.compute is None else self.compute.sample(rng, hops)
        nobody = np.zeros(hops, np.bool_)
        run = timeline(
            Lateness(ready=self.ready, late="skip" if self.share == 1.0 else "fewer-rows"),
            Drawn(path, delays, computing, nobody, nobody),
            np.full(hops, self.timeout),
            rng,
            nodes=self.nodes,
            hop_latency=0.05,
            least_share=self.share,
        )
        return run, path, delays, computing


LATE = [
    Late("kept", Lomax(3.0, 2.0)),
    Late("ahead", Lomax(3.0, 2.0)),
    Late("kept", Exponential(1.0)),
    Late("ahead", Mixture([0.8, 0.2], [Constant(0.1), Gamma(2.0, 3.0)])),
    Late("ahead", Exponential(0.5), Exponential(0.1), timeout=0.6),
    Late("kept", Exponential(0.3), Lomax(3.0, 0.2), timeout=0.8),
    Late("ahead", Exponential(0.5), Lomax(2.0, 1.0), share=0.05, timeout=0.6),
]


@pytest.mark.parametrize("late", LATE)
def test_at_least_as_many_nodes_as_promised_are_sure(late: Late) -> None:
    """Nodes whose update is certain when a round begins are found from the clock, and counted in 200 runs."""
    nodes, failure, runs = late.nodes, 0.2, 200
    promised = late.sure(failure)
    assert promised > 0
    failed = 0
    for seed in range(runs):
        run, path, delays, computing = late.walk(seed)
        ready_at = np.full(nodes, 0.0 if late.ready == "ahead" else np.nan)
        short = False
        for number in range(late.rounds):
            hops = range(number * nodes, (number + 1) * nodes)
            begins = (run.clock[hops[0] - 1] if number else 0.0) + 0.05
            sure = set()
            for h in hops:  # what is drawn for this round does not depend on the order
                v = int(path[h])
                left = delays[h] if np.isnan(ready_at[v]) else max(0.0, ready_at[v] - begins)
                if left + late.share * computing[h] <= late.timeout * (1.0 - 1e-12):
                    sure.add(v)
            assert all(run.updated[h] for h in hops if int(path[h]) in sure)  # wherever their turn came
            short |= len(sure - {0, 1}) < promised
            for h in hops:
                v, offered = int(path[h]), (run.clock[h - 1] if h else 0.0) + 0.05
                if run.updated[h]:
                    ready_at[v] = run.clock[h] + delays[h] if late.ready == "ahead" else np.nan
                    continue
                ready_at[v] = offered + delays[h] if np.isnan(ready_at[v]) else ready_at[v]
                if run.passed_on[h]:
                    ready_at[v] = max(ready_at[v], offered) + computing[h]
        failed += short
    # Were it likelier than `failure`, so many failures or fewer would be seen with probability 0.9999 at least.
    assert failed <= runs * failure + 4 * math.sqrt(runs * failure * (1.0 - failure))


@pytest.mark.parametrize("late", LATE[:2])
def test_the_count_of_those_who_are_sure_is_not_far_from_the_truth(late: Late) -> None:
    """A bound that is far too small would pass all tests above, and be useless."""
    updates = np.mean([late.walk(seed)[0].updated.mean() for seed in range(20)])
    assert late._replace(nodes=400).sure(0.01) > 0.4 * 400 * updates


@pytest.mark.parametrize("ready", ["kept", "ahead"])
def test_runs_leak_no_more_than_their_forecast(ready: Literal["kept", "ahead"]) -> None:
    """The mean over paths of what any pair learns, from transcripts, against the forecast (all pairs are alike)."""
    nodes, rounds, noise = 14, 6, 3.0
    late = Late(ready, Lomax(3.0, 2.0), nodes=nodes, rounds=rounds)
    sure = late.sure(1e-4)
    stated = forecast(planned(nodes, rounds, sure, noise=noise, failure=1e-4))
    means: list[list[float]] = []
    for seed in range(60):
        run, path, _, _ = late.walk(1000 + seed)
        account = TranscriptAccountant(
            Transcript(nodes=nodes, offered=path, updated=run.updated, step_sizes=1.0, noise_multiplier=noise)
        )
        mu = account.matrix(threads=1)
        pairs = mu[~np.eye(nodes, dtype=bool)]
        means.append([float(np.mean([gdp_delta(float(m), epsilon) for m in pairs])) for epsilon in (0.5, 2.0)])
    average, error = np.mean(means, axis=0), np.std(means, axis=0) / math.sqrt(len(means))
    for epsilon, mean, spread in zip((0.5, 2.0), average, error, strict=True):
        assert mean - 4.0 * spread <= stated.delta(epsilon)


def test_a_thousand_nodes_of_which_a_hundred_are_slow() -> None:
    speeds = [1.0] * 900 + [50.0] * 100
    late = Remembering(delay=Lomax(3.0, 2.0), timeout=0.02, ready="ahead", hop_latency=0.01, speeds=speeds)
    sure = sure_others(late, nodes=1000, rounds=40, failure=1e-8)
    assert 735 <= sure <= 750
    run = planned(1000, 40, sure, "sqrt", 4.0, failure=1e-8)
    assert forecast(run).epsilon(1e-6) == pytest.approx(2.515, abs=0.01)


# -- what delta pays for, and what is refused ---------------------------------------------------------


def test_the_chance_to_be_wrong_is_part_of_delta() -> None:
    sure, doubtful = forecast(planned(50, 20, 40)), forecast(planned(50, 20, 40, failure=1e-7))
    assert doubtful.delta(2.0) == pytest.approx(min(sure.delta(2.0) + 1e-7, alone(50, 20).delta(2.0)), rel=1e-6)
    assert doubtful.epsilon(1e-6) > sure.epsilon(1e-6)
    # With a delta below it only what needs no luck is left: the target's own releases.
    assert doubtful.epsilon(1e-8) == pytest.approx(alone(50, 20).epsilon(1e-8), rel=1e-6)
    assert calibrate(doubtful.with_noise, 2.0, 1e-6) > calibrate(sure.with_noise, 2.0, 1e-6)
    assert any("40 other nodes" in words for words in doubtful.guarantee(1e-5).assumptions)


def alone(nodes: int, rounds: int) -> Any:
    return forecast(planned(nodes, rounds, 0, convex=False))


def test_more_who_are_sure_hide_more() -> None:
    values = [forecast(planned(30, 10, others)).epsilon(1e-6) for others in (0, 1, 5, 15, 28)]
    assert values == sorted(values, reverse=True)


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": math.inf, "lost_link": 0.1}, "timeout"),
        ({"ready": "fresh"}, "ready"),
        ({"share": 0.0}, "share"),
        ({"share": 1.1}, "share"),
        ({"hop_latency": -1.0}, "hop_latency"),
    ],
)
def test_what_no_node_remembers_is_refused(changes: dict[str, Any], parameter: str) -> None:
    fine: dict[str, Any] = {"delay": Exponential(1.0), "timeout": 0.3, "ready": "kept", "hop_latency": 0.05}
    with pytest.raises(InvalidInput) as refusal:
        Remembering(**(fine | changes))
    assert refusal.value.parameter == parameter


def test_all_update_where_all_are_waited_for() -> None:
    late = Remembering(delay=Exponential(1.0), timeout=math.inf, ready="kept", hop_latency=0.05)
    assert sure_others(late, nodes=10, rounds=5, failure=0.1) == 8


def test_nobody_is_sure_who_is_ready_just_in_time() -> None:
    """A clock rounds: (0.2 + 0.1) - 0.2 is more than 0.1."""
    for timeout, sure in ((0.1, 0), (0.1001, 8)):
        late = Remembering(delay=Constant(0.1), timeout=timeout, ready="ahead", hop_latency=0.0)
        assert sure_others(late, nodes=10, rounds=5, failure=0.1) == sure


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": "ring"},
        {"schedule": "random-walk"},
        {"against": "skipped-node"},
        {"skip": 0.1},
        {"target_skip": 0.0},
        {"others": 9},
        {"others": None, "failure": 0.1},
        {"failure": 1.0},
        {"order": KnownOrder(10, tuple(range(10)) * 3)},
        {"schedule": "designed-ring"},
    ],
)
def test_what_the_theorem_does_not_cover_is_refused(changes: dict[str, Any]) -> None:
    run = planned(10, 3, 4)
    with pytest.raises(InvalidInput):
        run.replace(**changes)


def test_the_paper_does_not_cover_it() -> None:
    with pytest.raises(InvalidInput, match="paper's theorems do not cover"):
        PaperBound(planned(10, 3, 4, "sqrt"), delta_prime=1e-6)


# -- looks without an update --------------------------------------------------------------------------


def test_who_passes_the_token_on_unchanged_has_looked() -> None:
    """Target, a look, another node's update: told of the look, the account is twice that of an observer who did not."""
    path, updated = np.array([0, 1, 2]), np.array([True, False, True])
    told: dict[str, Any] = {"nodes": 3, "offered": path, "updated": updated, "step_sizes": 1.0, "noise_multiplier": 2.0}
    skipped = TranscriptAccountant(Transcript(**told, against="skipped-node")).mu(0, 1)
    looked = TranscriptAccountant(
        Transcript(**told, against="skipped-node", passed_on=np.array([False, True, False]))
    ).mu(0, 1)
    assert skipped**2 == pytest.approx(0.5)
    assert looked**2 == pytest.approx(1.0)
    assert looked == TranscriptAccountant(Transcript(**told)).mu(0, 1)
    with pytest.raises(InvalidInput, match="passed_on"):
        Transcript(**told, passed_on=updated)


@pytest.mark.parametrize("share", [1.0, 0.02])
@pytest.mark.parametrize("law", [Exponential(0.3), Constant(0.4), Lomax(3.0, 1.0)])
def test_no_update_is_bounded_from_both_sides(law: Delay, share: float) -> None:
    delay, timeout = Gamma(0.25, 1.0), 0.7
    low, high = no_update_probability(delay, law, timeout, share=share)
    rng = np.random.default_rng(2)
    late = np.mean(delay.sample(rng, 400_000) + share * law.sample(rng, 400_000) > timeout)
    spread = 4.5 * math.sqrt(late / 400_000)
    assert low <= high <= low + 2e-3
    assert low - spread <= late <= high + spread
