"""The agreed order: the same everywhere, and fair."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare

from skipring.errors import InvalidInput
from skipring.network import agreed_path


def test_the_order_never_changes() -> None:
    """Nodes with other versions must draw the same; these were drawn once, and by hand from SHA-256 for the first."""
    assert agreed_path("random-walk", 10, 8, b"skipring") == [1, 8, 1, 9, 7, 3, 5, 7]
    assert agreed_path("random-ring", 5, 10, b"skipring") == [3, 4, 0, 2, 1, 0, 3, 4, 1, 2]


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
def test_a_longer_path_continues_a_shorter_one(schedule: str) -> None:
    assert agreed_path(schedule, 7, 100, b"x")[:31] == agreed_path(schedule, 7, 31, b"x")


def test_rounds_of_a_random_ring_visit_everybody_once() -> None:
    path = agreed_path("random-ring", 13, 13 * 20, b"y")
    for start in range(0, len(path), 13):
        assert sorted(path[start : start + 13]) == list(range(13))


@pytest.mark.parametrize("schedule", ["random-ring", "random-walk"])
def test_every_node_is_as_likely_at_every_place(schedule: str) -> None:
    """Chi-square at level 1e-6: 1000 seeds, first and last place of a round of 6."""
    paths = np.array([agreed_path(schedule, 6, 6, seed.to_bytes(4, "big")) for seed in range(1000)])
    for place in (0, 5):
        assert chisquare(np.bincount(paths[:, place], minlength=6)).pvalue > 1e-6
    # Neighbours on the path: all ordered pairs alike (or none with itself, on the ring).
    pairs = np.bincount(paths[:, 0] * 6 + paths[:, 1], minlength=36)
    possible = pairs if schedule == "random-walk" else pairs[~np.eye(6, dtype=bool).ravel()]
    assert chisquare(possible).pvalue > 1e-6
    assert possible.sum() == 1000


def test_an_unknown_schedule_is_refused() -> None:
    with pytest.raises(InvalidInput, match="schedule = spiral: must be one of ring, random-ring, random-walk"):
        agreed_path("spiral", 3, 3, b"")
