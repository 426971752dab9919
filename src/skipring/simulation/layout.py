"""The training rows of a setup, part by part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, Floats, times_before
from .setup import Setup


class LaidOut(NamedTuple):
    """The training rows part by part: part p begins at `start[p]`, and node v has the parts from `first[v]` on."""

    x: Floats
    y: NDArray[Any]
    start: AnyInts
    first: AnyInts

    def parts_of(self, path: AnyInts, closing: int = 0) -> AnyInts:
        """Return the part of the rows that is used at each hop of a path: the next one of the node, skipped or not.

        It is -1 at the closing hops, which use none.
        """
        if closing:
            none = np.full(closing, -1, dtype=path.dtype)
            return np.concatenate([self.parts_of(path[: len(path) - closing]), none])
        if self.first[-1] == len(self.first) - 1:
            return path
        # The type of the path, lest a run be compiled once for each: nodes have one part, records several.
        return (self.first[path] + times_before(path) % np.diff(self.first)[path]).astype(path.dtype)


def laid_out(setup: Setup) -> LaidOut:
    """Return a setup's training rows in the order of the nodes, and of their parts."""
    data = setup.data
    if setup.protection.unit == "node":
        return LaidOut(data.features, data.labels, data.start, np.arange(data.nodes + 1))
    dealt = [low + part for low, parts in zip(data.start[:-1], setup.parts, strict=True) for part in parts]
    order, x, y = np.concatenate(dealt), data.features, data.labels
    if not np.array_equal(order, np.arange(len(order))):  # a copy of many rows takes room
        x, y = x[order], y[order]
    first = np.append(0, np.cumsum([len(parts) for parts in setup.parts]))
    return LaidOut(x, y, np.append(0, np.cumsum([len(part) for part in dealt])), first)
