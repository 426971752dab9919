"""From a data set to training and test rows whose size is bounded."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats, Ints
from ..errors import InvalidInput, require_open_unit
from ._norms import to_unit_norm
from .features import Encoder, encoded
from .sources import Dataset, first_not_finite

#: Rows as a model sees them: double precision, or single where an encoder made them.
Rows = NDArray[np.floating[Any]]
#: The largest number in single precision.
_MOST_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Training rows for the nodes and test rows for the evaluation, both scaled in the same way.

    With `intercept` the last column is constant. `train_groups` has the node of every training row, `test_groups` that
    of every test row, and `train_persons` the person, if known. `scaling` is how new rows become like them.
    """

    train_x: Rows
    train_y: NDArray[Any]
    test_x: Rows
    test_y: NDArray[Any]
    train_groups: Ints | None
    classes: tuple[str, ...]
    intercept: bool
    train_persons: Ints | None = None
    scaling: Scaling | None = None
    test_groups: Ints | None = None


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What becomes of rows before a model sees them.

    Parameters
    ----------
    standardise : whether every feature gets mean 0 and standard deviation 1.
    unit_rows : whether every row then gets norm 1 (a row of zeros stays one), which bounds what a single row can
        contribute to a gradient.
    intercept, intercept_share : whether a constant column is appended. With `unit_rows` the row including it has norm
        1, and at most 1 for a row of zeros, and the constant gets this share of its square.
    encoder : makes features of the scaled rows, or of rows as they are if it takes pixels.
    bounded : whether a schema made the rows: they are not scaled any more, whatever is asked.
    """

    standardise: bool = True
    unit_rows: bool = True
    intercept: bool = False
    intercept_share: float = 0.5
    encoder: Encoder | None = None
    bounded: bool = False


@dataclass(frozen=True, eq=False)
class Scaling:
    """How columns become what a model sees, learnt from training rows and applied to any others.

    With an `encoder`, rows are scaled, unless it takes them as they are, and its features are scaled to norm 1 again.
    Rows that are `bounded`, by a schema, are no longer than 1 already, and stay as they are. The constant of an
    `intercept` gets `intercept_share` of the square of such rows, and the features the rest.

    >>> rows = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> Scaling.learn(rows).apply(rows)
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    centre: Floats
    scale: Floats
    unit_rows: bool = True
    intercept: bool = False
    encoder: Encoder | None = None
    bounded: bool = False
    intercept_share: float = 0.5

    @classmethod
    def learn(cls, features: Rows, recipe: Recipe | None = None) -> Scaling:
        """Return the scaling that gives each feature of these rows mean 0 and standard deviation 1, if asked to."""
        columns, asked = features.shape[1], recipe or Recipe()
        encoder, bounded = asked.encoder, asked.bounded
        if bounded or not asked.standardise or (encoder is not None and encoder.pixels):
            nothing, one, to_norm = np.zeros(columns), np.ones(columns), asked.unit_rows and not bounded
            return cls(nothing, one, to_norm, asked.intercept, encoder, bounded, asked.intercept_share)
        low, high = features.min(axis=0), features.max(axis=0)
        size = np.maximum(np.abs(low), np.abs(high))
        # Squares of extreme values would overflow or vanish: such features are measured in units of their size.
        unit = np.where((size > 1e100) | ((size < 1e-100) & (size > 0.0)), size, 1.0)
        scaled = features if (unit == 1.0).all() else features / unit
        deviation = scaled.std(axis=0)
        # In units of a feature's size no deviation is above 1; rounding up, times that size, would overflow.
        deviation = np.where(unit == 1.0, deviation, np.minimum(deviation, 1.0))
        centre, scale = scaled.mean(axis=0) * unit, deviation * unit
        # Rounding gives a constant feature a tiny deviation, by which one must not divide.
        constant = (low == high) | (scale == 0.0)
        centre, scale = np.where(constant, low, centre), np.where(constant, 1.0, scale)
        share = asked.intercept_share
        return cls(centre, scale, asked.unit_rows, asked.intercept, encoder, intercept_share=share)

    def apply(self, features: Rows) -> Rows:
        """Return scaled rows, all of them finite; the originals stay as they are."""
        return self._applied(features, lambda row, column: f"feature {column + 1} of row {row + 1}")

    def _applied(self, features: Rows, place: Callable[[int, int], str], keep: bool = True) -> Rows:
        """Return what a model sees of rows; `place` says what a value is called, given its row and column.

        Without `keep`, no features are kept in files.
        """
        encoder = self.encoder
        as_they_are = self.bounded or (encoder is not None and encoder.pixels)
        rows: Rows = features if as_they_are else self._scaled(features, place)
        if encoder is not None:
            rows = encoded(encoder, rows, unit_rows=self.unit_rows or self.bounded, keep=keep)
        if not self.intercept:
            return rows
        # Rows of norm 1 stay rows of norm 1: the features and the constant share the square.
        share = self.intercept_share
        room = (math.sqrt(1.0 - share), math.sqrt(share)) if self.unit_rows or self.bounded else (1.0, 1.0)
        factor, constant = map(rows.dtype.type, room)
        return np.column_stack([rows * factor, np.full(len(rows), constant)])

    def _scaled(self, features: Rows, place: Callable[[int, int], str]) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = features - self.centre
            rows /= self.scale
            bad = first_not_finite(rows)
            if bad:
                # Numbers of opposite signs can be further apart than a double holds; their halves never are.
                rows = (0.5 * features - 0.5 * self.centre) / self.scale * 2.0
                bad = first_not_finite(rows)
        if bad:
            given = f"{features[bad]} ({place(*bad)})"
            if not np.isfinite(features[bad]):
                raise InvalidInput("features", given, "finite numbers")
            reason = "is so far from the training rows that it has no finite scale; leave it out, or do not standardise"
            raise InvalidInput.because("features", given, reason)
        if self.unit_rows:
            to_unit_norm(rows)
        return rows


