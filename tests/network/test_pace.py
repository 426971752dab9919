"""How long a holder waits: learned timeouts against the best ones, in seeded simulations."""

from __future__ import annotations

import json
import math
import struct
import subprocess
import sys
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring.delays import Delay, Empirical, Exponential, Gamma, Lomax, Mixture, Never
from skipring.errors import InvalidInput
from skipring.network.node import AdaptivePace, FixedPace, Pace
from skipring.network.node.turn_times import TurnTimes
from skipring.timeouts import best_timeout, time_between_updates

HOP = 0.01
LAWS = [Gamma(0.25, 1.0), Lomax(3.0, 2.0), Exponential(1.0)]


def offers(pace: Pace, law: Delay, count: int, seed: int = 0) -> NDArray[np.float64]:
    """Make offers; return for each what it took, whether the node was ready, and the timeout in force before it."""
    rows = []
    for delay in law.sample(np.random.default_rng(seed), count).tolist():
        timeout, wait = pace.timeout, pace.offered()
        rows.append((min(delay, wait) + HOP, delay <= wait, timeout))
        pace.saw(min(delay, wait), delay <= wait)
        pace.overhead(HOP)
    return np.array(rows, dtype=np.float64)


def some_dead(law: Delay, share: float) -> Delay:
    return Mixture((1.0 - share, share), (law, Never()))


def best(law: Delay) -> float:
    return time_between_updates(law, best_timeout(law, HOP), HOP)


def of_timeouts(law: Delay, timeouts: NDArray[np.float64]) -> float:
    """The time between updates if each of these timeouts is used for one offer."""
    return float((HOP + law.truncated_mean(timeouts)).mean() / law.cdf(timeouts).mean())


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_it_finds_the_best_timeout(law: Delay) -> None:
    """Its timeouts are within 5 percent of the best time between updates, and 8 percent with what exploring costs."""
    rows = offers(AdaptivePace(), law, 5000, seed=1)[1000:]
    assert of_timeouts(law, rows[:, 2]) < 1.05 * best(law)
    assert rows[:, 0].sum() / rows[:, 1].sum() < 1.08 * best(law)


@pytest.mark.parametrize("law", [some_dead(law, 0.3) for law in LAWS], ids=str)
def test_dead_nodes_do_not_make_exploring_dear(law: Delay) -> None:
    """Three nodes in ten never answer: 15 percent is all that learning costs."""
    rows = offers(AdaptivePace(), law, 5000, seed=2)[1000:]
    assert rows[:, 0].sum() / rows[:, 1].sum() < 1.15 * best(law)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (Gamma(0.25, 1.0), Gamma(0.25, 10.0)),
        (Gamma(0.25, 1.0), Gamma(0.25, 0.1)),
        (Lomax(3.0, 2.0), Lomax(3.0, 20.0)),
        (Lomax(3.0, 2.0), Lomax(3.0, 0.2)),
        (Exponential(1.0), Exponential(10.0)),
        (Exponential(1.0), Exponential(0.1)),
    ],
    ids=str,
)
def test_it_follows_nodes_that_become_ten_times_slower_or_faster(before: Delay, after: Delay) -> None:
    pace = AdaptivePace()
    offers(pace, before, 1500, seed=3)
    rows = offers(pace, after, 2500, seed=4)
    assert of_timeouts(after, rows[500:, 2]) < 1.06 * best(after)


def test_nodes_that_always_take_the_same_are_waited_for() -> None:
    pace = AdaptivePace()
    rows = offers(pace, Empirical([1.0]), 200)
    assert rows[:, 1].all()
    assert pace.timeout == 2.0
    # Ten times slower: the timeout misses all, so it doubles until it does not, and nothing is believed of before.
    rows = offers(pace, Empirical([10.0]), 300)
    assert rows[100:, 1].all()
    assert pace.timeout == 20.0
    # Ten times faster again: nobody is missed, and the long wait is forgotten with the memory.
    rows = offers(pace, Empirical([1.0]), 600)
    assert rows[:, 1].all()
    assert pace.timeout == 2.0


