"""The rows of a run: those that are trained on, and those that a model is judged by."""

from __future__ import annotations

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.runs import dealt_rows, with_changes


def test_a_validation_part_takes_the_place_of_the_test_rows() -> None:
    changes = ["data.standardise=false", "data.unit_rows=false", "data.nodes=5"]
    _, plain, _ = dealt_rows(with_changes(None, changes))
    _, found, owned = dealt_rows(with_changes(None, [*changes, "data.validation=0.25"]))
    trained, judged = {tuple(row) for row in plain.train_x}, {tuple(row) for row in found.test_x}
    assert judged < trained
    assert not judged & {tuple(row) for row in plain.test_x}
    assert judged | {tuple(row) for row in found.train_x} == trained
    assert len(found.test_x) == round(0.25 * len(plain.train_x))
    assert len(owned.features) == len(found.train_x)
    np.testing.assert_allclose(np.sort(owned.features.sum(1)), np.sort(found.train_x.sum(1)))


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_share_that_leaves_nothing_is_refused_by_its_key(share: float) -> None:
    with pytest.raises(InvalidInput, match=rf"data.validation = {share:.1f}: must be above 0 and below 1"):
        dealt_rows(with_changes(None, [f"data.validation={share}"]))
