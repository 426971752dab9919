"""What was measured, as it was measured: how long each node took, how far two nodes are apart, who could be reached.

A trace has as many nodes as were measured; node v of a run follows node v modulo their number. It is no law: what it
says of one turn says something about the next. docs/lateness.md has the formats.
"""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles, Ints, times_before
from .._numbers import is_number
from ..errors import InvalidInput
from .base import real_number
from .empirical import Empirical, csv_lines

#: Nodes of a trace are numbered below this: a larger number is a mistake, and would fill the memory.
_MOST_NODES = 10_000


@dataclass(frozen=True)
class Trace(Empirical):
    """How long each node took, turn after turn; as a law it is that of all durations together.

    `series[v]` are the durations of the trace's node v. A run begins at a random place of each, and begins it again at
    its end.
    """

    series: tuple[Doubles, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def read(cls, text: str) -> Trace:
        """Read ``trace:FILE``: rows of node and seconds, or an array nodes x turns (or one number for each node)."""
        source = _source_of(text)
        if source.path.suffix == ".csv":
            rows = _columns_of(source, "node", "seconds")
            series = _by_node(source, rows[:, 0], rows[:, 1])
        else:
            array = _table_of(source, "seconds")
            if array.ndim == 1:
                array = array[:, None]
            if array.ndim != 2:
                raise source.refuse(f"it must have two axes, nodes and turns, not {array.ndim}")
            if source.name and array.shape[1] == 3 and source.name != "seconds":  # rows of node, time and duration
                array = array[np.argsort(array[:, 1], kind="stable")]
                series = _by_node(source, array[:, 0], array[:, 2])
            else:
                series = [row[~np.isnan(row)] for row in array]
        series = [each * source.scale for each in series]
        if any(not len(each) for each in series):
            raise source.refuse("each node needs one duration at least")
        together = np.concatenate(series)
        if not np.isfinite(together).all() or together.min() < 0.0:
            raise source.refuse("a duration must be a finite number of at least 0")
        return cls(tuple(together.tolist()), source=source.text, series=tuple(series))

    def __str__(self) -> str:
        return self.source

    def at_turns(self, path: NDArray[np.integer[Any]], rng: np.random.Generator) -> Doubles:
        """Return the durations of each hop's node, turn after turn, from a random place on."""
        lengths = np.array([len(each) for each in self.series])
        first = np.append(0, np.cumsum(lengths)[:-1])
        nodes = int(path.max(initial=0)) + 1
        begin = np.floor(rng.random(nodes) * lengths[np.arange(nodes) % len(lengths)]).astype(np.int64)
        which = path % len(lengths)
        return np.concatenate(self.series)[first[which] + (begin[path] + times_before(path)) % lengths[which]]


@dataclass(frozen=True, eq=False)
class PairLatency:
    """How long a hop takes from one node to another, in one or more slices of time; each hop draws a slice.

    `seconds` is [slices, from, to]. Where two nodes of a run follow the same one of the trace, they are as far apart as
    that one is from the others, in the median.
    """

    seconds: Doubles
    source: str = ""

    @property
    def nodes(self) -> int:
        """How many nodes were measured."""
        return int(self.seconds.shape[1])

    def __str__(self) -> str:
        return self.source

    @classmethod
    def read(cls, text: str) -> PairLatency:
        """Read ``trace:FILE``: rows of from, to and seconds, or an array nodes x nodes, or slices x nodes x nodes."""
        source = _source_of(text)
        if source.path.suffix == ".csv":
            rows = _columns_of(source, "from", "to", "seconds")
            ends = _as_nodes(source, rows[:, :2])
            pairs, times = np.unique(ends, axis=0, return_counts=True)
            if times.max() > 1:
                one, other = pairs[times.argmax()]
                raise source.refuse(f"the latency from node {one} to node {other} is there {times.max()} times")
            array = np.full((1, ends.max() + 1, ends.max() + 1), np.nan)
            array[0, ends[:, 0], ends[:, 1]] = rows[:, 2]
        else:
            array = _table_of(source, "seconds", "rtt")
            array = array[None] if array.ndim == 2 else array
        if array.ndim != 3 or array.shape[1] != array.shape[2] or array.shape[1] < 2:
            raise source.refuse(f"it must be nodes x nodes, or slices x nodes x nodes, not {array.shape}")
        apart = ~np.eye(array.shape[1], dtype=bool)
        if not np.isfinite(array[:, apart]).all() or array[:, apart].min() < 0.0:
            raise source.refuse("each pair of nodes needs a finite latency of at least 0")
        array = array * source.scale
        for each in array:
            np.fill_diagonal(each, np.median(each[apart].reshape(len(each), -1), axis=1))
        return cls(array, source.text)


@dataclass(frozen=True, eq=False)
class Availability:
    """When each node can be reached: intervals one after the other; after `period` seconds they begin again.

    Node v of the trace has the intervals from ``first[v]`` to ``first[v + 1] - 1``.
    """

    begins: Doubles
    ends: Doubles
    first: Ints
    period: float
    source: str = ""

    def __str__(self) -> str:
        return self.source

    @property
    def always_sometimes(self) -> bool:
        """Whether every node can be reached at some time."""
        return bool((np.diff(self.first) > 0).all())

    def waits(self, moment: float | Doubles, nodes: int) -> Doubles:
        """Return for each node of a run how long it is until it can be reached; infinity if it never can.

        There may be one moment for all nodes, or one for each.

        >>> trace = Availability(np.array([0.0, 5.0]), np.array([2.0, 9.0]), np.array([0, 1, 2]), 10.0)
        >>> trace.waits(3.0, 2).tolist(), trace.waits(np.array([16.0, 6.0]), 2).tolist()
        ([7.0, 2.0], [4.0, 0.0])
        """
        into = moment % self.period
        devices = len(self.first) - 1
        which = np.arange(nodes) % devices
        low, high = self.first[which], self.first[which + 1]
        # All intervals on one line, those of each node two periods after those of the one before.
        offset = 2.0 * self.period * np.repeat(np.arange(devices), np.diff(self.first))
        at = np.searchsorted(self.ends + offset, into + 2.0 * self.period * which, side="right")
        begins = np.append(self.begins, np.inf)
        again = np.where(low < high, begins[low] + self.period - into, np.inf)
        return np.where(at < high, np.maximum(begins[at] - into, 0.0), again)

    @classmethod
    def read(cls, text: str) -> Availability:
        """Read ``trace:FILE``: rows of node, second, and whether it can be reached from then on (1) or not (0)."""
        source = _source_of(text)
        if source.path.suffix == ".csv":
            events = _columns_of(source, "node", "second", "available")
        else:
            events = _table_of(source, "events")
            if events.ndim != 2 or events.shape[1] != 3:
                raise source.refuse(f"it must have three columns (node, second, 1 or 0), not {events.shape}")
        seconds = events[:, 1] * source.scale
        if not np.isin(events[:, 2], (0.0, 1.0)).all():
            raise source.refuse("the third column says 1 (available) or 0 (not)")
        if not np.isfinite(seconds).all() or seconds.min() < 0.0 or not seconds.max() > 0.0:
            raise source.refuse("the second column says when, in seconds from 0 on")
        period = float(seconds.max())
        order = np.argsort(seconds, kind="stable")
        moments, states = (_by_node(source, events[order, 0], each[order]) for each in (seconds, events[:, 2]))
        found = [_intervals(*each, period) for each in zip(moments, states, strict=True)]
        first = np.append(0, np.cumsum([len(begins) for begins, _ in found]))
        begins, ends = (np.concatenate(each) for each in zip(*found, strict=True))
        return cls(begins, ends, first, period, source.text)


def _intervals(moments: Doubles, states: Doubles, period: float) -> tuple[Doubles, Doubles]:
    """Return where a node's intervals begin and end; before its first event it is what that event ends."""
    change = np.flatnonzero(np.diff(states, prepend=1.0 - states[0]))
    on, off = moments[change][states[change] == 1.0], moments[change][states[change] == 0.0]
    if states[0] == 0.0:
        on = np.append(0.0, on)
    off = np.append(off, period) if len(off) < len(on) else off
    return on[off > on], off[off > on]


def _as_nodes(source: _Source, numbers: Doubles) -> Ints:
    if not ((numbers >= 0) & (numbers == np.floor(numbers)) & (numbers < _MOST_NODES)).all():
        raise source.refuse(f"nodes must be whole numbers from 0 to {_MOST_NODES - 1}")
    return numbers.astype(np.int64)


def _by_node(source: _Source, numbers: Doubles, values: Doubles) -> list[Doubles]:
    """Return the values of each node, in their order; nodes are whole numbers from 0, and none is missing."""
    nodes = _as_nodes(source, numbers)
    found = np.unique(nodes)
    if found[-1] != len(found) - 1:
        raise source.refuse(f"node {int(np.setdiff1d(np.arange(found[-1]), found)[0])} is missing")
    order = np.argsort(nodes, kind="stable")
    return np.split(values[order], np.searchsorted(nodes[order], found[1:]))


class _Source(NamedTuple):
    """Where a trace is: ``trace:FILE``, then the name of an array in an npz file, and what its numbers are times."""

    text: str
    path: Path
    name: str
    scale: float

    def refuse(self, reason: str) -> InvalidInput:
        """Return an error about this trace, in one line."""
        return InvalidInput.because("trace", self.text, reason)


def _source_of(text: str) -> _Source:
    """Return what ``trace:FILE,NAME,SCALE`` spells; name and scale may be left out.

    >>> _source_of("trace:times.npz,job4,0.01").scale
    0.01
    """
    kind, _, rest = text.strip().partition(":")
    parts = [part.strip() for part in rest.split(",")]
    if kind != "trace" or not parts[0] or len(parts) > 3:
        raise InvalidInput("trace", text, "trace:FILE, trace:FILE,NAME or trace:FILE,NAME,SCALE")
    scale = real_number(text, "the scale", parts[2]) if len(parts) == 3 else 1.0
    if not 0.0 < scale < float("inf"):
        raise InvalidInput.because("trace", text, "the scale must be a finite number above 0")
    source = _Source(text.strip(), Path(parts[0]), parts[1] if len(parts) > 1 else "", scale)
    if source.path.suffix not in (".csv", ".npz"):
        raise source.refuse("the file must be a .csv or .npz file")
    if source.path.suffix == ".csv" and source.name:
        raise source.refuse("only an npz file has arrays with names; leave the name empty")
    return source


def _table_of(source: _Source, *names: str) -> Doubles:
    """Return an array of an npz file: the one that is named, or the first of these names that it has."""
    try:
        with np.load(source.path, allow_pickle=False) as file:
            wanted = [source.name] if source.name else list(names)
            found = next((name for name in wanted if name in file.files), None)
            if found is None:
                raise source.refuse(f"it has no array called {' or '.join(wanted)}, but {', '.join(file.files)}")
            array = file[found]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise source.refuse(f"the file cannot be read: {error}") from None
    if array.dtype.kind not in "fiub" or not array.size:
        raise source.refuse("it must hold numbers")
    return array.astype(np.float64)


def _columns_of(source: _Source, *heads: str) -> Doubles:
    """Return the columns of a CSV file, whose first line must be these names."""
    lines = csv_lines(source.path, source.refuse)
    if not lines or [cell.lower() for cell in lines[0][1]] != list(heads):
        raise source.refuse(f"its first line must be {','.join(heads)}")
    rows = []
    for line, cells in lines[1:]:
        if len(cells) != len(heads) or not all(is_number(cell) for cell in cells):
            raise source.refuse(f"line {line}: {len(heads)} numbers expected, not {','.join(cells)[:40]!r}")
        rows.append([float(cell) for cell in cells])
    if not rows:
        raise source.refuse("there is nothing in it but the first line")
    return np.array(rows)
