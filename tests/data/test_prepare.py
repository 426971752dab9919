"""Preparation: what the test rows must not tell the training rows, and how long a row may be."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from skipring.data import (
    Dataset,
    PreparedRows,
    Recipe,
    Scaling,
    load_dataset,
    prepare,
    require_finite_labels,
    require_single_precision,
    require_unit_rows,
    training_part,
)
from skipring.errors import InvalidInput

CANCER = load_dataset("breast-cancer")


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


def small(rows: int, **changed: Any) -> Dataset:
    features = rng().normal(size=(rows, 3))
    parts: dict[str, Any] = {"labels": np.arange(rows) % 2, "classes": ("no", "yes"), "feature_names": ("a", "b", "c")}
    return Dataset(name="small", features=features, **{**parts, **changed})


def test_a_fifth_of_the_rows_is_for_testing_and_no_row_is_lost() -> None:
    untouched = prepare(CANCER, rng(), Recipe(standardise=False, unit_rows=False))
    assert (len(untouched.train_x), len(untouched.test_x)) == (455, 114)
    together = np.vstack([untouched.train_x, untouched.test_x])
    assert sorted(map(tuple, together)) == sorted(map(tuple, CANCER.features))
    labels = {tuple(row): label for row, label in zip(CANCER.features, CANCER.labels, strict=True)}
    assert all(labels[tuple(row)] == label for row, label in zip(untouched.test_x, untouched.test_y, strict=True))
    assert all(labels[tuple(row)] == label for row, label in zip(untouched.train_x, untouched.train_y, strict=True))


def test_the_same_generator_gives_the_same_division() -> None:
    one, same, other = prepare(CANCER, rng(3)), prepare(CANCER, rng(3)), prepare(CANCER, rng(4))
    np.testing.assert_array_equal(one.train_x, same.train_x)
    np.testing.assert_array_equal(one.test_y, same.test_y)
    assert not np.array_equal(one.train_x, other.train_x)


def test_statistics_come_from_the_training_rows_only() -> None:
    prepared = prepare(CANCER, rng(), Recipe(unit_rows=False))
    np.testing.assert_allclose(prepared.train_x.mean(axis=0), 0.0, atol=1e-12)
    np.testing.assert_allclose(prepared.train_x.std(axis=0), 1.0, rtol=1e-12)
    # Change every test row, and the training rows must not notice.
    raw = prepare(CANCER, rng(), Recipe(standardise=False, unit_rows=False))
    seen = {tuple(row) for row in raw.test_x}
    test = np.array([tuple(row) in seen for row in CANCER.features])
    features = np.where(test[:, None], CANCER.features * 100.0 + 7.0, CANCER.features)
    changed = prepare(dataclasses.replace(CANCER, features=features), rng(), Recipe(unit_rows=False))
    np.testing.assert_array_equal(changed.train_x, prepared.train_x)
    assert not np.allclose(changed.test_x, prepared.test_x)


def test_rows_get_norm_one_as_a_plain_loop_would_scale_them() -> None:
    prepared = prepare(CANCER, rng())
    raw = prepare(CANCER, rng(), Recipe(standardise=False, unit_rows=False))
    mean, deviation = raw.train_x.mean(axis=0), raw.train_x.std(axis=0)
    for row, expected in zip(prepared.test_x, raw.test_x, strict=True):
        standard = (expected - mean) / deviation
        np.testing.assert_allclose(row, standard / np.linalg.norm(standard), rtol=1e-9)
    for rows in (prepared.train_x, prepared.test_x):
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1.0, rtol=1e-14)


def test_the_intercept_is_part_of_the_row_that_is_bounded() -> None:
    without, prepared = prepare(CANCER, rng()), prepare(CANCER, rng(), Recipe(intercept=True))
    assert prepared.scaling.intercept
    assert not without.scaling.intercept
    np.testing.assert_array_equal(prepared.train_x[:, -1], np.sqrt(0.5))
    np.testing.assert_allclose(prepared.train_x[:, :-1], without.train_x * np.sqrt(0.5))
    np.testing.assert_allclose(np.linalg.norm(prepared.test_x, axis=1), 1.0, rtol=1e-14)
    free = prepare(CANCER, rng(), Recipe(intercept=True, unit_rows=False))
    assert (free.train_x[:, -1] == 1.0).all()


def test_the_constant_gets_as_much_of_a_rows_square_as_it_is_given() -> None:
    without, prepared = prepare(CANCER, rng()), prepare(CANCER, rng(), Recipe(intercept=True, intercept_share=0.1))
    np.testing.assert_allclose(prepared.train_x[:, -1] ** 2, 0.1, rtol=1e-14)
    np.testing.assert_allclose(prepared.train_x[:, :-1], without.train_x * np.sqrt(0.9))
    np.testing.assert_allclose(np.linalg.norm(prepared.test_x, axis=1), 1.0, rtol=1e-14)
    assert prepared.scaling is not None
    assert prepared.scaling.intercept_share == 0.1
    # The same where rows are taken as they are.
    raw = prepare(CANCER, rng(), Recipe(intercept=True, intercept_share=0.1, standardise=False))
    np.testing.assert_allclose(raw.train_x[:, -1] ** 2, 0.1, rtol=1e-14)


def test_constant_features_become_zero_even_where_rounding_gives_them_a_deviation() -> None:
    features = np.column_stack([np.full(1000, 0.1), rng().normal(size=1000)])
    assert features[:, 0].std() != 0.0  # the trap
    scaled = Scaling.learn(features, Recipe(unit_rows=False)).apply(features)
    assert (scaled[:, 0] == 0.0).all()
    # A new row may differ there, and then by what it differs.
    np.testing.assert_allclose(
        Scaling.learn(features, Recipe(unit_rows=False)).apply(np.array([[2.1, 0.0]]))[0, 0], 2.0
    )


def test_a_row_of_zeros_stays_one() -> None:
    scaling = Scaling.learn(np.eye(3), Recipe(standardise=False))
    assert scaling.apply(np.zeros((1, 3))).tolist() == [[0.0, 0.0, 0.0]]


extremes = st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from(
    [0.0, 1e-300, 1e300, 1.0, 1e308, -1e308, 1.7976931348623157e308, -1.7976931348623157e308]
)


@settings(max_examples=200, deadline=None)
@given(
    features=arrays(np.float64, (4, 3), elements=extremes),
    standardise=st.booleans(),
    intercept=st.booleans(),
    share=st.floats(1e-6, 1.0 - 1e-6),
)
def test_whatever_the_values_rows_are_finite_and_of_norm_at_most_one(
    features: np.ndarray, standardise: bool, intercept: bool, share: float
) -> None:
    scaling = Scaling.learn(features[:3], Recipe(standardise=standardise, intercept=intercept, intercept_share=share))
    rows = scaling.apply(features[:3])
    assert np.isfinite(rows).all()
    assert (np.linalg.norm(rows, axis=1) <= 1.0 + 1e-12).all()


def test_features_further_apart_than_a_double_holds_are_scaled_as_in_other_units() -> None:
    ordinary = rng().uniform(-1.7, 1.7, size=(40, 3))
    ordinary[:2] = [[1.7] * 3, [-1.7] * 3]
    features = ordinary * 1e308
    with np.errstate(over="ignore"):
        assert np.isinf(features[0] - features[1]).all()  # the trap
    scaled, expected = (Scaling.learn(rows).apply(rows) for rows in (features, ordinary))
    np.testing.assert_allclose(scaled, expected, rtol=1e-12, atol=1e-12)


def test_rows_that_cannot_be_scaled_are_refused_by_row_and_feature() -> None:
    """Training rows 1e-200 apart, and a test row that is 1e200 deviations and more away from them."""
    features = rng().normal(size=(10, 3)) * [1.0, 1e-200, 1.0]
    features[8, 1] = 1e150
    dataset = dataclasses.replace(small(10, test_rows=np.arange(10) >= 7), features=features)
    for unit_rows in (True, False):
        with pytest.raises(
            InvalidInput, match=r"^features = 1e\+150 \('b' of row 9\): is so far from the training rows"
        ):
            prepare(dataset, rng(), Recipe(unit_rows=unit_rows))
    with pytest.raises(InvalidInput, match=r"^features = 1e\+150 \(feature 2 of row 2\): is so far"):
        Scaling.learn(features[:7]).apply(features[7:])
    for worth in (np.nan, np.inf):
        with pytest.raises(InvalidInput, match=rf"^features = {worth} \(feature 1 of row 1\): must be finite"):
            Scaling.learn(features[:7]).apply(np.array([[worth, 0.0, 0.0]]))


@pytest.mark.parametrize("worth", [np.nan, np.inf, -np.inf])
def test_what_is_not_a_number_passes_no_check(worth: float) -> None:
    rows = np.full((4, 2), 0.5)
    rows[2, 1] = worth
    for check in (require_unit_rows, require_single_precision):
        check(rows[:2], "test")
        with pytest.raises(InvalidInput, match=rf"^features = {worth} \(feature 2 of the test data\): must be finite"):
            check(rows, "test")
    require_finite_labels(rows[:2, 1], "test")
    with pytest.raises(InvalidInput, match=rf"^labels = {abs(worth)} in the test data: must be finite numbers"):
        require_finite_labels(rows[:, 1], "test")


def test_what_is_too_large_passes_no_check() -> None:
    for rows in (np.array([[0.8, 0.8]]), np.array([[1e308, -1e308]])):
        with pytest.raises(InvalidInput, match=r"^unit_rows = False: rows of the training data have norms above 1"):
            require_unit_rows(rows, "training")
    require_single_precision(np.array([[3e38, -3e38]]), "training")
    for worth in (4e38, -1e300):
        with pytest.raises(InvalidInput, match=r"^features = .* in the training data: must be at most 3.40282e\+38"):
            require_single_precision(np.array([[0.0, worth]]), "training")
    require_finite_labels(np.array([2.0, -3.0]), "training", 3.0)
    with pytest.raises(InvalidInput, match=r"^labels = 3.5 in the training data: must be at most 3 in absolute value"):
        require_finite_labels(np.array([2.0, -3.5]), "training", 3.0)
    for nothing in (np.empty((0, 2)), np.empty(0)):  # such as test rows that were not asked for
        require_single_precision(nothing, "test")
        require_finite_labels(nothing, "test")
    require_unit_rows(np.empty((0, 2)), "test")


def test_a_published_division_is_kept() -> None:
    test_rows = np.arange(10) >= 7
    dataset = small(10, test_rows=test_rows)
    prepared = prepare(dataset, rng(), Recipe(standardise=False, unit_rows=False), test_share=0.5)
    np.testing.assert_array_equal(prepared.test_x, dataset.features[7:])
    np.testing.assert_array_equal(prepared.train_x, dataset.features[:7])


@pytest.mark.parametrize("seed", range(20))
def test_every_node_keeps_a_row_for_training(seed: int) -> None:
    groups = np.append(np.repeat(np.arange(10), 2), np.full(20, 10))
    dataset = small(40, groups=groups, group_names=tuple("abcdefghijk"))
    prepared = prepare(dataset, rng(seed), test_share=0.5)
    assert prepared.train_groups is not None
    assert len(prepared.train_x) == len(prepared.train_groups) == 20
    assert (np.bincount(prepared.train_groups, minlength=11) > 0).all()


def test_amounts_stay_amounts() -> None:
    dataset = small(50, labels=rng().normal(size=50), classes=())
    prepared = prepare(dataset, rng())
    assert isinstance(prepared, PreparedRows)
    assert prepared.classes == ()
    assert prepared.train_y.dtype == np.float64
    assert sorted([*prepared.train_y, *prepared.test_y]) == sorted(dataset.labels)


def test_divisions_that_cannot_be_are_refused() -> None:
    for share in (0.0, 1.0, -0.1, float("nan")):
        with pytest.raises(InvalidInput, match=f"test_share = {share}: must be above 0 and below 1"):
            prepare(CANCER, rng(), test_share=share)
    alone = small(4, groups=np.arange(4), group_names=tuple("abcd"))
    with pytest.raises(InvalidInput, match=r"test_share = 0.2: that is 1 rows, but only 0 can go"):
        prepare(alone, rng())
    with pytest.raises(InvalidInput, match=r"test_share = 0.9: the training rows all belong to the class"):
        prepare(small(2), rng(), test_share=0.9)


@pytest.mark.parametrize("kind", ["random", "published", "persons"])
def test_the_training_part_is_what_would_be_trained_on(kind: str) -> None:
    marks: dict[str, Any] = {
        "random": {},
        "published": {"test_rows": np.arange(30) % 3 == 0},
        "persons": {"persons": np.arange(30) // 2, "person_names": tuple(map(str, range(15)))},
    }[kind]
    dataset = small(30, groups=np.arange(30) // 10, group_names=("a", "b", "c"), **marks)
    plain = prepare(dataset, rng(), Recipe(standardise=False, unit_rows=False))
    part = training_part(dataset, rng())
    np.testing.assert_array_equal(part.features, plain.train_x)
    np.testing.assert_array_equal(part.labels, plain.train_y)
    np.testing.assert_array_equal(part.groups, plain.train_groups)
    assert part.test_rows is None
    # Parameters are chosen on rows of it, whole persons again; no test row is among them.
    chosen = prepare(part, rng(), Recipe(standardise=False, unit_rows=False), test_share=0.25)
    rows = np.concatenate([chosen.train_x, chosen.test_x])
    assert sorted(map(tuple, rows)) == sorted(map(tuple, plain.train_x))
    if kind == "persons":
        assert chosen.train_persons is not None
        assert len(chosen.test_x) == 6
        assert len(set(chosen.train_persons)) == 9