def test_a_dead_node_is_not_waited_for_longer_than_the_living_take() -> None:
    pace = AdaptivePace()
    offers(pace, some_dead(Empirical([1.0]), 0.4), 300)
    assert pace.timeout == pytest.approx(1.05)


def test_when_all_are_dead_it_waits_longer_and_finds_them_when_they_are_back() -> None:
    pace = AdaptivePace()
    offers(pace, Gamma(0.25, 1.0), 1500)
    assert pace.timeout < 0.02
    rows = offers(pace, Never(), 400)
    assert np.all(np.diff(rows[:, 2]) >= 0.0)
    assert pace.timeout == 60.0
    assert rows[:, 0].max() == 60.0 + HOP
    rows = offers(pace, Gamma(0.25, 1.0), 2500, seed=5)
    assert of_timeouts(Gamma(0.25, 1.0), rows[500:, 2]) < 1.06 * best(Gamma(0.25, 1.0))


def test_nodes_slower_than_the_first_timeout_are_found() -> None:
    pace = AdaptivePace(first=1.0, longest=50.0)
    rows = offers(pace, Empirical([30.0]), 300)
    assert rows[100:, 1].all()
    assert pace.timeout == 50.0


def test_it_waits_as_told_until_twenty_were_ready() -> None:
    pace = AdaptivePace(first=5.0)
    for ready in [False, True] * 16:  # 16 ready
        pace.saw(0.1 if ready else 5.0, ready)
    assert pace.timeout == 5.0
    for ready in [False, True] * 8:
        pace.saw(0.1 if ready else 5.0, ready)
    assert pace.timeout == pytest.approx(0.105)


def test_one_offer_in_32_explores_as_far_as_a_fair_share_allows() -> None:
    pace = AdaptivePace()
    for delay in ([0.1] * 10 + [math.inf] * 5 + [3.0]) * 6:
        pace.saw(min(delay, 4.0), delay < 4.0)
    assert pace.timeout == pytest.approx(0.105)
    waits = np.array([pace.offered() for _ in range(16 * 32)])
    explored = waits[31::32] / pace.timeout
    assert explored == pytest.approx([2, 4, 2, 8, 2, 4, 2, 16, 2, 4, 2, 8, 2, 4, 2, 32])
    assert np.all(np.delete(waits, np.s_[31::32]) == pace.timeout)
    for _ in range(14 * 16 * 32):
        pace.offered()
    assert [pace.offered() for _ in range(16 * 32)][-1] == 6.0  # twice the longest known, not 512 times the timeout


def test_the_same_observations_make_the_same_waits() -> None:
    law = some_dead(Lomax(3.0, 2.0), 0.2)
    assert np.array_equal(offers(AdaptivePace(), law, 700), offers(AdaptivePace(), law, 700))


def two_kinds(pace: AdaptivePace) -> float:
    """Three nodes in ten take 0.1 seconds, the others 1: which timeout is best depends on what an offer costs."""
    for number in range(160):
        pace.saw(0.1 if number % 10 < 3 else 1.0, True)
    return pace.timeout


@pytest.mark.parametrize(
    ("overheads", "timeout"),
    [
        ([], 0.105),
        ([0.001] * 60 + [50.0] * 40, 0.105),  # a few slow ones change nothing
        ([1.0] * 100, 2.0),
        ([0.001] * 500 + [1.0] * 60, 2.0),  # only the newest hundred count
    ],
    ids=["none", "outliers", "dear", "newest"],
)
def test_what_an_offer_costs_decides_whether_to_be_patient(overheads: Sequence[float], timeout: float) -> None:
    pace = AdaptivePace()
    for seconds in overheads:
        pace.overhead(seconds)
    assert two_kinds(pace) == pytest.approx(timeout)


def test_no_timeout_is_shorter_than_a_timer_can_be() -> None:
    pace = AdaptivePace()
    for _ in range(32):
        pace.saw(0.0, True)
    assert pace.timeout == 1e-3


def test_a_fixed_pace_learns_nothing() -> None:
    pace: Pace = FixedPace(2.5)
    offers(pace, Exponential(1.0), 100)
    assert pace.timeout == pace.offered() == 2.5


