"""From a data set to training and test rows whose size is bounded."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Floats, Ints, to_unit_norm
from ..errors import InvalidInput, require_open_unit
from .features import Encoder, encoded
from .sources import Dataset, first_not_finite

#: Rows as a model sees them: double precision, or single where an encoder made them.
Rows = NDArray[np.floating[Any]]
#: The largest number in single precision.
_MOST_SINGLE = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """Training rows for the nodes and test rows for the evaluation, both scaled in the same way.

    `train_groups` has the node of every training row, `test_groups` that of every test row, and `train_persons` the
    person, if known. `scaling` is how new rows become like them.
    """

    train_x: Rows
    train_y: NDArray[Any]
    test_x: Rows
    test_y: NDArray[Any]
    train_groups: Ints | None
    classes: tuple[str, ...]
    train_persons: Ints | None
    scaling: Scaling
    test_groups: Ints | None


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
    encoder : makes features of the scaled rows, or of rows as they are if it takes pixels; they get norm 1 again.
    ranges : the least and the largest usual value of each feature, which become -1 and 1. They are known without any
        row; features are not standardised then.
    bounded : whether a schema made the rows: they are no longer than 1 already, and are not scaled, whatever is asked.
    """

    standardise: bool = True
    unit_rows: bool = True
    intercept: bool = False
    intercept_share: float = 0.5
    encoder: Encoder | None = None
    ranges: Doubles | None = None
    bounded: bool = False

    @property
    def as_they_are(self) -> bool:
        """Whether rows are not scaled."""
        return self.bounded or (self.encoder is not None and self.encoder.pixels)


@dataclass(frozen=True, eq=False)
class Scaling(Recipe):
    """How columns become what a model sees, learnt from training rows and applied to any others.

    >>> rows = np.array([[1.0, 5.0], [3.0, 5.0]])
    >>> Scaling.learn(rows).apply(rows)
    array([[-1.,  0.],
           [ 1.,  0.]])
    """

    centre: Floats
    scale: Floats

    @classmethod
    def learn(cls, features: Rows, recipe: Recipe | None = None) -> Scaling:
        """Return the scaling that gives each feature of these rows mean 0 and standard deviation 1, if asked to.

        Where there are ranges, no row is looked at.
        """
        asked = recipe or Recipe()
        if asked.ranges is not None and not asked.as_they_are:
            low, high = asked.ranges
            return cls(centre=0.5 * (low + high), scale=0.5 * (high - low), **vars(asked))
        if asked.as_they_are or not asked.standardise:
            return cls(centre=np.zeros(features.shape[1]), scale=np.ones(features.shape[1]), **vars(asked))
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
        return cls(centre=np.where(constant, low, centre), scale=np.where(constant, 1.0, scale), **vars(asked))

    def apply(self, features: Rows, names: Sequence[str] = (), *, keep_features: bool = True) -> Rows:
        """Return scaled rows, all of them finite; the originals stay as they are.

        A refusal calls features by their `names`. Those that an encoder makes are kept in files, if `keep_features`.
        """
        rows: Rows = features if self.as_they_are else self._scaled(features, names)
        unit_rows = self.unit_rows or self.bounded
        if self.encoder is not None:
            rows = encoded(self.encoder, rows, unit_rows=unit_rows, keep=keep_features)
        if not self.intercept:
            return rows
        # Rows of norm 1 stay rows of norm 1: the features and the constant share the square.
        share = self.intercept_share
        room = (math.sqrt(1.0 - share), math.sqrt(share)) if unit_rows else (1.0, 1.0)
        factor, constant = map(rows.dtype.type, room)
        return np.column_stack([rows * factor, np.full(len(rows), constant)])

    def _scaled(self, features: Rows, names: Sequence[str]) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            rows = features - self.centre
            rows /= self.scale
            bad = first_not_finite(rows)
            if bad:
                # Numbers of opposite signs can be further apart than a double holds; their halves never are.
                rows = (0.5 * features - 0.5 * self.centre) / self.scale * 2.0
                bad = first_not_finite(rows)
        if bad:
            row, column = bad
            name = repr(names[column]) if names else f"feature {column + 1}"
            given = f"{features[bad]} ({name} of row {row + 1})"
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
    scaling = Scaling.learn(dataset.features[train], recipe)
    # All at once: the file in which features are kept then does not depend on which rows are test rows.
    rows = scaling.apply(dataset.features, dataset.feature_names, keep_features=keep_features)
    return PreparedRows(
        train_x=_taken(rows, train),
        train_y=train_y,
        test_x=_taken(rows, test),
        test_y=dataset.labels[test],
        train_groups=None if dataset.groups is None else dataset.groups[train],
        classes=dataset.classes,
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


def require_unit_rows(rows: NDArray[Any], what: str) -> None:
    """Refuse rows of the `what` data that are not finite, or longer than 1, which bounds of linear models rest on."""
    rows = _finite(rows, what)
    with np.errstate(over="ignore"):
        # In single precision the sum of thousands of squares is too inexact to tell whether it is above 1.
        longest = float(np.einsum("ij,ij->i", rows, rows, dtype=np.float64).max(initial=0.0))
    if longest > 1.0 + 1e-9:
        reason = f"rows of the {what} data have norms above 1, which the model's bounds rest on"
        raise InvalidInput.because("unit_rows", False, reason)


def require_single_precision(rows: NDArray[Any], what: str) -> None:
    """Refuse rows of the `what` data that are not finite in single precision, in which networks compute."""
    rows = _finite(rows, what)
    largest = float(max(rows.max(initial=0.0), -rows.min(initial=0.0)))
    if largest > _MOST_SINGLE:
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


def _finite(rows: NDArray[Any], what: str) -> NDArray[Any]:
    """Return rows in a precision in which a norm can be trusted; refuse what is no array of finite numbers."""
    if rows.dtype.kind not in "biuf":
        raise InvalidInput("features", f"{rows.dtype} in the {what} data", "numbers")
    if bad := first_not_finite(rows):
        raise InvalidInput("features", f"{rows[bad]} (feature {bad[1] + 1} of the {what} data)", "finite numbers")
    return rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)


def _test_rows(dataset: Dataset, rng: np.random.Generator, test_share: float) -> NDArray[np.bool_]:
    """Return which rows are for testing. Whole persons are drawn: who is known from training rows is no test."""
    require_open_unit("test_share", test_share)
    if dataset.test_rows is not None:
        return dataset.test_rows
    units = np.arange(len(dataset.features)) if dataset.persons is None else dataset.persons
    drawn = rng.permutation(np.flatnonzero(np.bincount(units)))
    count = min(max(round(test_share * len(drawn)), 1), len(drawn) - 1)
    if dataset.groups is not None:
        # The first one drawn from each node stays with it: a node without training rows could not take part.
        node_of = np.empty(int(units.max()) + 1, np.int64)
        node_of[units] = dataset.groups
        _, first = np.unique(node_of[drawn], return_index=True)
        drawn = np.delete(drawn, first)
        if count > len(drawn):
            what = "rows" if dataset.persons is None else "persons"
            reason = f"that is {count} {what}, but only {len(drawn)} can go: every node needs training rows"
            raise InvalidInput.because("test_share", test_share, reason)
    for_testing = np.zeros(int(units.max()) + 1, bool)
    for_testing[drawn[:count]] = True
    return for_testing[units]
