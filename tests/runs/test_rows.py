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
