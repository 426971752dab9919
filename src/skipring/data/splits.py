"""Which node holds which rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Ints
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive

SPLITS = ("iid", "dirichlet", "dirichlet-even", "shards", "power-law", "groups")


@dataclass(frozen=True, eq=False)
class NodeData:
    """The training rows in the order of the nodes that hold them: node v holds rows start[v] to start[v + 1].

    `persons` has the number of the person of every row, where that is known.

    >>> data = NodeData(np.zeros((5, 2)), np.array([0, 1, 0, 1, 1]), np.array([0, 2, 5]))
    >>> data.nodes, data.sizes
    (2, array([2, 3]))
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[Any]
    start: Ints
    persons: Ints | None = None

    @property
    def nodes(self) -> int:
        """How many nodes there are."""
        return len(self.start) - 1

    @property
    def sizes(self) -> Ints:
        """How many rows each node holds."""
        return np.diff(self.start)


@dataclass(frozen=True, kw_only=True)
class Dealing:
    """How rows are dealt to nodes.

    - `iid`: at random; the sizes of two nodes differ by at most one row (of persons: one person)
    - `dirichlet`: each class is shared out in its own random proportions, the more unequal the smaller `alpha`
    - `dirichlet-even`: nodes are of like size, and each draws its own mix of classes, the further from that of all rows
      the smaller `alpha`. Nodes whose turn comes last get what is left
    - `shards`: rows sorted by label are cut into equal pieces, and each node gets `shards_per_node` of them
    - `power-law`: at random; beyond one row each, the k-th largest node gets a share proportional to k^-`exponent`
    - `groups`: as the data's own node column says
    """

    kind: str = "iid"
    alpha: float = 0.5
    shards_per_node: int = 2
    exponent: float = 1.5

    def __post_init__(self) -> None:
        if self.kind not in SPLITS:
            raise InvalidInput("split", self.kind, f"one of {', '.join(SPLITS)}")
        if self.kind in ("dirichlet", "dirichlet-even"):
            require_positive("alpha", self.alpha)
        elif self.kind == "shards":
            require_integer("shards_per_node", self.shards_per_node, 1)
        elif self.kind == "power-law":
            require_non_negative("exponent", self.exponent)


def split_over_nodes(
    features: NDArray[np.floating[Any]],
    labels: NDArray[Any],
    nodes: int | None,
    rng: np.random.Generator,
    dealing: Dealing | None = None,
    *,
    groups: Ints | None = None,
    persons: Ints | None = None,
) -> NodeData:
    """Deal rows to nodes, each of which gets at least one.

    Labels that are not classes (they are floats) count as ten classes with equally many rows for `dirichlet` and
    `shards`. `persons` says whose each row is: `iid` and `power-law` then deal
    whole persons, and not rows. Who gets whom depends on how many persons there are, and not on their rows.

    >>> rng = np.random.default_rng(1)
    >>> split_over_nodes(np.zeros((10, 2)), np.zeros(10, int), 4, rng).sizes
    array([3, 3, 2, 2])
    """
    how, rows = dealing or Dealing(), len(features)
    if features.ndim != 2 or labels.shape != (rows,):
        given = f"arrays of shapes {features.shape} and {labels.shape}"
        raise InvalidInput("features and labels", given, "rows of numbers and one label for each")
    if how.kind == "groups":
        owner = _by_groups(rows, nodes, groups)
        nodes = int(owner.max()) + 1
    else:
        require_integer("nodes", nodes, 1)
        assert nodes is not None
        unit_of = np.arange(rows)
        if persons is not None and how.kind in ("iid", "power-law"):
            unit_of = np.unique(persons, return_inverse=True)[1]
        units = int(unit_of.max(initial=-1)) + 1
        if nodes > units:
            what = "rows" if units == rows else "persons"
            raise InvalidInput.because("nodes", nodes, f"there are only {units} {what}; use at most {units} nodes")
        if how.kind in ("iid", "power-law"):
            even = how.kind == "iid"
            sizes = _even_sizes(units, nodes) if even else _power_law_sizes(units, nodes, rng, how.exponent)
            owner = rng.permutation(np.repeat(np.arange(nodes), sizes))[unit_of]
        else:
            deal = {"dirichlet": _by_dirichlet, "dirichlet-even": _by_mixes, "shards": _by_shards}[how.kind]
            owner = deal(_kinds(labels), nodes, rng, how)
    sizes = np.bincount(owner, minlength=nodes)
    if empty := int((sizes == 0).sum()):
        holds = f"leaves {empty} of {nodes} nodes without a row"
        if how.kind == "dirichlet":
            reason = f"{holds}; use a larger alpha, fewer nodes or more rows"
            raise InvalidInput.because("alpha", how.alpha, reason)
        reason = f"{holds} (the first is node {int(np.argmin(sizes))}); number the nodes without gaps"
        raise InvalidInput.because("split", how.kind, reason)
    order = np.argsort(owner, kind="stable")
    whose = None if persons is None else persons[order]
    return NodeData(features[order], labels[order], np.append(0, np.cumsum(sizes)).astype(np.int64), whose)


