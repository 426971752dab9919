"""What a run leaked: against a generic quadratic solver, exact Gaussian protocols, and the reference tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from plain_run import AGAINST, Run, exact_mu, random_run, worst_factors
from scipy.optimize import lsq_linear

from skipring.errors import InvalidInput
from skipring.privacy import OwnTranscript
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon
from skipring.privacy.record import Against
from skipring.privacy.transcript import Transcript, TranscriptAccountant
from skipring.schedules import schedule

PAPER_NOISE = 10.597605053700947


# The slow way to account for a run ----------------------------------------------------------------------------------


def random_pair(rng: np.random.Generator, run: Run) -> tuple[int, int]:
    target, observer = rng.choice(run.nodes, 2, replace=False).tolist()
    return target, observer


def random_coalition(rng: np.random.Generator, run: Run) -> tuple[int, list[int]]:
    target, *others = rng.permutation(run.nodes).tolist()
    return target, others[: int(rng.integers(1, run.nodes))]


def plain_mu(run: Run, target: int) -> float:
    """Each update of the target counts in full."""
    return math.sqrt(
        sum((2.0 / noise) ** 2 for node, noise in zip(run.updaters, run.noises, strict=True) if node == target)
    )


def slow_mu(run: Run, target: int, observers: Sequence[int]) -> float:
    """Solve the shift-and-absorb programme of every interval, as it is stated, by bounded least squares.

    z is what remains of the shift after each update, and 0 where the observers look; a = L z_before + S - z is
    absorbed; the sum of (a / nu)^2 is made small.
    """
    mu2 = 0.0
    for interval in run.intervals(observers):
        length = len(interval)
        shift, noise = np.zeros(length), np.zeros(length)
        remains = np.zeros((length, length - 1))  # a = shift + remains @ z
        for i, c in enumerate(interval):
            shift[i] = 2.0 * run.steps[c] if run.updaters[c] == target else 0.0
            noise[i] = run.steps[c] * run.noises[c]
            if i > 0:
                remains[i, i - 1] = run.factors[c]
            if i < length - 1:
                remains[i, i] = -1.0
        z = np.zeros(0)
        if length > 1:
            solution = lsq_linear(-remains / noise[:, None], shift / noise, (0.0, np.inf), method="bvls", tol=1e-15)
            z = solution.x
        absorbed = shift + remains @ z
        assert np.min(absorbed / noise) >= -1e-10 * np.max(shift / noise, initial=0.0)  # else it is not admissible
        mu2 += float(np.sum((absorbed / noise) ** 2))
    return min(math.sqrt(mu2), plain_mu(run, target))


@pytest.mark.sample(2)
@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.2, 1.0), (0.0, 0.3), (0.7, 1.6), (1.0, 3.0)])
def test_every_pair_costs_the_optimum_of_a_generic_solver(factors: tuple[float, float]) -> None:
    rng = np.random.default_rng(1)
    for _ in range(120):
        run = random_run(rng, factors=factors)
        matrix = run.account().matrix()
        for target in range(run.nodes):
            for observer in range(run.nodes):
                if observer != target:
                    assert matrix[target, observer] == pytest.approx(
                        slow_mu(run, target, [observer]), rel=1e-8, abs=0.0
                    )


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.2, 1.0), (0.7, 1.6)])
def test_every_coalition_costs_the_optimum_of_a_generic_solver(factors: tuple[float, float]) -> None:
    rng = np.random.default_rng(2)
    for _ in range(150):
        run = random_run(rng, factors=factors)
        target, observers = random_coalition(rng, run)
        assert run.account().mu(target, observers) == pytest.approx(slow_mu(run, target, observers), rel=1e-8, abs=0.0)


def test_two_updates_of_the_target_as_in_the_closed_form() -> None:
    """Slopes that rise are charged apart, slopes that fall together."""
    for steps in ([1.0, 1.0, 3.0, 1.0], [3.0, 1.0, 1.0, 1.0]):
        hops = [(0, True), (1, True), (0, True), (1, True)]
        run = Run(3, "node", hops, steps, [10.0] * 4, [1.0] * 4, [1] * 3)
        first, second = steps[0] ** 2 + steps[1] ** 2, steps[2] ** 2 + steps[3] ** 2
        apart = steps[0] ** 2 / first + steps[2] ** 2 / second
        together = (steps[0] + steps[2]) ** 2 / (first + second)
        releases = apart if steps[0] / first <= steps[2] / second else together
        assert run.account().mu(0, 2) == pytest.approx(0.2 * math.sqrt(releases), rel=1e-9, abs=0.0)


# Protocols whose leakage is known exactly ----------------------------------------------------------------------------


def test_no_linear_gaussian_protocol_leaks_more_than_the_bound() -> None:
    rng = np.random.default_rng(3)
    closest = 0.0
    for _ in range(1500):
        run = random_run(rng, factors=[(1.0, 1.0), (0.2, 1.0), (0.7, 1.4)][int(rng.integers(3))])
        if not run.updaters:
            continue
        target, observers = random_coalition(rng, run)
        updates = len(run.updaters)
        signs = rng.choice([-1.0, 1.0], updates) if rng.random() < 0.5 else np.ones(updates)
        slack = rng.choice([0.0, 0.5, 0.9, 1.0, 1.0], updates) if rng.random() < 0.8 else np.ones(updates)
        shifts = run.shifts(target) * rng.choice([-1.0, 1.0, 1.0], updates)
        truth = exact_mu(run, observers, signs * slack * np.array(run.factors), shifts)
        bound = run.account().mu(target, observers)
        assert truth <= bound * (1.0 + 1e-9)
        if bound > 0.0:
            closest = max(closest, truth / bound)
    assert closest > 0.999


@pytest.mark.parametrize("factors", [(1.0, 1.0), (0.6, 1.0), (0.9, 1.2)])
def test_the_bound_is_attained_by_the_worst_contractions(factors: tuple[float, float]) -> None:
    rng = np.random.default_rng(4)
    tried = 0
    for _ in range(150):
        run = random_run(rng, factors=factors, most_hops=30)
        target, observers = random_coalition(rng, run)
        if target not in run.updaters:
            continue
        shifts = run.shifts(target)
        profile = worst_factors(run, observers, shifts)
        assert np.all(profile <= np.array(run.factors))
        truth = exact_mu(run, observers, profile, shifts)
        assert run.account().mu(target, observers) == pytest.approx(truth, rel=1e-9, abs=0.0)
        tried += 1
    assert tried > 80


# Without contraction -------------------------------------------------------------------------------------------------


def test_without_convexity_each_update_counts_in_full() -> None:
    rng = np.random.default_rng(5)
    for _ in range(50):
        run = random_run(rng)
        account = run.account(convex=False)
        matrix = account.matrix()
        for target in range(run.nodes):
            for observer in set(range(run.nodes)) - {target}:
                assert matrix[target, observer] == pytest.approx(plain_mu(run, target), rel=1e-9, abs=0.0)
        target, observers = random_coalition(rng, run)
        assert account.mu(target, observers) == pytest.approx(plain_mu(run, target), rel=1e-9, abs=0.0)


@pytest.mark.parametrize("against", AGAINST)
def test_the_next_on_a_ring_sees_every_update_by_itself(against: Against) -> None:
    nodes, rounds = 7, 20
    offered = np.tile(np.arange(nodes), rounds)
    steps = 1.0 / np.sqrt(1.0 + np.arange(nodes * rounds))
    account = TranscriptAccountant(
        Transcript(
            nodes=nodes,
            offered=offered,
            updated=np.ones(nodes * rounds, dtype=np.bool_),
            step_sizes=steps,
            noise_multiplier=PAPER_NOISE,
            against=against,
        )
    )
    full = math.sqrt(rounds) * 2.0 / PAPER_NOISE
    matrix = account.matrix()
    for target in range(nodes):
        assert matrix[target, (target + 1) % nodes] == pytest.approx(full, rel=1e-9, abs=0.0)
        assert matrix[target, (target + 2) % nodes] < 0.8 * full
    assert account.worst().mu == pytest.approx(full, rel=1e-9, abs=0.0)
    assert account.epsilon(1e-6) == pytest.approx(gdp_epsilon(full, 1e-6), rel=1e-8, abs=0.0)
    assert account.delta(3.0) == pytest.approx(gdp_delta(full, 3.0), rel=1e-7, abs=0.0)


def test_nothing_ever_costs_more_than_every_update_in_full() -> None:
    rng = np.random.default_rng(6)
    for _ in range(100):
        run = random_run(rng, factors=(0.2, 2.0))
        matrix = run.account().matrix()
        for target in range(run.nodes):
            assert np.all(matrix[target] <= plain_mu(run, target) * (1.0 + 1e-9))


def test_the_unit_of_the_step_size_does_not_matter() -> None:
    rng = np.random.default_rng(7)
    for unit in (1e-30, 1e-3, 1e30):
        run = random_run(rng)
        scaled = dataclasses.replace(run, steps=[unit * step for step in run.steps])
        np.testing.assert_allclose(scaled.account().matrix(), run.account().matrix(), rtol=1e-12)


# Laws ----------------------------------------------------------------------------------------------------------------


def test_a_larger_coalition_never_learns_less() -> None:
    rng = np.random.default_rng(8)
    for _ in range(100):
        run = random_run(rng, factors=(0.5, 1.0))
        account = run.account()
        target, *others = rng.permutation(run.nodes).tolist()
        learned = [account.mu(target, others[:size]) for size in range(1, run.nodes)]
        assert all(more >= less * (1.0 - 1e-12) for less, more in pairwise(learned))


def test_a_coalition_of_one_is_a_pair() -> None:
    rng = np.random.default_rng(9)
    for _ in range(50):
        run = random_run(rng, factors=(0.5, 1.5))
        account = run.account()
        target, observer = random_pair(rng, run)
        pair = account.mu(target, observer)
        assert account.mu(target, [observer]) == account.matrix()[target, observer] == pair
        assert account.mu(target, [observer, observer]) == pytest.approx(pair, rel=1e-12, abs=0.0)


def test_who_sees_less_learns_less() -> None:
    rng = np.random.default_rng(10)
    for _ in range(100):
        run = random_run(rng, factors=(0.5, 1.0))
        offered, participants = (run.account(against=against).matrix() for against in AGAINST)
        assert np.all(participants <= offered * (1.0 + 1e-12))


def test_more_noise_and_more_contraction_never_leak_more() -> None:
    rng = np.random.default_rng(11)
    for _ in range(100):
        run = random_run(rng, factors=(0.5, 1.2))
        before = run.account().matrix()
        updates = len(run.updaters)
        noisier = [noise * more for noise, more in zip(run.noises, rng.uniform(1.0, 2.0, updates), strict=True)]
        smaller = [factor * less for factor, less in zip(run.factors, rng.uniform(0.0, 1.0, updates), strict=True)]
        assert np.all(run.account(noise_multiplier=noisier).matrix() <= before * (1.0 + 1e-12))
        assert np.all(run.account(contraction=smaller).matrix() <= before * (1.0 + 1e-12))


def test_the_matrix_is_the_same_bytes_for_any_number_of_threads() -> None:
    rng = np.random.default_rng(12)
    for nodes in (2, 3, 53):
        run = Transcript(
            nodes=nodes,
            offered=rng.integers(0, nodes, 3000),
            updated=rng.random(3000) < 0.6,
            step_sizes=0.1,
            noise_multiplier=5.0,
            contraction=0.99,
        )
        account = TranscriptAccountant(run)
        matrices = [account.matrix(threads=threads) for threads in (1, 2, 5, None)]
        assert len({matrix.tobytes() for matrix in matrices}) == 1
        matrix = matrices[0]
        assert np.all(np.diagonal(matrix) == 0.0)
        worst = account.worst()
        assert worst.mu == matrix[worst.target, worst.observer] == matrix.max()
        assert {account.worst(threads=threads) for threads in (1, 2, 5)} == {worst}
        for observer in range(1, min(nodes, 5)):
            assert account.mu(0, observer) == matrix[0, observer]


@pytest.mark.parametrize("factor", [0.9, 0.3])
def test_twenty_thousand_updates_under_strong_contraction_stay_finite(factor: float) -> None:
    """Only the last few hundred updates matter to an observer who sees but the final token."""
    updates = 20_000
    hops = [(c % 2, True) for c in range(updates)]
    run = Run(3, "node", hops, [1.0] * updates, [10.0] * updates, [factor] * updates, [1] * 3)
    account = run.account()
    recent = Run(3, "node", hops[-400:], [1.0] * 400, [10.0] * 400, [factor] * 400, [1] * 3)
    for target in (0, 1):
        assert account.mu(target, 2) == pytest.approx(slow_mu(recent, target, [2]), rel=1e-8, abs=0.0)
    assert account.worst().mu == pytest.approx(
        0.2 * math.sqrt(updates / 2), rel=1e-9, abs=0.0
    )  # 0 and 1 see each other's every update
    assert np.all(np.isfinite(account.matrix()))


# Reference numbers ---------------------------------------------------------------------------------------------------

# Schedule, nodes, skip, hops, against, and epsilon at delta = 1e-6: median, 99 % and maximum over ordered pairs.
TABLE_4: list[tuple[str, int, float, int, Against, tuple[float, float, float]]] = [
    ("random-ring", 100, 0.5, 10_000, "node", (1.76, 2.40, 2.84)),
    ("random-ring", 100, 0.5, 10_000, "skipped-node", (1.33, 1.95, 2.35)),
    ("ring", 100, 0.5, 10_000, "node", (1.16, 6.32, 7.65)),
    ("ring", 100, 0.5, 10_000, "skipped-node", (0.97, 4.31, 5.58)),
    ("random-walk", 100, 0.5, 10_000, "node", (1.74, 2.48, 2.87)),
    ("random-walk", 100, 0.5, 10_000, "skipped-node", (1.37, 2.04, 2.49)),
    ("random-ring", 1000, 1e-4, 24_000, "node", (0.26, 0.84, 1.44)),
]


@pytest.mark.parametrize(("name", "nodes", "skip", "hops", "against", "expected"), TABLE_4)
def test_table_4(
    name: str, nodes: int, skip: float, hops: int, against: Against, expected: tuple[float, float, float]
) -> None:
    """The table is one random path, and so is this: they need not agree closer than paths differ.

    The median of about 10^4 pairs hardly moves (3 %, and the table's last digit is up to 2 % of it), the 99 % pair
    moves by a few per cent, and the maximum is an extreme value of one path (15 %).
    """
    rng = np.random.default_rng(15)
    offered = schedule(name, nodes).path(hops, rng)
    updated = rng.random(hops) >= skip
    steps = 1.0 / np.sqrt(1.0 + np.arange(int(updated.sum())))
    account = TranscriptAccountant(
        Transcript(
            nodes=nodes,
            offered=offered,
            updated=updated,
            step_sizes=steps,
            noise_multiplier=PAPER_NOISE,
            against=against,
        )
    )
    pairs = account.matrix()[~np.eye(nodes, dtype=np.bool_)]
    median, high, most = (gdp_epsilon(float(np.quantile(pairs, level)), 1e-6) for level in (0.5, 0.99, 1.0))
    assert median == pytest.approx(expected[0], rel=0.03, abs=0.0)
    assert high == pytest.approx(expected[1], rel=0.06, abs=0.0)
    assert most == pytest.approx(expected[2], rel=0.15, abs=0.0)
    assert account.epsilon(1e-6) == pytest.approx(most, rel=1e-12, abs=0.0)


# Records -------------------------------------------------------------------------------------------------------------


def good(**changes: Any) -> Transcript:
    arguments: dict[str, Any] = {
        "nodes": 3,
        "offered": np.array([0, 1, 2, 0]),
        "updated": np.array([True, True, False, True]),
        "step_sizes": 1.0,
        "noise_multiplier": 10.0,
    }
    return Transcript(**(arguments | changes))


@pytest.mark.parametrize("against", AGAINST)
def test_an_empty_run_leaks_nothing(against: Against) -> None:
    nothing = {"offered": np.zeros(0, dtype=np.int64), "updated": np.zeros(0, dtype=np.bool_)}
    skipped = {"offered": np.array([0, 1, 2]), "updated": np.zeros(3, dtype=np.bool_)}
    for hops in (nothing, skipped):
        for convex in (True, False):
            account = TranscriptAccountant(good(against=against, convex=convex, **hops))
            assert np.all(account.matrix() == 0.0)
            assert account.mu(0, 1) == account.mu(0, [1, 2]) == account.worst().mu == account.epsilon(1e-6) == 0.0
    own = OwnTranscript(3, 0)
    assert own.worst().mu == 0.0
    own.look(1)
    assert own.worst().mu == 0.0


@pytest.mark.parametrize("nodes", [1, 0, -3, 2.5, True])
def test_fewer_than_two_nodes_are_refused(nodes: Any) -> None:
    with pytest.raises(InvalidInput, match="nodes"):
        good(nodes=nodes)
    with pytest.raises(InvalidInput, match="nodes"):
        OwnTranscript(nodes, 0)


@pytest.mark.parametrize("offered", [[0, 1, 2, 3], [0, -1, 2, 0], [0.0, 1.0, 2.0, 0.0], [True, True, False, True]])
def test_a_hop_to_nobody_is_refused(offered: Any) -> None:
    with pytest.raises(InvalidInput, match="offered"):
        good(offered=np.array(offered))


@pytest.mark.parametrize(
    "updated", [[True, True, False], [True] * 5, [1, 1, 0, 1], [[True, True, False, True]], [1.0, 1.0, 0.0, 1.0]]
)
def test_a_truth_value_is_needed_for_each_hop(updated: Any) -> None:
    with pytest.raises(InvalidInput, match="updated"):
        good(updated=np.array(updated))


@pytest.mark.parametrize("parameter", ["step_sizes", "noise_multiplier"])
@pytest.mark.parametrize(
    "value",
    [0.0, -1.0, math.nan, math.inf, [1.0, 1.0], [1.0] * 4, [1.0, 0.0, 1.0], [1.0, math.nan, 1.0], [[1.0, 1.0, 1.0]]],
)
def test_step_sizes_and_noise_must_be_positive_and_one_for_each_update(parameter: str, value: Any) -> None:
    with pytest.raises(InvalidInput, match=parameter):
        good(**{parameter: value})


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, [1.0, 1.0], [1.0, -1.0, 1.0]])
def test_contraction_must_not_be_negative(value: Any) -> None:
    with pytest.raises(InvalidInput, match="contraction"):
        good(contraction=value)


def test_an_unknown_view_is_refused() -> None:
    with pytest.raises(InvalidInput, match="against"):
        good(against="everything")


@pytest.mark.parametrize("observer", [0, [0], [1, 0], [], 3, [1, 3], -1, [1.5], True])
def test_an_observer_must_be_another_node(observer: Any) -> None:
    with pytest.raises(InvalidInput, match="observer"):
        TranscriptAccountant(good()).mu(0, observer)


@pytest.mark.parametrize("target", [3, -1, 0.5])
def test_a_target_must_be_a_node(target: Any) -> None:
    with pytest.raises(InvalidInput, match="target"):
        TranscriptAccountant(good()).mu(target, 1)


@pytest.mark.parametrize(
    ("node", "changes", "parameter"),
    [
        (3, {}, "node"),
        (-1, {}, "node"),
        (0, {"step_size": 0.0}, "step_size"),
        (0, {"step_size": math.nan}, "step_size"),
        (0, {"noise_multiplier": 0.0}, "noise_multiplier"),
        (0, {"noise_multiplier": -1.0}, "noise_multiplier"),
        (0, {"noise_multiplier": math.inf}, "noise_multiplier"),
    ],
)
def test_a_bad_update_is_refused_and_changes_nothing(node: int, changes: dict[str, Any], parameter: str) -> None:
    account = OwnTranscript(3, 0)
    fine: dict[str, Any] = {"step_size": 1.0, "noise_multiplier": 10.0}
    account.update(0, **fine)
    before = account.worst()
    with pytest.raises(InvalidInput, match=parameter):
        account.update(node, **(fine | changes))
    assert account.worst() == before
