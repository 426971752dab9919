"""Which rounds a unit contributes in, where the rows of its node take turns (docs/privacy.md, "Rotation").

With `every` = q a unit of class j (1 to q) contributes in the rounds j, j + q, j + 2q, ... at most. Each class has its
own law of the leakage, and none of them is always the largest. So all classes are accounted for; but those of a
`ClassRange` share one law, which is above that of each of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

#: How many different numbers of parts are accounted for one by one.
_MOST_NUMBERS = 32


@dataclass(frozen=True)
class ClassRange:
    """Classes of units that contribute equally often, and share one law of the leakage.

    The law has the earliest rounds of any of them (those of class `first`: the fewest updates came before). It also has
    the shortest rest of the run after their last contribution (that of class `last`). A leakage never grows with more
    updates before or after, so it is above the law of each class in between. A range of one class is exact.

    Parameters
    ----------
    first, last : the classes, numbered from 1.
    times : in how many rounds each of them contributes.
    every : how many rounds lie from one of them to the next.
    rest : how many whole rounds come after the last one of class `last`.
    """

    first: int
    last: int
    times: int
    every: int
    rest: int

    def contributions(self, start: int, end: int) -> int:
        """Return how many contributions of class `first`, but for the last one, lie in rounds start..end-1."""
        low, high = (max(0, -(-(edge - self.first) // self.every)) for edge in (start, end))
        return max(0, min(high, self.times - 1) - low)

    @property
    def last_round(self) -> int:
        """The round of the last contribution of class `first`."""
        return self.first + (self.times - 1) * self.every


def class_ranges(rounds: int, every: int, *, fine: bool = False) -> list[ClassRange]:
    """Return all classes of units in ranges.

    Class 1 is alone, because the first round has a law of its own, and so is the class of the last round, after which
    nothing comes. If the law depends on how much of the run is left (`fine`), the ranges double in size from both ends:
    some 4 log2(every) of them.

    >>> [(some.first, some.last, some.times, some.rest) for some in class_ranges(10, 4)]
    [(1, 1, 3, 1), (2, 2, 3, 0), (3, 4, 2, 2)]
    >>> class_ranges(10, 1)
    [ClassRange(first=1, last=1, times=10, every=1, rest=0)]
    """
    every = min(every, rounds)
    newest = (rounds - 1) % every + 1  # the class of the last round
    edges = sorted({1, 2, newest, newest + 1, every + 1})
    if fine:
        edges = sorted({edge for low, high in pairwise(edges) for edge in _doubling(low, high)})
    ranges = []
    for first, end in pairwise(edges):
        if first <= every:
            last = min(end - 1, every)
            times = 1 + (rounds - first) // every
            ranges.append(ClassRange(first, last, times, every, rounds - last - (times - 1) * every))
    return ranges


def least_parts(numbers: Iterable[int]) -> tuple[int, ...]:
    """Return those numbers of parts that no other one divides, in rising order.

    If p divides q, the rounds of a unit of q parts are among those of a unit of p parts. A leakage never falls with
    more contributions, so what holds for p holds for q.

    >>> least_parts((9, 4, 6, 4, 8))
    (4, 6, 9)
    """
    found: list[int] = []
    for number in sorted({int(number) for number in numbers}):
        if all(number % least for least in found):
            found.append(number)
    return tuple(found)


def parts_that_count(numbers: Iterable[int], rounds: int) -> tuple[int, ...]:
    """Return numbers of parts such that what holds for their units holds for those of all the given numbers.

    The larger number need not be the better one: of 4 rounds, a unit of 3 parts may have the first and the last, and
    one of 2 parts cannot. But with as many parts as rounds, a unit contributes once, and any other number has a unit
    that does so in the same round. Of more numbers than are looked at one by one, the greatest common divisor stands
    for all.

    >>> parts_that_count((2, 3, 7), 4), parts_that_count((6, 9), 4), parts_that_count(range(50, 100), 200)
    ((2, 3), (4,), (1,))
    """
    least = least_parts(min(number, rounds) for number in numbers)
    if len(least) > 1:
        least = tuple(number for number in least if number < rounds)
    return least if len(least) <= _MOST_NUMBERS else (math.gcd(*least),)


def _doubling(low: int, high: int) -> Iterator[int]:
    """Yield edges from low to high whose distances double from either end."""
    yield from (low, high)
    size = 1
    while 2 * size <= high - low:
        yield from (low + size, high - size)
        size *= 2
