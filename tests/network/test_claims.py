"""What a node says of the final model alone, against the transcript of the run as somebody outside sees it."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring.network.node import AccountTerms, final_epsilon
from skipring.network.protocol import Token, blank_chain, extended_chain
from skipring.privacy import Transcript, TranscriptAccountant, gdp_epsilon

NODES, CLOSING, DELTA = 4, 3, 1e-5
PATH = [0, 1, 2, 3, 2, 0, 3, 1, 1, 3, 0, 2, *(0, 3, 0)]  # the last three hops close the run
SIZES = 1.0 / np.sqrt(np.arange(1.0, len(PATH) + 1.0))


def terms_of(me: int, parts: int, noise: float = 2.0) -> AccountTerms:
    return AccountTerms(
        nodes=NODES,
        me=me,
        path=PATH,
        step_sizes=SIZES,
        noise_multiplier=noise,
        convex=True,
        parts=parts,
        protects="record",
        closing=CLOSING,
    )


def token_with(updated: NDArray[np.bool_]) -> Token:
    chain = blank_chain(len(PATH), bytes(32))
    for hop in np.flatnonzero(updated).tolist():
        chain = extended_chain(chain, (0, 0), hop + 1, bytes(32))
    return Token(int(updated.sum()), b"", chain)


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("skipped", [(), (12,), (5, 13), (12, 13, 14)])
def test_closing_hops_hide_and_tell_nothing_of_the_final_model(skipped: tuple[int, ...], parts: int) -> None:
    updated = np.ones(len(PATH), dtype=bool)
    updated[list(skipped)] = False
    run = Transcript(
        nodes=NODES,
        offered=np.array(PATH),
        updated=updated,
        step_sizes=SIZES[: int(updated.sum())],
        noise_multiplier=2.0,
        parts=parts,
        protects="record",
        closing=CLOSING,
    )
    seen = TranscriptAccountant(run).seen_outside()
    for me in range(NODES):
        told = final_epsilon(terms_of(me, parts), token_with(updated), DELTA)
        assert told == pytest.approx(gdp_epsilon(float(seen[me]), DELTA), rel=1e-8)


def test_without_noise_a_hop_without_data_tells_nothing() -> None:
    for hops, epsilon in (([12, 14], 0.0), ([5, 12], math.inf)):
        updated = np.isin(np.arange(len(PATH)), hops)
        assert final_epsilon(terms_of(0, 1, noise=0.0), token_with(updated), DELTA) == epsilon
