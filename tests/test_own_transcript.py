"""A node's own account of a run: the same numbers as the compiled one, for one target, and never too small."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.privacy import OwnTranscript, Transcript, TranscriptAccountant
from skipring.schedules import schedule

DRAWN = ("ring", "random-ring", "random-walk")


@dataclass(frozen=True)
class Run:
    """Hops (node offered to, whether it updated) and, for each update, step size and noise."""

    nodes: int
    hops: list[tuple[int, bool]]
    steps: list[float]
    noises: list[float]

    def account(self, hops: int, *, convex: bool = True) -> TranscriptAccountant:
        """The compiled account, if the run had ended after this many hops."""
        offered, updated = (np.array(column) for column in zip(*self.hops[:hops], strict=True))
        made = int(updated.sum())
        return TranscriptAccountant(
            Transcript(
                nodes=self.nodes,
                offered=offered,
                updated=updated,
                step_sizes=self.steps[:made],
                noise_multiplier=self.noises[:made],
                convex=convex,
            )
        )


def random_run(rng: np.random.Generator, name: str, *, most_hops: int = 60) -> Run:
    nodes, hops = int(rng.integers(2, 8)), int(rng.integers(1, most_hops))
    offered = schedule(name, nodes).path(hops, rng).tolist()
    updated = (rng.random(hops) >= rng.choice([0.0, 0.3, 0.8])).tolist()
    made, spread = sum(updated), float(rng.choice([0.0, 0.5, 2.0]))
    return Run(
        nodes=nodes,
        hops=list(zip(offered, updated, strict=True)),
        steps=(np.exp(spread * rng.standard_normal(made)) / np.sqrt(1.0 + np.arange(made))).tolist(),
        noises=np.exp(rng.uniform(-1.0, 3.0) + spread * rng.standard_normal(made)).tolist(),
    )


def exact_mu2(run: Run, hops: int, target: int, observer: int) -> Fraction:
    """The same with fractions and from the definition: looks, then the cheapest way to absorb between two of them."""
    total, made, between = Fraction(0), 0, list[tuple[bool, Fraction, Fraction]]()
    for node, updated in [*run.hops[:hops], (observer, False)]:
        if node == observer:
            total += absorbed(between)
            between = []
        if updated:
            step, noise = Fraction(run.steps[made]), Fraction(run.noises[made])
            if node != observer:
                between.append((node == target, 2 * step, (step * noise) ** 2))
            made += 1
    plain = sum(
        (2 / Fraction(noise)) ** 2
        for node, noise in zip([node for node, updated in run.hops[:hops] if updated], run.noises, strict=False)
        if node == target
    )
    assert total <= plain
    return total


def absorbed(updates: list[tuple[bool, Fraction, Fraction]]) -> Fraction:
    """The cost of the greatest convex minorant of (noise so far, shift so far), found from all pairs of points.

    After each update at most what has come by then is absorbed, and after the last one all of it. The slopes of the
    minorant are what is absorbed per variance.
    """
    points = [(Fraction(0), Fraction(0))]
    for own, shift, variance in updates:
        noise_so_far, shift_so_far = points[-1]
        points.append((noise_so_far + variance, shift_so_far + (shift if own else 0)))
    cost, at = Fraction(0), 0
    while at < len(points) - 1:
        x, y = points[at]
        slope, to = min(((points[to][1] - y) / (points[to][0] - x), to) for to in range(at + 1, len(points)))
        cost += slope**2 * (points[to][0] - x)
        at = to
    return cost


def play(account: OwnTranscript, run: Run, first: int, last: int) -> None:
    made = sum(updated for _, updated in run.hops[:first])
    for node, updated in run.hops[first:last]:
        if updated:
            account.update(node, step_size=run.steps[made], noise_multiplier=run.noises[made])
            made += 1
        else:
            account.look(node)


@pytest.mark.parametrize("name", DRAWN)
def test_it_is_the_compiled_account_of_one_target(name: str) -> None:
    """At every hop, for all targets (the first and the last node, too), and all observers."""
    rng = np.random.default_rng(1)
    for _ in range(12):
        run = random_run(rng, name)
        own = [OwnTranscript(run.nodes, target) for target in range(run.nodes)]
        for hop in range(len(run.hops)):
            mu2 = run.account(hop + 1).matrix(threads=1) ** 2
            for target in range(run.nodes):
                play(own[target], run, hop, hop + 1)
                worst = own[target].worst()
                assert worst.target == target
                assert worst.observer != target
                mine = own[target].mu2_by_observer()
                assert mine == pytest.approx(mu2[target], rel=1e-9, abs=0.0)
                assert np.all(mine >= mu2[target] * (1.0 - 1e-12))
                assert worst.mu**2 == pytest.approx(mine[worst.observer], rel=1e-12)


def test_it_is_never_below_the_exact_value() -> None:
    """Fractions have no rounding."""
    rng = np.random.default_rng(2)
    several = 0
    for _ in range(60):
        run = random_run(rng, DRAWN[int(rng.integers(3))], most_hops=40)
        target, observer = rng.choice(run.nodes, 2, replace=False).tolist()
        account = OwnTranscript(run.nodes, target)
        play(account, run, 0, len(run.hops))
        exact, mine = exact_mu2(run, len(run.hops), target, observer), float(account.mu2_by_observer()[observer])
        assert Fraction(mine) >= exact
        assert mine <= float(exact) * (1.0 + 1e-9)
        several += exact > 0
    assert several > 30


@pytest.mark.parametrize("name", DRAWN)
def test_without_convexity_each_own_update_counts_in_full(name: str) -> None:
    run = random_run(np.random.default_rng(3), name, most_hops=100)
    for target in range(run.nodes):
        account = OwnTranscript(run.nodes, target, convex=False)
        play(account, run, 0, len(run.hops))
        expected = run.account(len(run.hops), convex=False).matrix(threads=1)[target] ** 2
        assert account.mu2_by_observer() == pytest.approx(expected, rel=1e-12, abs=0.0)
        assert account.mu2_by_observer()[target] == 0.0
        assert account.worst().mu ** 2 == pytest.approx(expected.max(), rel=1e-12)


def test_a_long_run_loses_no_digits() -> None:
    """A large update long ago must not blur the noise of a small one now, as a difference of two sums would."""
    account, large, small = OwnTranscript(3, 0), 2.0**30, 2.0**-30
    account.update(0, step_size=large, noise_multiplier=1.0)
    for _ in range(100_000):
        account.update(1, step_size=2.0**-5, noise_multiplier=1.0)
    account.update(0, step_size=small, noise_multiplier=1.0)
    account.update(1, step_size=small, noise_multiplier=1.0)
    # All numbers are powers of 2. The two shifts of the target are hidden apart: the second one in two equal noises.
    exact = 4 * Fraction(2**60) / (Fraction(2**60) + 100_000 * Fraction(1, 2**10)) + 2
    mine = Fraction(float(account.mu2_by_observer()[2]))
    assert exact <= mine <= exact * (1 + Fraction(1, 10**9))


def test_many_own_updates_between_two_looks_are_pooled() -> None:
    """With equal noise in each segment, and an observer that looks at the end: as one release for each of them."""
    account = OwnTranscript(4, 3)
    for _ in range(5000):
        for node in (3, 0, 1):
            account.update(node, step_size=0.5, noise_multiplier=4.0)
    assert account.mu2_by_observer()[2] == pytest.approx(5000 * 0.25 / 3, rel=1e-9)
    assert account.mu2_by_observer()[0] == pytest.approx(5000 * 0.25, rel=1e-9)  # right after it, each time
    account.look(2)
    before = account.mu2_by_observer()
    account.look(2)
    account.look(3)  # the target about itself: nothing
    assert np.array_equal(before, account.mu2_by_observer())


@pytest.mark.parametrize(("target", "observer"), [(0, 1), (2, 0)])
def test_nothing_has_leaked_before_the_first_own_update(target: int, observer: int) -> None:
    account = OwnTranscript(3, target)
    account.update(1, step_size=1.0, noise_multiplier=1.0)
    account.look(0)
    assert account.worst() == (0.0, target, observer)
    assert not account.mu2_by_observer().any()


def test_numbers_far_apart_do_not_overflow() -> None:
    account = OwnTranscript(2, 0)
    for step in (1.0, 1e-30, 1e-59):  # each one is too large to be hidden by those that follow
        account.update(0, step_size=step, noise_multiplier=1e-59)
    assert account.mu2_by_observer()[1] == pytest.approx(3 * 4e118, rel=1e-9)
    account.update(0, step_size=1e59, noise_multiplier=1e-59)  # hides all of them
    assert account.mu2_by_observer()[1] == pytest.approx(4e118, rel=1e-9)


def test_what_makes_no_sense_is_refused_and_changes_nothing() -> None:
    with pytest.raises(InvalidInput, match="nodes = 1"):
        OwnTranscript(1, 0)
    with pytest.raises(InvalidInput, match="target = 3: must be a node from 0 to 2"):
        OwnTranscript(3, 3)
    account = OwnTranscript(3, 0)
    account.update(0, step_size=1.0, noise_multiplier=2.0)
    before = account.mu2_by_observer()
    for node, step, noise in ((3, 1.0, 1.0), (0, 0.0, 1.0), (0, 1.0, np.inf), (0, 1e70, 1.0), (0, 1.0, 1e-70)):
        with pytest.raises(InvalidInput):
            account.update(node, step_size=step, noise_multiplier=noise)
    with pytest.raises(InvalidInput, match="observer = -1"):
        account.look(-1)
    assert np.array_equal(before, account.mu2_by_observer())


def test_it_needs_no_compiler() -> None:
    code = (
        "import sys; from skipring.privacy import OwnTranscript; a = OwnTranscript(3, 0)\n"
        "a.update(0, step_size=1.0, noise_multiplier=1.0); a.look(1); a.worst()\n"
        "sys.exit('numba' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


class _Whole(OwnTranscript):
    """An account that forgets nothing."""

    def _drop(self) -> None:
        pass


def test_what_everybody_has_looked_after_is_forgotten_and_changes_nothing() -> None:
    """The same numbers, to the last bit, as if all were kept; and few segments are left."""
    rng = np.random.default_rng(3)
    whole, own = _Whole(4, 0), OwnTranscript(4, 0)
    for hop in range(3000):
        node, size, updates = int(rng.integers(4)), float(rng.uniform(0.5, 1.0)), rng.random() < 0.8
        for account in (whole, own):
            if updates:
                account.update(node, step_size=size, noise_multiplier=8.0)
            else:
                account.look(node)
        if hop % 7 == 0:
            assert own.mu2_by_observer().tobytes() == whole.mu2_by_observer().tobytes()
    assert own._dropped > 300
    assert len(own._shifts) < 300
    assert own.worst() == whole.worst()
