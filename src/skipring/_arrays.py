"""Names for arrays of numbers, as signatures spell them, and what several rooms do with them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Real numbers of any precision, and of twice the usual one.
Floats: TypeAlias = NDArray[np.floating[Any]]
Doubles: TypeAlias = NDArray[np.float64]
#: Whole numbers of 64 bits, and of any.
Ints: TypeAlias = NDArray[np.int64]
AnyInts: TypeAlias = NDArray[np.integer[Any]]


def times_before(numbers: AnyInts) -> Ints:
    """Return for each number how often it stood before: the node of a hop, how often the token was offered to it.

    >>> times_before(np.array([2, 0, 2, 2, 0]))
    array([0, 0, 1, 2, 1])
    """
    order = np.argsort(numbers, kind="stable")
    begins = np.flatnonzero(np.diff(numbers[order], prepend=-1))
    times = np.empty(len(numbers), np.int64)
    times[order] = np.arange(len(numbers)) - np.repeat(begins, np.diff(np.append(begins, len(numbers))))
    return times


def to_unit_norm(rows: Doubles) -> None:
    """Give every row norm 1, in place; a row of zeros stays one."""
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    # Where squares overflow or vanish, the largest entry is made 1 first.
    extreme = ((norms < 1e-100) | (norms > 1e100)).nonzero()[0]
    if extreme.size:
        largest = np.abs(rows[extreme]).max(axis=1)
        rows[extreme] /= np.where(largest > 0.0, largest, 1.0)[:, None]
        norms[extreme] = np.linalg.norm(rows[extreme], axis=1)
    rows /= np.where(norms > 0.0, norms, 1.0)[:, None]