# Each of these returns the node of every row.


def _by_groups(rows: int, nodes: int | None, groups: Ints | None) -> Ints:
    if groups is None:
        reason = "the data does not say which node owns a row; name its node column, or choose another split"
        raise InvalidInput.because("split", "groups", reason)
    if groups.shape != (rows,) or groups.dtype.kind not in "iu" or rows == 0 or groups.min() < 0:
        raise InvalidInput("groups", f"{groups.dtype} of shape {groups.shape}", f"{rows} node numbers of at least 0")
    count = int(groups.max()) + 1
    if nodes is not None and nodes != count:
        raise InvalidInput.because("nodes", nodes, f"the data's own node column has {count}; leave it out")
    return groups.astype(np.int64, copy=False)


def _by_dirichlet(kinds: Ints, nodes: int, rng: np.random.Generator, how: Dealing) -> Ints:
    order = _sorted_by_kind(kinds, rng)
    owner = np.empty(len(kinds), dtype=np.int64)
    begin = 0
    for count in np.bincount(kinds):
        if count:
            # Beyond 1e12 the shares are equal to all digits, and their sum would overflow eventually.
            shares = np.cumsum(rng.dirichlet(np.full(nodes, min(how.alpha, 1e12))))
            ends = np.rint(shares / shares[-1] * count).astype(np.int64)
            owner[order[begin : begin + count]] = np.repeat(np.arange(nodes), np.diff(ends, prepend=0))
            begin += count
    return owner


def _by_mixes(kinds: Ints, nodes: int, rng: np.random.Generator, how: Dealing) -> Ints:
    left = np.bincount(kinds)
    order = _sorted_by_kind(kinds, rng)
    begin = np.cumsum(left) - left
    weights = len(left) * min(how.alpha, 1e12) * left / left.sum()
    mixes = rng.dirichlet(np.maximum(weights, 1e-3), nodes)
    owner = np.empty(len(kinds), dtype=np.int64)
    sizes = _even_sizes(len(kinds), nodes)
    for node in rng.permutation(nodes):
        missing = int(sizes[node])
        while missing:
            mix = mixes[node] * (left > 0)
            # A node whose classes are used up takes what there is.
            mix = mix / mix.sum() if mix.sum() > 1e-12 else left / left.sum()
            taken = np.minimum(rng.multinomial(missing, mix), left)
            for kind in np.flatnonzero(taken):
                owner[order[begin[kind] : begin[kind] + taken[kind]]] = node
            begin += taken
            left -= taken
            missing -= int(taken.sum())
    return owner


def _by_shards(kinds: Ints, nodes: int, rng: np.random.Generator, how: Dealing) -> Ints:
    shards, rows = nodes * how.shards_per_node, len(kinds)
    if shards > rows:
        reason = f"{nodes} nodes need {shards} shards of at least one row, but there are only {rows} rows; use fewer"
        raise InvalidInput.because("shards_per_node", how.shards_per_node, reason)
    holder = rng.permutation(shards) // how.shards_per_node
    owner = np.empty(rows, dtype=np.int64)
    owner[_sorted_by_kind(kinds, rng)] = np.repeat(holder, _even_sizes(rows, shards))
    return owner


def _even_sizes(rows: int, parts: int) -> Ints:
    return rows // parts + (np.arange(parts) < rows % parts).astype(np.int64)


def _power_law_sizes(rows: int, nodes: int, rng: np.random.Generator, exponent: float) -> Ints:
    with np.errstate(under="ignore"):
        weights = np.arange(1.0, nodes + 1.0) ** -exponent
    shares = (rows - nodes) * (weights / weights.sum())
    sizes = 1 + np.floor(shares).astype(np.int64)
    # Rows lost to rounding down go to those who lost most; ties go to the larger nodes.
    lost = np.argsort(np.floor(shares) - shares, kind="stable")
    sizes[lost[: rows - int(sizes.sum())]] += 1
    # Neighbours on the ring must not be of like size because of their numbers.
    return rng.permutation(sizes)


def _kinds(labels: NDArray[Any]) -> Ints:
    """Return the class of each row: the label itself, or the tenth of all labels that it lies in."""
    if labels.dtype.kind in "biu":
        return np.unique(labels, return_inverse=True)[1].astype(np.int64)
    return np.searchsorted(np.quantile(labels, np.arange(1, 10) / 10), labels, side="right").astype(np.int64)


def _sorted_by_kind(kinds: Ints, rng: np.random.Generator) -> Ints:
    """Return the rows in the order of their kinds, at random within each."""
    shuffled = rng.permutation(len(kinds))
    return shuffled[np.argsort(kinds[shuffled], kind="stable")]
