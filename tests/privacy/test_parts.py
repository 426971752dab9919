"""Runs in which nodes use one part of their rows at a time: against plain lists, and exact Gaussian protocols."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from plain_run import Run, exact_mu, random_run, worst_factors

from skipring.errors import InvalidInput
from skipring.privacy import OwnTranscript, Transcript, TranscriptAccountant, transcript
from skipring.privacy.transcript import OUTSIDE


def absorbed(shifts: list[float], variances: list[float]) -> float:
    """The greatest convex minorant of (noise so far, shift so far): slopes are pooled until they rise."""
    slopes: list[tuple[float, float]] = []
    for shift, variance in zip(shifts, variances, strict=True):
        while slopes and slopes[-1][0] * variance >= shift * slopes[-1][1]:
            earlier = slopes.pop()
            shift, variance = shift + earlier[0], variance + earlier[1]  # noqa: PLW2901
        slopes.append((shift, variance))
    return sum(shift * shift / variance for shift, variance in slopes)


def slow_mu(run: Run, target: int, observers: Sequence[int]) -> float:
    """The part of the target about which the observers know most."""
    used, worst = run.used(), 0.0
    for part in range(run.parts[target]):
        mu2 = 0.0
        for low, high in pairwise(run.seen(observers)):
            shifts = [2.0 * run.steps[c] if used[c] == (target, part) else 0.0 for c in range(low, high)]
            mu2 += absorbed(shifts, [(run.steps[c] * run.noises[c]) ** 2 for c in range(low, high)])
        worst = max(worst, mu2)
    return math.sqrt(worst)


def test_every_pair_costs_what_plain_lists_say() -> None:
    rng = np.random.default_rng(1)
    for _ in range(150):
        run = random_run(rng, most_parts=4)
        account = run.account()
        matrix = account.matrix(threads=1)
        for target in range(run.nodes):
            for observer in range(run.nodes):
                if observer != target:
                    expected = slow_mu(run, target, [observer])
                    assert matrix[target, observer] == pytest.approx(expected, rel=1e-8, abs=0.0)
        target, *others = rng.permutation(run.nodes).tolist()
        assert account.mu(target, others) == pytest.approx(slow_mu(run, target, others), rel=1e-8, abs=0.0)
        outside = [slow_mu(run, target, []) for target in range(run.nodes)]
        assert account.seen_outside() == pytest.approx(outside, rel=1e-8, abs=0.0)
        final = run.account(against="outsider")
        assert final.worst().mu == pytest.approx(max(outside), rel=1e-8, abs=0.0)
        assert (final.worst().observer, final.guarantee(1e-5).against) == (OUTSIDE, "an outsider")
        for target in range(run.nodes):  # whoever is inside is told more
            assert np.all(np.delete(matrix[target], target) >= account.seen_outside()[target] * (1.0 - 1e-9))


def test_no_gaussian_protocol_tells_more_and_the_worst_one_tells_as_much() -> None:
    """Of each record, in each part: its drift, everybody's noise, random contractions; and the contractions for which
    the bound is attained."""
    rng, attained = np.random.default_rng(2), 0
    for _ in range(150):
        run = random_run(rng, most_parts=4, most_hops=30)
        if not run.steps:
            continue
        target, *others = rng.permutation(run.nodes).tolist()
        outside = rng.random() < 0.4
        observers = [] if outside else others[: int(rng.integers(1, run.nodes))]
        bound = float(run.account().seen_outside()[target]) if outside else run.account().mu(target, observers)
        best = 0.0
        for part in range(run.parts[target]):
            shifts = run.shifts(target, part)
            factors = rng.uniform(0.0, 1.0, len(shifts)) * rng.choice([-1.0, 1.0], len(shifts))
            assert exact_mu(run, observers, factors, shifts) <= bound * (1.0 + 1e-9)
            best = max(best, exact_mu(run, observers, worst_factors(run, observers, shifts), shifts))
        assert best <= bound * (1.0 + 1e-7)
        attained += bound > 0.0
        assert best == pytest.approx(bound, rel=1e-6, abs=1e-12)
    assert attained > 80


def test_turns_count_offers_and_not_updates() -> None:
    """Node 0 is skipped at its second turn: its third is with the first part again, as the fifth is."""
    offered = np.array([0, 1, 0, 1, 0, 1, 0, 1, 0, 1])
    updated = np.array([True, True, False, True, True, True, False, True, True, True])
    run = Transcript(
        nodes=3, offered=offered, updated=updated, step_sizes=1.0, noise_multiplier=2.0, parts=2, protects="record"
    )
    assert run.parts_used[run.updaters == 0].tolist() == [0, 0, 0]
    assert run.parts_used[run.updaters == 1].tolist() == [0, 1, 0, 1, 0]
    # Node 1 looks each time: three bare releases of one record. By updates it would be two.
    assert TranscriptAccountant(run).mu(0, 1) == pytest.approx(math.sqrt(3.0), rel=1e-9)


def test_other_parts_of_a_node_are_noise() -> None:
    run = Transcript(
        nodes=2,
        offered=np.array([0, 0]),
        updated=np.array([True, True]),
        step_sizes=1.0,
        noise_multiplier=2.0,
        parts=[2, 1],
        protects="person",
    )
    account = TranscriptAccountant(run)
    assert account.mu(0, 1) == pytest.approx(1.0, rel=1e-9)  # the second part: nothing follows it
    assert account.guarantee(1e-5).protects == "person"
    assert "in one part" in account.guarantee(1e-5).sentence()
    whole = TranscriptAccountant(Transcript(**{**vars(run), "parts": 1, "protects": "node"}))
    assert whole.mu(0, 1) == pytest.approx(math.sqrt(2.0), rel=1e-9)


def test_own_accounts_are_those_of_the_run_so_far() -> None:
    rng = np.random.default_rng(3)
    for _ in range(25):
        run, convex = random_run(rng, most_parts=4), bool(rng.random() < 0.8)
        own = [OwnTranscript(run.nodes, u, parts=run.parts[u], convex=convex) for u in range(run.nodes)]
        used, made = run.used(), 0
        for hop, (node, updated) in enumerate(run.hops, start=1):
            for account in own:
                if not updated:
                    account.look(node)
                    continue
                what: dict[str, Any] = {"step_size": run.steps[made], "noise_multiplier": run.noises[made]}
                account.update(node, **what, part=used[made][1] if account.target == node else None)
            made += updated
            if hop % 4 == 0 or hop == len(run.hops):
                mu2 = run.first(hop).account(convex=convex, against="node").matrix(threads=1) ** 2
                for u in range(run.nodes):
                    assert own[u].mu2_by_observer() == pytest.approx(mu2[u], rel=1e-9, abs=0.0)
                    assert np.all(own[u].mu2_by_observer() >= mu2[u] * (1.0 - 1e-12))
                    assert own[u].worst().mu ** 2 == pytest.approx(mu2[u].max(), rel=1e-9, abs=0.0)
                    by_part = [own[u].mu2_by_observer(part) for part in range(run.parts[u])]
                    assert np.array_equal(np.max(by_part, axis=0), own[u].mu2_by_observer())


def test_one_part_is_a_whole_node() -> None:
    rng = np.random.default_rng(4)
    for _ in range(10):
        run = random_run(rng, most_parts=4)
        ones = run.account(parts=1, protects="node").matrix(threads=1)
        assert np.array_equal(run.account(parts=[1] * run.nodes).matrix(threads=1), ones)
        assert np.all(run.account().matrix(threads=1) <= ones * (1.0 + 1e-9))
        many = run.account(parts=10**6, convex=False).matrix(threads=1)  # no record contributes twice
        assert np.all(many <= 2.0 / min(run.noises, default=1.0) * (1.0 + 1e-9))


def test_many_parts_are_done_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    run = random_run(np.random.default_rng(11), most_parts=4, most_hops=200)
    at_once = run.account().matrix(threads=1)
    monkeypatch.setattr(transcript, "_MOST_NUMBERS", 1)
    assert np.array_equal(run.account().matrix(threads=2), at_once)


@pytest.mark.parametrize("parts", [0, -1, 1.5, [1, 2], [[1]], "2", True, 10**7])
def test_what_is_no_number_of_parts_is_refused(parts: Any) -> None:
    run = Run(3, "node", [(0, True)], [1.0], [5.0], [1.0], [1, 1, 1])
    with pytest.raises(InvalidInput, match="parts"):
        run.account(parts=parts)
    with pytest.raises(InvalidInput, match="parts"):
        OwnTranscript(3, 0, parts=parts)


def test_what_would_be_a_guess_is_refused() -> None:
    run = Run(3, "node", [(0, True)], [1.0], [5.0], [1.0], [2, 1, 1])
    with pytest.raises(InvalidInput, match="parts"):
        run.account(protects="node")
    with pytest.raises(InvalidInput, match="protects"):
        run.account(protects="row")
    account = OwnTranscript(3, 0, parts=2)
    for part in (None, 2, -1):
        with pytest.raises(InvalidInput, match="part"):
            account.update(0, step_size=1.0, noise_multiplier=5.0, part=part)
    assert account.worst().mu == 0.0
    for claimed in ("node", "row"):  # what is hidden is in one part: a whole node is not
        with pytest.raises(InvalidInput, match=r"protects|parts"):
            OwnTranscript(3, 0, parts=2, protects=claimed)  # type: ignore[arg-type] # no unit at all
    for parts in (1, 2):
        assert OwnTranscript(3, 0, parts=parts).guarantee(1e-5).protects == "record"
    outside = run.account(against="outsider")
    for ask in (outside.matrix, lambda: outside.mu(0, 1)):
        with pytest.raises(InvalidInput, match="outsider"):
            ask()
