"""The rows of a run: those that are trained on, and those that a model is judged by."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest

from skipring.data import load_dataset
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


@pytest.mark.parametrize("name", ["breast-cancer", "digits", "hospitals"])
@pytest.mark.parametrize("model", ["model.name=softmax", "model.features=random-fourier:20"])
def test_in_laps_no_row_moves_another(name: str, model: str) -> None:
    """Scales come from public ranges; the walk, and who asks for it, read them off all rows."""
    dataset = load_dataset(name)
    features = dataset.features.copy()
    features[7:10] = 1e6  # one of them at least is trained on
    other = dataclasses.replace(dataset, features=features)
    for changes, alone in (([], True), (["data.standardise=true"], False), (["schedule.name=ring"], False)):
        run = with_changes(None, [f"data.name={name}", model, *changes])
        one, two = (dealt_rows(run, each)[1] for each in (dataset, other))
        same = np.concatenate([(a == b).all(axis=1) for a, b in ((one.train_x, two.train_x), (one.test_x, two.test_x))])
        assert (int((~same).sum()) == 3) == alone


def test_in_laps_features_are_scaled_by_published_ranges_one_row_at_a_time() -> None:
    dataset = load_dataset("breast-cancer")
    assert dataset.ranges is not None
    _, found, _ = dealt_rows(with_changes(None, []), dataset)
    assert not found.scaling.standardise
    low, high = dataset.ranges
    for values, row in zip(dataset.features[:20], found.scaling.apply(dataset.features[:20]), strict=True):
        wanted = [2.0 * (x - a) / (b - a) - 1.0 for x, a, b in zip(values, low, high, strict=True)]
        np.testing.assert_allclose(row, np.array(wanted) / math.hypot(*wanted), rtol=1e-12)
    for asked in ("data.standardise=false", "schedule.name=ring"):  # as ever
        _, plain, _ = dealt_rows(with_changes(None, [asked]), dataset)
        assert plain.scaling.ranges is None
    _, pixels, _ = dealt_rows(with_changes(None, ["data.name=digits", "model.features=scattering"]))
    assert pixels.scaling.centre.tolist() == [0.0] * 64


@pytest.mark.parametrize("share", [0, 1, -0.5])
def test_a_share_that_leaves_nothing_is_refused_by_its_key(share: float) -> None:
    with pytest.raises(InvalidInput, match=rf"data.validation = {share:.1f}: must be above 0 and below 1"):
        dealt_rows(with_changes(None, [f"data.validation={share}"]))


def test_the_constants_share_of_a_row_is_the_run_files() -> None:
    _, found, _ = dealt_rows(with_changes(None, ["model.intercept=true", "model.intercept_share=0.2"]))
    np.testing.assert_allclose(found.train_x[:, -1] ** 2, 0.2)
    np.testing.assert_allclose(np.linalg.norm(found.train_x, axis=1), 1.0)
    _, usual, _ = dealt_rows(with_changes(None, ["model.intercept=true"]))
    np.testing.assert_allclose(usual.train_x[:, -1] ** 2, 0.5)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["model.intercept_share=0.2"], "is for linear models with model.intercept = true"),
        (["model.intercept_share=0.2", "model.intercept=true", "model.name=cnn"], "is for linear models"),
        (["model.intercept_share=0", "model.intercept=true"], "must be a finite number above 0 and below 1"),
        (["model.intercept_share=1", "model.intercept=true"], "must be a finite number above 0 and below 1"),
        (["model.intercept_share=0.2", "model.intercept=true", "data.unit_rows=false"], "have no square to share"),
    ],
)
def test_a_share_that_no_constant_can_have_is_refused(changes: list[str], reason: str) -> None:
    with pytest.raises(InvalidInput, match=rf"model.intercept_share = [0-9.]+: .*{reason}"):
        with_changes(None, changes)
