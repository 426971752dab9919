"""Digests tell apart what differs anywhere, and stay the same where nothing does."""

from __future__ import annotations

import numpy as np
import pytest

from skipring._digest import digest
from skipring.network.node import AccountTerms


def terms(sizes: np.ndarray[tuple[int], np.dtype[np.float64]]) -> AccountTerms:
    path = (0, 1, 2, 3) * 600
    return AccountTerms(nodes=4, me=1, path=path, step_sizes=sizes, noise_multiplier=2.0, convex=True, protects="node")


def test_two_long_lists_of_step_sizes_that_differ_in_the_middle_have_different_digests() -> None:
    """numpy abbreviates a printed array of more than 1000 numbers: its middle is not in its text."""
    sizes = np.full(2400, 0.25)
    other = sizes.copy()
    other[1200] = 0.26
    assert repr(sizes) == repr(other)
    assert terms(sizes).digest != terms(other).digest
    assert terms(sizes).digest == terms(sizes.copy()).digest


def test_digests_are_pinned() -> None:
    """Another number here means that journals of the version before are not recognised."""
    assert digest({"b": 1.5, "a": [1, None, "x"]}).hex()[:16] == "7e59c894cc06b6e1"
    assert digest(np.arange(3000.0)).hex()[:16] == "f5a877bc4735f87d"
    assert terms(np.full(2400, 0.25)).digest[:16] == "443adc23c2bceecb"


def test_an_array_counts_with_its_type_and_shape_however_it_lies_in_memory() -> None:
    array = np.arange(12.0).reshape(3, 4)
    assert digest(array) == digest(np.asfortranarray(array)) == digest(array.astype(">f8"))
    assert len({digest(array), digest(array.ravel()), digest(array.astype(np.float32)), digest(array.T.copy())}) == 4
    assert digest(np.float64(0.1)) == digest(0.1)


def test_what_has_no_canonical_bytes_is_refused() -> None:
    for value in (object(), np.array([object()]), {1, 2}):
        with pytest.raises(TypeError, match="has no canonical bytes"):
            digest(value)
