"""Numbers that slow a processor down are taken as 0, so that how long an update takes does not tell of rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring.learning import LOGISTIC, LinearLearner, LinearModel, NeuralModel, Protection, Rows, rows_for
from skipring.learning.update import without_tiny


class Silence:
    """Adds nothing, so that updates can be compared."""

    def add(self, vector: NDArray[Any], std: float) -> None:
        """Leave the vector as it is."""


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_only_what_no_result_can_tell_from_zero_is_taken_as_zero(dtype: type[np.floating[Any]]) -> None:
    least = float(np.finfo(dtype).tiny)
    values = np.array([0.0, least / 4, -least, least**0.5 * 0.9, -(least**0.5) * 1.1, 0.5], dtype)
    found = without_tiny(values)
    assert found.dtype == dtype
    assert (found == np.where([False, True, True, True, False, False], dtype(0.0), values)).all()
    assert without_tiny(found) is found  # nothing to change: no second copy


def test_labels_that_are_no_fractions_stay_what_they_are() -> None:
    labels = np.array([0, 1, 2])
    assert without_tiny(labels) is labels


def test_rows_of_a_network_have_none_of_them() -> None:
    model = NeuralModel(name="skipring_has_no_such:function", features=3, classes=2)
    x, y = rows_for(model, np.full((4, 3), 1e-30), np.full(4, 1e-30), "training")
    assert not x.any()
    assert not y.any()


def test_a_learner_computes_with_none_of_them() -> None:
    """Each product of a row and a gradient would be denormal, and take thirty times as long."""
    labels = np.ones(4, int)
    x = np.full((4, 3), 1e-200)
    rows = Rows(train_x=x, train_y=labels, test_x=x[:0], test_y=labels[:0], classes=2)
    rng = np.random.default_rng(1)
    model = LinearModel(loss=LOGISTIC, features=3, diameter=20.0)
    learner = LinearLearner(model, rows, protection=Protection(unit="record", batch=4), rng=rng, dealt=rng)
    learner.prepare(0)
    found = learner.update(np.zeros(3), turn=0, step_size=0.1, noise_multiplier=2.0, noise=Silence())
    assert (found == 0.0).all()