def prepare(
    dataset: Dataset,
    rng: np.random.Generator,
    recipe: Recipe | None = None,
    *,
    test_share: float = 0.2,
    keep_features: bool = True,
) -> PreparedRows:
    """Set test rows aside at random and scale all rows by what the training rows look like.

    Rows that belong to nodes are drawn such that every node keeps one for training, and all rows of a person are either
    for training or for testing. A data set that comes with its own test rows keeps them. Features that take a while are
    kept in files, unless `keep_features` is False.

    >>> from skipring.data import load_dataset
    >>> prepared = prepare(load_dataset("breast-cancer"), np.random.default_rng(1))
    >>> prepared.train_x.shape, prepared.test_x.shape
    ((455, 30), (114, 30))
    """
    test = _test_rows(dataset, rng, test_share)
    train = ~test
    train_y = dataset.labels[train]
    if dataset.classes and train_y.min() == train_y.max():
        only = dataset.classes[int(train_y[0])]
        reason = f"the training rows all belong to the class {only!r}; use a smaller test share or more data"
        raise InvalidInput.because("test_share", test_share, reason)
    features = dataset.features[train]
    scaling = Scaling.learn(features, recipe)

    def scaled(rows: Rows, numbers: NDArray[np.intp]) -> Rows:
        def place(row: int, column: int) -> str:
            return f"{dataset.feature_names[column]!r} of row {numbers[row] + 1}"

        return scaling._applied(rows, place, keep_features)

    if scaling.encoder is None:
        train_x, test_x = scaled(features, train.nonzero()[0]), scaled(dataset.features[test], test.nonzero()[0])
    else:
        # All at once: the file in which features are kept then does not depend on which rows are test rows.
        rows = scaled(dataset.features, np.arange(len(train)))
        train_x, test_x = _taken(rows, train), _taken(rows, test)
    return PreparedRows(
        train_x=train_x,
        train_y=train_y,
        test_x=test_x,
        test_y=dataset.labels[test],
        train_groups=None if dataset.groups is None else dataset.groups[train],
        classes=dataset.classes,
        intercept=scaling.intercept,
        train_persons=None if dataset.persons is None else dataset.persons[train],
        scaling=scaling,
        test_groups=None if dataset.groups is None else dataset.groups[test],
    )


def training_part(dataset: Dataset, rng: np.random.Generator, *, test_share: float = 0.2) -> Dataset:
    """Return the rows that `prepare` would train on: parameters are chosen on a part of them, not on test rows.

    >>> from skipring.data import load_dataset
    >>> len(training_part(load_dataset("breast-cancer"), np.random.default_rng(1)).features)
    455
    """
    return dataset.part(~_test_rows(dataset, rng, test_share))


def _test_rows(dataset: Dataset, rng: np.random.Generator, test_share: float) -> NDArray[np.bool_]:
    require_open_unit("test_share", test_share)
    return _draw_test_rows(dataset, rng, test_share) if dataset.test_rows is None else dataset.test_rows


