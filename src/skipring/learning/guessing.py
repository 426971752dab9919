"""What a guess reaches that looks at no feature: the least that a model must beat to have learned anything."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats


@dataclass(frozen=True)
class Guess:
    """The test error of always guessing the same, and how exactly the test rows tell it.

    >>> guess = guess_of(np.array([0, 1, 1]), np.array([1, 1, 0, 1]), classes=2)
    >>> guess.error, guess.is_beaten_by(0.2), Guess(0.25, 0.01).is_beaten_by(0.2)
    (0.25, False, True)
    """

    error: float
    std_error: float

    def is_beaten_by(self, error: float) -> bool:
        """Say whether an error is below that of the guess by more than two standard errors."""
        return error < self.error - 2.0 * self.std_error

    def remark(self, error: float) -> str | None:
        """Say in one line that an error is no better than guessing; None if it is better."""
        if self.is_beaten_by(error):
            return None
        return (
            f"no better than guessing: the test error {error:.3g} is not below that of always guessing the same, "
            f"{self.error:.3g}, by more than two standard errors ({self.std_error:.2g} each)"
        )


def guess_errors(train_y: NDArray[Any], test_y: NDArray[Any], *, classes: int) -> Floats:
    """Return the error on each test row of guessing the commonest training class; of numbers (0 classes), their mean.

    Of classes that are as common as each other, the first is guessed.
    """
    if not classes:
        errors: Floats = (test_y.astype(np.float64) - float(np.mean(train_y))) ** 2
        return errors
    commonest = int(np.argmax(np.bincount(train_y.astype(np.int64), minlength=classes)))
    return (test_y.astype(np.int64) != commonest).astype(np.float64)


def guess_of(train_y: NDArray[Any], test_y: NDArray[Any], *, classes: int) -> Guess | None:
    """Return the guess that one makes from the training labels only.

    None without rows to test it on, or if labels are so large that their squares overflow.
    """
    if not len(test_y) or not len(train_y):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        errors = guess_errors(train_y, test_y, classes=classes)
        guess = Guess(float(np.mean(errors)), float(np.std(errors)) / math.sqrt(len(errors)))
    return guess if math.isfinite(guess.error) and math.isfinite(guess.std_error) else None
