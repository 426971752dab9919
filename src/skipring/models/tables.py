"""Predictions for tables of any size: read, predicted and written a block of rows at a time."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._writing import whole_file
from ..data import SchemaRows, rows_of_file
from ..errors import InvalidInput
from .trained import TrainedModel, chosen, log_shares

_ROWS = 1 << 14


@dataclass(frozen=True, kw_only=True)
class Metrics:
    """How good predictions are, beside a guess that looks at no column; what does not apply is None.

    `accuracy` and `log_loss` are for classes; the guess is the commonest class of these rows, and the shares of all.
    `rmse` is the root of the mean squared error of numbers; the guess is the mean of these rows.
    """

    accuracy: float | None = None
    log_loss: float | None = None
    rmse: float | None = None
    guessed_accuracy: float | None = None
    guessed_log_loss: float | None = None
    guessed_rmse: float | None = None


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What became of a table: how many rows were predicted, and how well, where the table has the label.

    `blank_label` is the label's column if it is there, and has no value in any row; there are no metrics then.
    """

    rows: int
    metrics: Metrics | None = None
    blank_label: str | None = None


def predict_file(model: TrainedModel, path: str | Path, out: str | Path) -> Prediction:
    """Write what a model predicts for each row of a CSV or Parquet file, in their order; say how good that is.

    `out` is a CSV file: the person of each row, if the table says so, and the prediction. For classes it has the
    probability of each (the score, where a model has no probabilities). It is there as a whole or not at all.
    """
    judge, blank = _Judge(model), False
    try:
        with whole_file(out) as whole, TextIOWrapper(whole, encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            for block in _small_blocks(path, model):
                scores = model.scores(block.features)
                if judge.rows == 0:
                    writer.writerow(_header(model, block))
                writer.writerows(_lines(model, block, scores))
                judge.saw(scores, block.labels)
                blank |= block.blank_label
            if judge.rows == 0:
                raise InvalidInput.because("path", path, "has no rows")
    except OSError as error:
        raise InvalidInput.because("out", out, f"cannot be written: {error.strerror}") from None
    label = model.inputs.table.label
    return Prediction(
        rows=judge.rows, metrics=judge.metrics(), blank_label=label.name if blank and label is not None else None
    )


def _small_blocks(path: str | Path, model: TrainedModel) -> Iterator[SchemaRows]:
    """Yield the rows of a file, so few at a time that thousands of public features of each fit into memory."""
    for block in rows_of_file(path, model.inputs.table, labelled=False):
        for low in range(0, len(block.features), _ROWS):
            part = slice(low, low + _ROWS)
            labels, persons, nodes = (None if each is None else each[part] for each in block[1:4])
            yield SchemaRows(block.features[part], labels, persons, nodes, block.blank_label)


def _header(model: TrainedModel, block: SchemaRows) -> list[str]:
    who = model.inputs.table.person
    names = ["prediction"] if block.persons is None or who is None else [who.name, "prediction"]
    if model.has_probabilities:
        return [*names, *(f"probability of {name}" for name in model.classes)]
    return [*names, "score"] if len(model.classes) else names


def _lines(model: TrainedModel, block: SchemaRows, scores: NDArray[Any]) -> Any:
    columns: list[Any] = [] if block.persons is None else [block.persons.tolist()]
    if not len(model.classes):
        return zip(*columns, _digits(model.amounts(scores)), strict=True)
    columns.append(model.classes[chosen(scores)].tolist())
    beside = np.exp(log_shares(scores)) if model.has_probabilities else scores.reshape(len(scores), -1)
    return zip(*columns, *map(_digits, beside.T), strict=True)


def _digits(numbers: NDArray[Any]) -> list[str]:
    return [f"{number:.9g}" for number in numbers.tolist()]


class _Judge:
    """Adds up, block after block, what metrics are made of."""

    def __init__(self, model: TrainedModel) -> None:
        self._model = model
        self.rows = 0
        self._labelled = False
        self._right = 0
        self._loss = self._squares = 0.0
        self._counts = np.zeros(len(model.classes), np.int64)
        #: Of labels that are numbers: their mean so far, and the sum of the squares of what they are away from it.
        self._mean = self._spread = 0.0

    def saw(self, scores: NDArray[Any], labels: NDArray[Any] | None) -> None:
        """Take the next block."""
        before, count = self.rows, len(scores)
        self.rows += count
        if labels is None or not count:
            return
        self._labelled = True
        if not len(self._model.classes):
            self._squares += float(np.sum((scores.astype(np.float64) - labels) ** 2))
            mean = float(labels.mean())
            away = mean - self._mean
            self._spread += float(np.sum((labels - mean) ** 2)) + away**2 * before * count / self.rows
            self._mean += away * count / self.rows
            return
        self._right += int(np.count_nonzero(chosen(scores) == labels))
        self._counts += np.bincount(labels, minlength=len(self._counts))
        if self._model.has_probabilities:
            self._loss -= float(log_shares(scores)[np.arange(count), labels].sum())

    def metrics(self) -> Metrics | None:
        """Return how good all predictions were."""
        if not self._labelled:
            return None
        if not len(self._model.classes):
            return Metrics(rmse=math.sqrt(self._squares / self.rows), guessed_rmse=math.sqrt(self._spread / self.rows))
        shares = self._counts[self._counts > 0] / self.rows
        return Metrics(
            accuracy=self._right / self.rows,
            log_loss=self._loss / self.rows if self._model.has_probabilities else None,
            guessed_accuracy=float(shares.max()),
            guessed_log_loss=float(-np.sum(shares * np.log(shares))),
        )
