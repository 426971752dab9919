"""Records, persons and nodes: what an update takes and divides by, and that clipping each row keeps contraction."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skipring.errors import InvalidInput
from skipring.learning import (
    LOGISTIC,
    SOFTMAX,
    SQUARED,
    LinearLearner,
    LinearModel,
    NeuralModel,
    Protection,
    Rows,
    deal_parts,
    loss_named,
    reference,
)
from skipring.learning.units import Batches, most_units, parts_stream

Floats = NDArray[np.floating[Any]]


class Noted:
    """Noise of zero, of which only the deviation is kept."""

    def add(self, vector: NDArray[Any], std: float) -> None:
        self.std = std


def a_row(model: LinearModel, rng: np.random.Generator) -> tuple[Floats, NDArray[Any]]:
    x = rng.standard_normal((1, model.features))
    x *= rng.random() / np.linalg.norm(x)
    y = rng.uniform(-3.0, 3.0, 1) if model.loss == SQUARED else rng.integers(model.classes, size=1)
    return x, y


@pytest.mark.sample(4)
@pytest.mark.parametrize("clip", [0.02, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
def test_a_clipped_row_stays_monotone_and_as_smooth(loss: str, clip: float) -> None:
    """<g(a) - g(b), a - b> is at least |g(a) - g(b)|^2 / smoothness: what makes a step of 2 / smoothness contract."""
    rng = np.random.default_rng(5)
    classes = 4 if loss == "softmax" else 2
    model = LinearModel(loss=loss_named(loss), features=3, diameter=60.0, classes=classes, clip=clip, label_bound=3.0)
    clipped = 0
    for _ in range(4000):
        x, y = a_row(model, rng)
        a = rng.standard_normal(model.parameters) * rng.exponential(8.0)
        b = a + rng.standard_normal(model.parameters) * 10.0 ** rng.uniform(-3, 1)
        g, h = (reference.gradient(model, w, x, y, 1) for w in (a, b))
        assert max(np.linalg.norm(g), np.linalg.norm(h)) <= clip * (1.0 + 1e-12)
        clipped += bool(np.linalg.norm(g) > 0.7 * clip)
        assert (g - h) @ (a - b) >= (g - h) @ (g - h) / model.smoothness - 1e-12
    assert clipped > 100


def _cut_to_length(gradients: Floats, bound: float) -> Floats:
    return gradients * min(1.0, bound / float(np.linalg.norm(gradients)))


def test_cutting_a_softmax_gradient_to_its_length_is_not_monotone() -> None:
    """Scores (0, 12, 10.4) of class 0 and a small step along (-.3, .2, .1): what is cut then goes the wrong way."""
    model = LinearModel(loss=SOFTMAX, features=1, diameter=1e3, classes=3)
    x, y = np.ones((1, 1)), np.zeros(1, int)
    a, d = np.array([0.0, 12.0, 10.4]), np.array([-0.3, 0.2, 0.1])
    naive = [_cut_to_length(reference.gradient(model, w, x, y, 1), 1.0) for w in (a, a + 1e-4 * d)]
    assert (naive[1] - naive[0]) @ d < 0.0
    ours = LinearModel(loss=SOFTMAX, features=1, diameter=1e3, classes=3, clip=1.0)
    kept = [reference.gradient(ours, w, x, y, 1) for w in (a, a + 1e-4 * d)]
    assert (kept[1] - kept[0]) @ d >= 0.0


def test_cutting_the_sum_of_a_persons_rows_is_not_monotone() -> None:
    """Rows (1, 0) and (0, 1) of one person: so each row of a linear model is bounded by itself."""
    model = LinearModel(loss=LOGISTIC, features=2, diameter=1e3)
    x, y = np.eye(2), np.ones(2, int)
    a, d = np.array([0.0, -4.0]), np.array([0.2, 0.8])
    naive = [_cut_to_length(reference.gradient(model, w, x, y, 1), 1.0) for w in (a, a + 1e-3 * d)]
    assert (naive[1] - naive[0]) @ d < 0.0


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(1, 40), st.integers(1, 5), st.integers(0, 2**32 - 1), st.booleans())
def test_parts_hold_every_row_once_whole_persons_and_at_most_a_batch(
    units: int, batch: int, most: int, seed: int, by_person: bool
) -> None:
    rng = np.random.default_rng(seed)
    batch = max(batch, most)
    persons = rng.permutation(np.repeat(np.arange(units), rng.integers(1, most + 1, units)))
    protection = (
        Protection(unit="person", batch=batch, rows_per_person=most)
        if by_person
        else Protection(unit="record", batch=batch)
    )
    parts = deal_parts(len(persons), protection, rng, persons if by_person else None)
    assert sorted(np.concatenate(parts).tolist()) == list(range(len(persons)))
    assert max(map(len, parts)) <= batch
    assert len(parts) == max(1, protection.parts(units if by_person else len(persons)))
    assert most_units(parts, protection, persons) <= protection.units_per_update or not units
    if by_person:
        holders = [set(persons[part].tolist()) for part in parts]
        assert sum(map(len, holders)) == units


def test_replacing_a_persons_rows_moves_nobody_else_to_another_part() -> None:
    """Not even if there are fewer of them, elsewhere in the file."""
    protection = Protection(unit="person", batch=8, rows_per_person=3)
    before = np.array([7, 7, 3, 5, 5, 5, 1, 9, 9, 2])
    after = np.array([7, 7, 3, 1, 9, 9, 2, 5])  # person 5 has one row now, the last one
    found = []
    for persons in (before, after):
        parts = deal_parts(len(persons), protection, parts_stream(1, 2), persons)
        found.append([{int(who) for who in persons[part]} for part in parts])
    assert found[0] == found[1]


def test_a_turn_takes_its_part_whoever_was_skipped_before() -> None:
    protection = Protection(unit="record", batch=4)
    parts = deal_parts(10, protection, np.random.default_rng(1))
    batches = Batches(10, protection, np.random.default_rng(2), parts=parts)
    for turn in (0, 2, 3, 7, 7, 1):
        batches.prepare()
        assert batches.take(turn) is parts[turn % 3]


@pytest.mark.parametrize("rows", [3, 10, 25])
@pytest.mark.parametrize(("unit", "most"), [("record", 1), ("person", 2)])
def test_an_update_divides_by_what_was_agreed_whoever_holds_the_rows(rows: int, unit: Any, most: int) -> None:
    """The sum of clipped gradients over B, and noise of z times what one unit can contribute over B."""
    rng = np.random.default_rng(rows)
    model = LinearModel(loss=LOGISTIC, features=3, diameter=8.0, clip=0.3)
    x = rng.standard_normal((rows, 3))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    y, persons = rng.integers(2, size=rows), np.arange(rows) // most
    protection = Protection(unit=unit, batch=10, rows_per_person=most)
    mine = Rows(x, y, x[:0], y[:0], 2, persons=persons)
    learner = LinearLearner(model, mine, protection=protection, rng=rng, dealt=parts_stream(1, 0))
    parts = deal_parts(rows, protection, parts_stream(1, 0), persons)
    assert learner.parts == len(parts) == {3: 1, 10: 1, 25: 3}[rows]
    w = np.array([0.5, -0.2, 0.1])
    for turn in range(4):
        noted = Noted()
        found = learner.update(w, turn=turn, step_size=0.7, noise_multiplier=2.0, noise=noted)
        part = parts[turn % len(parts)]
        each = [reference.gradient(model, w, x[[row]], y[[row]], 1) for row in part]
        assert max(np.linalg.norm(one) for one in each) <= 0.3 * (1.0 + 1e-12)
        assert found == pytest.approx(w - 0.7 * np.sum(each, axis=0) / 10, abs=1e-12)
        assert noted.std == pytest.approx(2.0 * 0.3 * most / 10)


def test_a_network_clips_a_person_and_a_linear_model_each_row() -> None:
    persons = Protection(unit="person", batch=50, rows_per_person=5)
    assert persons.contribution(LinearModel(loss=LOGISTIC, features=3, diameter=8.0)) == 5.0
    assert persons.contribution(NeuralModel(features=784, clip=2.0)) == 2.0
    assert Protection(unit="node").noise_std(NeuralModel(features=784, clip=2.0), 3.0) == 6.0


@pytest.mark.parametrize(
    ("given", "parameter"),
    [
        ({"unit": "record"}, "batch"),
        ({"unit": "household"}, "protects"),
        ({"unit": "record", "batch": 0}, "batch"),
        ({"unit": "record", "batch": 5, "rows_per_person": 2}, "rows_per_person"),
        ({"unit": "person", "batch": 5, "rows_per_person": 6}, "batch"),
        ({"unit": "person", "batch": 5, "rows_per_person": 0}, "rows_per_person"),
    ],
)
def test_impossible_protections_are_refused(given: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Protection(**given)
    assert refusal.value.parameter == parameter


def test_persons_with_too_many_rows_or_none_at_all_are_refused() -> None:
    protection = Protection(unit="person", batch=5, rows_per_person=2)
    with pytest.raises(InvalidInput, match="at least 3"):
        deal_parts(4, protection, np.random.default_rng(1), np.array([1, 1, 2, 1]))
    with pytest.raises(InvalidInput, match="whose it is"):
        deal_parts(4, protection, np.random.default_rng(1))