@pytest.mark.parametrize("timeout", [0.0, -1.0, math.inf, math.nan])
def test_a_fixed_pace_is_finite(timeout: float) -> None:
    with pytest.raises(InvalidInput, match=r"timeout = .*: must be a finite number above 0"):
        FixedPace(timeout)


@pytest.mark.parametrize(
    "given", [{"first": 0.0}, {"longest": math.inf}, {"first": 61.0}, {"memory": 20}, {"memory": 500.0}], ids=str
)
def test_impossible_paces_are_refused(given: dict[str, float]) -> None:
    (name,) = given
    with pytest.raises(InvalidInput, match=f"^{name} = "):
        AdaptivePace(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("seconds", [-1e-9, math.nan, math.inf])
def test_impossible_observations_are_refused(seconds: float) -> None:
    pace = AdaptivePace()
    with pytest.raises(InvalidInput, match="waited = "):
        pace.saw(seconds, True)
    with pytest.raises(InvalidInput, match="seconds = "):
        pace.overhead(seconds)


def test_a_node_with_a_fixed_pace_does_not_load_scipy() -> None:
    program = "import sys, skipring.network.node.pace as p; p.FixedPace(1.0); sys.exit('scipy' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True)


def test_no_learned_timeout_is_below_the_floor() -> None:
    """A member claims that turns take no time: whoever takes less than the floor is still in time."""
    pace = AdaptivePace(shortest=0.25)
    for _ in range(300):
        pace.saw(1e-6, True, own=False)
    assert pace.timeout == 0.25
    lower = AdaptivePace()
    lower.recall({"timeout": 0.1, "alone": False, "turns": [[0.1, True, True]] * 50})
    pace.recall(lower.learned)
    assert pace.timeout == 0.25
    assert AdaptivePace(first=0.1, shortest=0.25).timeout == 0.25


def test_own_observations_weigh_more_than_claims() -> None:
    """Half of the observations are claims of three times as long, or a third: what the node has seen itself decides."""
    found = []
    for own in (True, False):
        pace = AdaptivePace()
        for _ in range(200):
            pace.saw(1.0, True, own=own)
            pace.saw(3.0, True, own=not own)
        found.append(pace.timeout)
    assert found == [pytest.approx(1.05), pytest.approx(6.0)]


def test_a_claim_about_the_own_turn_counts_as_a_claim() -> None:
    """A sender says of each turn of this node that it took 2 s to be ready. It was ready at once, and computed for 1 s.

    As many turns of others were seen. Were its own word for what it was told, it would wait for what never happens.
    """
    pace = AdaptivePace()
    turns = TurnTimes(pace)
    for hop in range(2, 400, 2):
        turns.heard(struct.pack("<If?", hop, 2.0, True), hop)
        turns.took(hop, 1.0, ready_after=0.0, in_time=True)
        turns.was_ready(hop + 1, 0.0)
        turns.took(hop + 1, 1.0, in_time=True)
    assert pace.timeout == pytest.approx(1.05)


def test_claims_are_not_listened_to_once_nobody_was_in_time_for_long() -> None:
    """All nodes take 3 s. A member that never takes part claims at each hop that turns take no time."""
    pace = AdaptivePace(shortest=0.1)
    for _ in range(200):
        for _ in range(31):
            pace.saw(1e-6, True, own=False)
        pace.saw(pace.timeout, False)
    assert pace.timeout > 3.0
    again = AdaptivePace(shortest=0.1)
    again.recall(json.loads(json.dumps(pace.learned)))
    for _ in range(100):
        again.saw(1e-6, True, own=False)
    assert again.learned == pace.learned  # nor after a restart


def test_claims_that_nobody_keeps_are_not_believed_again() -> None:
    """All nodes take 3 s. A member claims that they take no time, with each token that goes round."""
    pace, updates, hops = AdaptivePace(shortest=0.1), 0, 600
    for _ in range(hops):
        ready = pace.offered() >= 3.0
        if ready:
            updates += 1
            for _ in range(31):
                pace.saw(1e-6, True, own=False)
        pace.saw(3.0 if ready else pace.timeout, ready)
    assert updates >= 500
    honest = AdaptivePace(shortest=0.1)
    for _ in range(100):
        honest.saw(3.0, True, own=False)
    assert honest.timeout > 3.0
