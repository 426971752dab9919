"""Names for arrays of numbers, as signatures spell them, and how often each was there before."""

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
