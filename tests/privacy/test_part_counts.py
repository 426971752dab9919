"""Forecasts where nodes have different numbers of parts: against exact Gaussian protocols, and accounts of paths."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from plain_run import Floats, Run, exact_mu, worst_factors

from skipring.errors import InvalidInput
from skipring.privacy import (
    Composition,
    OwnTranscript,
    PaperBound,
    PlannedRun,
    calibrate,
    forecast,
    gdp_delta,
    planned_run,
    whole_node,
)
from skipring.privacy import _rotation as rotation
from skipring.privacy.record import ScheduleName

EPSILONS = (0.0, 0.5, 2.0)


def planned(schedule: ScheduleName, nodes: int, rounds: int, **more: Any) -> PlannedRun:
    arguments: dict[str, Any] = {"skip": 0.0, "noise_multiplier": 2.0, "protects": "record", **more}
    return planned_run(schedule=schedule, nodes=nodes, steps=nodes * rounds, **arguments)


def paths(run: PlannedRun) -> list[tuple[float, list[tuple[int, bool]]]]:
    """All paths of a small run, with their probabilities: orders of each round, and who is skipped."""
    orders = list(itertools.permutations(range(run.nodes))) if run.schedule == "random-ring" else [range(run.nodes)]
    ready = [True, False] if run.skip else [True]
    found = []
    for rounds in itertools.product(orders, repeat=run.rounds):
        offered = [node for order in rounds for node in order]
        for updated in itertools.product(ready, repeat=run.steps):
            chance = math.prod(1.0 - run.skip if made else run.skip for made in updated) / len(orders) ** run.rounds
            found.append((chance, list(zip(offered, updated, strict=True))))
    return found


def as_lists(run: PlannedRun, hops: list[tuple[int, bool]], parts: list[int]) -> Run:
    updates = sum(updated for _, updated in hops)
    steps = np.ones(updates) if run.step_size == "constant" else 1.0 / np.sqrt(1.0 + np.arange(updates))
    return Run(run.nodes, "node", hops, steps.tolist(), [run.noise_multiplier] * updates, [1.0] * updates, parts)


def own_account(run: Run, target: int) -> OwnTranscript:
    """The account of one node that is one of several, and of an outsider: a node that is never offered the token."""
    account = OwnTranscript(run.nodes + 1, target, parts=run.parts[target], protects="record")
    used, made = run.used(), 0
    for node, updated in run.hops:
        if not updated:
            account.look(node)
            continue
        part = used[made][1] if node == target else None
        account.update(node, step_size=run.steps[made], noise_multiplier=run.noises[made], part=part)
        made += 1
    return account


@pytest.mark.sample(2)
@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("run", "parts"),
    [
        (planned("random-ring", 3, 3), [2, 3, 2]),
        (planned("random-ring", 2, 5, step_size="constant"), [5, 2]),
        (planned("random-ring", 2, 3, skip=0.2), [2, 3]),
        (planned("ring", 3, 3, skip=0.2, distance=2), [3, 2, 2]),
        (planned("ring", 4, 7, noise_multiplier=1.0), [2, 3, 4, 5]),
    ],
    ids=lambda value: f"{value.schedule} n={value.nodes}" if isinstance(value, PlannedRun) else str(value),
)
def test_no_protocol_of_nodes_with_different_parts_leaks_more_than_the_forecast(
    run: PlannedRun, parts: list[int]
) -> None:
    """Each record of each node, for each observer and somebody outside, in worlds whose updates are linear.

    What a path tells is never above the account of that path, and its mean over paths never above the forecast. The
    contractions of others are those with which most is told. What is stated for the largest number of parts alone is
    below the truth, as is what holds for the smallest alone (see below).
    """
    run = run.replace(parts=tuple(parts))
    inside = forecast(run)
    outside = forecast(run.replace(against="outsider", distance=None))
    largest = forecast(run.replace(parts=max(parts)))
    exact: dict[tuple[int, int, int], Floats] = {}
    for chance, hops in paths(run):
        plain = as_lists(run, hops, parts)
        for target in range(run.nodes):
            account = own_account(plain, target)
            for part in range(parts[target]):
                bound = np.sqrt(account.mu2_by_observer(part))
                shifts = plain.shifts(target, part)
                for observer in set(range(run.nodes + 1)) - {target}:
                    if observer < run.nodes and run.keywords.get("distance") not in (
                        None,
                        (observer - target) % run.nodes,
                    ):
                        continue
                    known = [observer] if observer < run.nodes else []
                    mu = 0.0
                    if shifts.any():
                        mu = exact_mu(plain, known, worst_factors(plain, known, shifts), shifts)
                    assert mu <= bound[observer] * (1.0 + 1e-7)
                    deltas = np.array([gdp_delta(mu, epsilon) if mu > 0.0 else 0.0 for epsilon in EPSILONS])
                    exact[target, part, observer] = exact.get((target, part, observer), 0.0) + chance * deltas
    worst = np.zeros(len(EPSILONS))
    for (_, _, observer), deltas in exact.items():
        stated = inside if observer < run.nodes else outside
        assert np.all(deltas <= np.array([stated.delta(each) for each in EPSILONS]) * (1.0 + 1e-7))
        worst = np.maximum(worst, deltas if observer < run.nodes else 0.0)
    assert np.any(worst > 1.05 * np.array([largest.delta(each) for each in EPSILONS]))


def test_neither_the_smallest_number_of_parts_nor_the_largest_stands_for_all() -> None:
    """Of 4 rounds, a record of 3 parts has the first and the last. A record of 2 parts has the second and the last, or
    the first and the third: later steps are smaller, and the last update is seen bare."""
    ring = planned("ring", 5, 4, distance=4, position=4, noise_multiplier=6.0)
    truth = as_lists(ring, [(node, True) for _ in range(4) for node in range(5)], [3] * 5)
    shifts = truth.shifts(3)
    exact = gdp_delta(exact_mu(truth, [2], worst_factors(truth, [2], shifts), shifts), 2.0)
    two, three = (forecast(ring.replace(parts=every)) for every in (2, 3))
    assert exact > 2.0 * two.delta(2.0)
    assert exact <= three.delta(2.0)
    assert forecast(ring.replace(parts=(2, 3))).delta(2.0) == three.delta(2.0)
    longer = ring.replace(steps=5 * 30)
    assert forecast(longer.replace(parts=(2, 3))).delta(2.0) == forecast(longer.replace(parts=2)).delta(2.0)


@pytest.mark.sample(2)
@pytest.mark.parametrize("against", ["node", "outsider"])
@pytest.mark.parametrize("schedule", ["ring", "random-ring"])
def test_what_is_stated_is_the_largest_over_the_numbers_of_parts(schedule: ScheduleName, against: str) -> None:
    run = planned(schedule, 10, 12, skip=0.3, against=against, noise_multiplier=4.0)
    several = run.replace(parts=(5, 2, 3, 3))
    each = [run.replace(parts=every) for every in (2, 3, 5)]
    assert forecast(several).epsilon(1e-5) == max(forecast(one).epsilon(1e-5) for one in each)
    assert forecast(several).delta(0.5) == max(forecast(one).delta(0.5) for one in each)
    noise = calibrate(forecast(several).with_noise, 1.0, 1e-5)
    assert noise == pytest.approx(max(calibrate(forecast(one).with_noise, 1.0, 1e-5) for one in each), rel=1e-7)
    assert forecast(several).with_noise(noise).keeps(1.0, 1e-5)
    assert not forecast(several).with_noise(0.999 * noise).keeps(1.0, 1e-5)
    assert forecast(several).epsilon(1e-5) < 0.95 * forecast(run).epsilon(1e-5)  # what the common divisor would say


def test_numbers_that_others_divide_do_not_matter() -> None:
    run = planned("random-ring", 5, 10)
    assert run.replace(parts=(4, 2, 6)) == run.replace(parts=2)
    assert run.replace(parts=(7, 1)) == run
    assert run.replace(parts=np.array([4, 6, 6])).unit.parts == (4, 6)
    assert run.replace(parts=(4, 6)).unit.every == 2
    assert run.replace(parts=(3, 2)).replace(steps=100) == run.replace(steps=100, parts=(2, 3))
    node = whole_node(run.replace(parts=(2, 3), noise_multiplier=40.0), 8)
    assert node == run.replace(protects="node", noise_multiplier=5.0)


@pytest.mark.parametrize("schedule", ["ring", "random-ring"])
def test_what_holds_for_units_of_a_divisor_holds_for_those_of_its_multiples(schedule: ScheduleName) -> None:
    """The bounds follow: so leaving multiples out states no less than they would."""
    for against, law in (("node", "sqrt"), ("outsider", "sqrt"), ("outsider", "constant")):
        run = planned(schedule, 4, 8, skip=0.3, against=against, step_size=law)
        found = {every: forecast(run.replace(parts=every)).epsilon(1e-4) for every in (1, 2, 3, 4, 6)}
        for least, most in ((1, 2), (1, 3), (2, 4), (2, 6), (3, 6)):
            assert found[most] <= found[least] * (1.0 + 1e-9)


def test_many_numbers_are_accounted_for_by_what_they_share(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rotation, "_MOST_NUMBERS", 2)
    run = planned("random-ring", 6, 40, noise_multiplier=4.0)
    assert len(forecast(run.replace(parts=(4, 6, 10))).classes(1e-9)) == len(
        forecast(run.replace(parts=2)).classes(1e-9)
    )
    assert forecast(run.replace(parts=(4, 6, 10))).epsilon(1e-5) == forecast(run.replace(parts=2)).epsilon(1e-5)
    # Beyond the rounds of a run there is but one number, and any smaller one has a unit that contributes as often.
    assert forecast(run.replace(parts=(3, 41, 50, 70))).epsilon(1e-5) == forecast(run.replace(parts=3)).epsilon(1e-5)


def test_compositions_of_many_runs_fall_back_on_what_the_numbers_share() -> None:
    run = planned("random-ring", 10, 12, skip=0.2, noise_multiplier=6.0)
    few, many = ([forecast(run.replace(parts=(4, 6)))] * times for times in (2, 6))
    shared = forecast(run.replace(parts=2))
    assert Composition(*few).epsilon(1e-5) < 0.95 * Composition(shared, shared).epsilon(1e-5)
    assert Composition(*many).epsilon(1e-5) == Composition(*[shared] * 6).epsilon(1e-5)


@pytest.mark.parametrize(
    ("parameter", "changes"),
    [
        ("parts", {"parts": ()}),
        ("parts", {"parts": (2, 0)}),
        ("parts", {"parts": (2, 1.5)}),
        ("parts", {"parts": (2, 3), "protects": "node"}),
    ],
)
def test_what_makes_no_sense_is_refused(parameter: str, changes: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match=parameter):
        planned("random-ring", 5, 4).replace(**changes)


def test_claims_say_that_nodes_differ() -> None:
    run = planned("random-ring", 20, 10, parts=(2, 3, 5))
    said = forecast(run).guarantee(1e-5).sentence()
    assert "every 2nd, 3rd or 5th turn" in said
    assert "Nodes have different numbers of parts, and the largest over these is stated." in said
    walk = run.replace(schedule="random-walk")
    assert forecast(walk).epsilon(1e-5) == forecast(walk.replace(parts=None)).epsilon(1e-5)
    assert "otation is not counted on the random walk" in forecast(walk).guarantee(1e-5).sentence()
    with pytest.raises(InvalidInput, match="parts"):
        PaperBound(run, delta_prime=1e-7)