def require_unit_rows(rows: NDArray[Any], what: str) -> None:
    """Refuse rows of the `what` data that are not finite, or longer than 1, which bounds of linear models rest on."""
    rows = _as_floats(rows, what)
    with np.errstate(over="ignore", invalid="ignore"):
        # In single precision the sum of thousands of squares is too inexact to tell whether it is above 1.
        longest = float(np.einsum("ij,ij->i", rows, rows, dtype=np.float64).max(initial=0.0))
    # Asked in this way, since a row that is not a number is not above 1 either.
    if longest <= 1.0 + 1e-9:
        return
    _require_finite_rows(rows, what)
    reason = f"rows of the {what} data have norms above 1, which the model's bounds rest on"
    raise InvalidInput.because("unit_rows", False, reason)


def require_single_precision(rows: NDArray[Any], what: str) -> None:
    """Refuse rows of the `what` data that are not finite in single precision, in which networks compute."""
    rows = _as_floats(rows, what)
    if rows.min(initial=0.0) >= -_MOST_SINGLE and rows.max(initial=0.0) <= _MOST_SINGLE:
        return
    _require_finite_rows(rows, what)
    largest = float(np.abs(rows).max())
    raise InvalidInput("features", f"{largest:g} in the {what} data", f"at most {_MOST_SINGLE:g}: more overflows")


def require_finite_labels(labels: NDArray[Any], what: str, most: float = math.inf) -> None:
    """Refuse labels of the `what` data that are not finite, or above `most` in absolute value."""
    largest = float(np.abs(np.asarray(labels, np.float64)).max(initial=0.0))
    if not math.isfinite(largest):
        raise InvalidInput("labels", f"{largest} in the {what} data", "finite numbers")
    if not largest <= most:
        raise InvalidInput("labels", f"{largest:g} in the {what} data", f"at most {most:g} in absolute value")


def _taken(rows: Rows, chosen: NDArray[np.bool_]) -> Rows:
    """Return the chosen rows, without a copy if they are neighbours."""
    first, count = int(chosen.argmax()), int(chosen.sum())
    return rows[first : first + count] if chosen[first : first + count].all() else rows[chosen]


def _as_floats(rows: NDArray[Any], what: str) -> NDArray[Any]:
    """Return rows in a precision in which a norm can be trusted; refuse what is no array of numbers."""
    if rows.dtype.kind not in "biuf":
        raise InvalidInput("features", f"{rows.dtype} in the {what} data", "numbers")
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _require_finite_rows(rows: NDArray[Any], what: str) -> None:
    if bad := first_not_finite(rows):
        raise InvalidInput("features", f"{rows[bad]} (feature {bad[1] + 1} of the {what} data)", "finite numbers")


def _draw_test_rows(dataset: Dataset, rng: np.random.Generator, test_share: float) -> NDArray[np.bool_]:
    if dataset.persons is not None:
        return _draw_test_persons(dataset, dataset.persons, rng, test_share)
    rows = len(dataset.features)
    count = min(max(round(test_share * rows), 1), rows - 1)
    drawn = rng.permutation(rows)
    if dataset.groups is not None:
        # The first row drawn from each node stays with it: a node without training rows could not take part.
        _, first = np.unique(dataset.groups[drawn], return_index=True)
        drawn = np.delete(drawn, first)
        if count > len(drawn):
            reason = f"that is {count} rows, but only {len(drawn)} can go without leaving a node without training rows"
            raise InvalidInput.because("test_share", test_share, reason)
    test = np.zeros(rows, dtype=bool)
    test[drawn[:count]] = True
    return test


def _draw_test_persons(
    dataset: Dataset, persons: Ints, rng: np.random.Generator, test_share: float
) -> NDArray[np.bool_]:
    """Put whole persons aside: who is known from training rows is no test."""
    drawn = rng.permutation(np.unique(persons))
    count = min(max(round(test_share * len(drawn)), 1), len(drawn) - 1)
    if dataset.groups is not None:
        # The first person drawn from each node stays with it.
        node_of = np.empty(int(persons.max()) + 1, np.int64)
        node_of[persons] = dataset.groups
        _, first = np.unique(node_of[drawn], return_index=True)
        drawn = np.delete(drawn, first)
        if count > len(drawn):
            reason = f"that is {count} persons, but only {len(drawn)} can go: every node needs training rows"
            raise InvalidInput.because("test_share", test_share, reason)
    test: NDArray[np.bool_] = np.isin(persons, drawn[:count])
    return test
