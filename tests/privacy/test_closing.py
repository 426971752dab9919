"""Closing hops: noise at the end of a run that no data goes with, in every account of what happened."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from plain_run import Run, exact_mu, random_run, worst_factors

from skipring.errors import InvalidInput
from skipring.privacy import OwnTranscript, Transcript, TranscriptAccountant


def shifts_but_for_closing(run: Run, closing: int, target: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How far each update brings two worlds apart: those of the last hops not at all."""
    with_data = [hop < len(run.hops) - closing for hop, (_, updated) in enumerate(run.hops) if updated]
    return np.where(with_data, run.shifts(target), 0.0)


def test_what_is_known_is_exactly_what_a_linear_protocol_tells() -> None:
    rng = np.random.default_rng(40)
    for _ in range(40):
        run = dataclasses.replace(random_run(rng, most_hops=25), against="node")
        closing = int(rng.integers(0, len(run.hops) + 1))
        matrix = run.account(closing=closing).matrix(threads=1)
        for target in range(run.nodes):
            shifts = shifts_but_for_closing(run, closing, target)
            for observer in set(range(run.nodes)) - {target}:
                factors = worst_factors(run, [observer], shifts)
                truth = exact_mu(run, [observer], factors, shifts)
                # With other factors the protocol tells less, and with these it may round a little.
                assert matrix[target, observer] >= truth * (1.0 - 1e-6)
                assert matrix[target, observer] == pytest.approx(truth, rel=1e-5, abs=1e-9)


def test_own_accounts_count_closing_hops_in_the_same_way() -> None:
    rng = np.random.default_rng(41)
    for _ in range(25):
        run = dataclasses.replace(random_run(rng, most_parts=3), against="node")
        run = dataclasses.replace(run, factors=[1.0] * len(run.steps))
        closing = int(rng.integers(0, 6))
        closing = min(closing, len(run.hops))
        owns = [OwnTranscript(run.nodes, node, parts=run.parts[node], protects="record") for node in range(run.nodes)]
        used, made = run.used(), 0
        for hop, (node, updated) in enumerate(run.hops):
            for account in owns:
                account.look(node)
                if updated:
                    account.update(
                        node,
                        step_size=run.steps[made],
                        noise_multiplier=run.noises[made],
                        part=used[made][1],
                        closing=hop >= len(run.hops) - closing,
                    )
            made += updated
        matrix = run.account(closing=closing).matrix(threads=1)
        for node, own in enumerate(owns):
            np.testing.assert_allclose(np.sqrt(own.mu2_by_observer()), matrix[node], rtol=1e-9, atol=0.0)


def test_one_closing_hop_halves_what_the_last_update_tells_at_the_end() -> None:
    run = Transcript(
        nodes=3,
        offered=np.array([0, 1, 2, 0]),
        updated=np.ones(4, dtype=bool),
        step_sizes=1.0,
        noise_multiplier=2.0,
        closing=1,
    )
    matrix = TranscriptAccountant(run).matrix() ** 2
    # Node 2 updated last. Node 0 closes: it sees that update bare, and node 1 with one more noise.
    np.testing.assert_allclose(matrix[2], [1.0, 0.5, 0.0], rtol=1e-9)


def test_without_convexity_a_closing_hop_releases_nothing() -> None:
    run = Transcript(
        nodes=3,
        offered=np.array([0, 1, 2, 0]),
        updated=np.ones(4, dtype=bool),
        step_sizes=1.0,
        noise_multiplier=2.0,
        convex=False,
        closing=1,
    )
    np.testing.assert_allclose(TranscriptAccountant(run).matrix()[0, 1:], 1.0, rtol=1e-9)


@pytest.mark.parametrize("closing", [-1, 4, 0.5])
def test_there_are_no_more_closing_hops_than_hops(closing: float) -> None:
    with pytest.raises(InvalidInput, match="closing"):
        Transcript(
            nodes=3,
            offered=np.array([0, 1, 2]),
            updated=np.ones(3, dtype=bool),
            step_sizes=1.0,
            noise_multiplier=2.0,
            closing=closing,  # type: ignore[arg-type] # half a hop is what it refuses
        )
