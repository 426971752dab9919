"""How many rows of an update fit into the time that is left of a turn.

The clock alone decides, and how long rows took before: never what they say. What others see of it is that an update
came in time; of how many rows it was made they are not told, but a model moves less for fewer.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator

#: Of the time that is left, so much is planned with: a machine has other things to do at times.
_PLANNED = 0.9
#: If all rows fit into so much of it, they are taken at once; if not, in pieces of an eighth.
_EASILY = 0.5
_PIECES = 8
#: An update that has to be cut takes this much of the time: all nodes wait for what it adds.
_CUT = 0.5
#: The first piece of all has one row in this many: nobody knows yet how long a row takes.
_FIRST = 64
#: Of what a node was too slow for, it thinks better with every turn that it declines, and so tries again some day.
_HOPE = 0.9


class Cutter:
    """Cuts the rows of an update into pieces, one after the other, as long as there is time for one more.

    Parameters
    ----------
    clock : the time in seconds; only differences matter.
    rng : says where to begin, so that all rows of a slow node have their turn.
    whole : whether an update is to be made of all rows or not at all.
    large : whether the model is so large that a second gradient, which adding pieces up takes, may be too much for the
        memory. Then nothing is cut until it has to be.
    """

    def __init__(
        self, clock: Callable[[], float], rng: random.Random, *, whole: bool = False, large: bool = False
    ) -> None:
        self._clock, self._rng, self._whole, self._large = clock, rng, whole, large
        self._per_row: float | None = None
        self._after = 0.0  # what comes after the rows: noise, a step, storing it
        self._ends = self._done_at = 0.0
        #: How many rows the last update took, and of how many.
        self.taken = self.of = 0

    def begin(self, seconds: float) -> None:
        """Plan with this time, in seconds, from now on."""
        self._ends = self._clock() + _PLANNED * seconds
        self.taken = self.of = 0  # a hop that adds noise alone takes none, and is not cut for that

    def end(self) -> None:
        """Take note that the update is finished."""
        if self.taken:
            self._after = self._clock() - self._done_at

    def __call__(self, rows: int) -> Iterator[slice]:
        """Yield pieces of the rows, until all are taken or the time is over."""
        self.of, self.taken, start, spent = rows, 0, 0, 0.0
        if self._has_to_be_cut(rows):
            self._ends -= (1.0 - _CUT) * self._left()
            start = self._rng.randrange(rows)
        while self.taken < rows:
            size = self._next_size(rows - self.taken)
            if not size:
                return
            first = (start + self.taken) % rows
            size = min(size, rows - first)  # up to the last row; those before `start` come after it
            began = self._clock()
            yield slice(first, first + size)
            self._done_at = self._clock()
            self.taken, spent = self.taken + size, spent + self._done_at - began
            self._per_row = spent / self.taken

    def may_be_in_time(self, rows: int, seconds: float) -> bool:
        """Say whether the time is enough for a part with these many rows, as far as is known; hope grows."""
        if self._per_row is None:
            return True
        least = self._per_row * (rows if self._whole else 1)
        if least + self._after <= _PLANNED * seconds:
            return True
        self._per_row *= _HOPE
        self._after *= _HOPE
        return False

    def _left(self) -> float:
        return self._ends - self._after - self._clock()

    def _has_to_be_cut(self, rows: int) -> bool:
        return not self._whole and self._per_row is not None and self._per_row * rows > self._left()

    def _next_size(self, rows: int) -> int:
        """Return how many rows to take next; 0 if the time is over."""
        left = self._left()
        if self._whole:
            return rows
        if self._per_row is None:
            return rows if self._large else max(1, rows // _FIRST)
        if left <= 0.0 or self._per_row > left:
            return 0
        if self._per_row * rows <= (_PLANNED if self._large else _EASILY) * left:
            return rows
        return max(1, min(rows, int(left / _PIECES / self._per_row)))
