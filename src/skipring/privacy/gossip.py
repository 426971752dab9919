"""What a node learns about another one in gossip learning (Muffliato-SGD) and in federated learning.

The bound for gossip is proven in docs/gossip-privacy.md. `muffliato_epsilon` is the published accounting, for
comparison: for few rounds of averaging it can be too small (same place, "The published accounting").
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Doubles
from ..errors import InvalidInput, require_delta, require_integer, require_positive
from ._gossip import leaked_mu2, phase_seen_by
from .accountant import AMPLIFIED, IN_FULL, USUAL_UNIT, Guarantee, Unit
from .gaussian import GaussianAccountant
from .transcript import _require_node

#: The neighbours of node w are indices[indptr[w]:indptr[w + 1]], in order, without w; (indptr, indices).
GossipGraph = tuple[NDArray[np.int64], NDArray[np.int32]]

#: Step sizes of one run may differ by this factor, so that squares stay in range.
_RANGE = 1e60


def _adjacency(graph: GossipGraph, nodes: int) -> Any:
    """Return the checked 0/1 matrix of a graph."""
    from scipy.sparse import csr_array  # slow to load, and few commands need it

    indptr, indices = (np.asarray(part) for part in graph)
    if indptr.shape != (nodes + 1,) or indptr[0] != 0 or indptr[-1] != len(indices) or np.any(np.diff(indptr) < 0):
        raise InvalidInput("graphs", f"indptr of shape {indptr.shape}", f"graphs of {nodes} nodes in CSR form")
    if len(indices) and (indices.min() < 0 or indices.max() >= nodes):
        raise InvalidInput("graphs", "a neighbour", f"a node from 0 to {nodes - 1}")
    matrix = csr_array((np.ones(len(indices)), indices, indptr), shape=(nodes, nodes))
    # By columns it is its transpose with sorted rows: both are equal only if it is symmetric and sorted itself.
    mirror = matrix.tocsc()
    same = np.array_equal(mirror.indptr, matrix.indptr) and np.array_equal(mirror.indices, matrix.indices)
    if not same or matrix.diagonal().any() or not matrix.has_canonical_format:
        raise InvalidInput("graphs", "one of them", "symmetric, with sorted rows, and without loops or double edges")
    return matrix


def _phase_numbers(points: Sequence[int], phases: int) -> NDArray[np.intp]:
    """Return places in an array of phases from numbers that count from 1."""
    numbers = np.asarray(points)
    if numbers.ndim != 1 or not numbers.size or numbers.dtype.kind not in "iu":
        raise InvalidInput("points", points, "phase numbers")
    if numbers.min() < 1 or numbers.max() > phases:
        raise InvalidInput("points", points, f"phase numbers from 1 to {phases}")
    return numbers.astype(np.intp) - 1


@dataclass(frozen=True, eq=False, kw_only=True)
class GossipRun:
    """A run of gossip learning: in each phase all nodes take a noisy gradient step, then average with their neighbours.

    Parameters
    ----------
    graphs : the graph of each phase; public, and drawn without regard to data or models. Averaging is plain, with
        weight 1 / (1 + largest degree) on every edge.
    nodes : number of nodes; they are numbered from 0.
    rounds : rounds of averaging in each phase.
    noise_multiplier : sigma / k; the noise that each node adds to its gradient in each phase.
    step_sizes : one number, or one for each phase. Only their ratios matter.
    amplified : whether gradient steps contract (convex, beta-smooth losses and step sizes of at most 2 / beta), noise
        reaches the values as it was drawn, and averaging is plain. Say False for neural networks, and for noisy
        gradients that are clipped after the noise was added (as the public code of Muffliato does). Say so for
        accelerated averaging, too (its weights can be negative), and where values are projected between the noise and
        the averaging: project before the gradient is taken. Each phase then counts in full.
    """

    graphs: Iterable[GossipGraph]
    nodes: int
    rounds: int
    noise_multiplier: float
    step_sizes: ArrayLike = 1.0
    amplified: bool = True
    #: The matrix of each graph, and the step sizes in units of the largest.
    adjacencies: tuple[Any, ...] = field(init=False)
    steps: Doubles = field(init=False)

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)
        require_integer("rounds", self.rounds, 1)
        require_positive("noise_multiplier", self.noise_multiplier)
        adjacencies = tuple(_adjacency(graph, self.nodes) for graph in self.graphs)
        count = len(adjacencies)
        if not adjacencies:
            raise InvalidInput("graphs", "none", "at least one graph")
        steps = np.asarray(self.step_sizes, dtype=np.float64)
        if steps.shape not in ((), (count,)):
            raise InvalidInput("step_sizes", steps.shape, f"one number, or one for each of the {count} phases")
        if not np.all(np.isfinite(steps) & (steps > 0.0)) or steps.max() / _RANGE > steps.min():
            allowed = f"above 0, and within a factor of {_RANGE:g} of each other"
            raise InvalidInput("step_sizes", float(steps.min()), allowed)
        for name, value in (
            ("noise_multiplier", float(self.noise_multiplier)),  # a float16 would round the bound
            ("adjacencies", adjacencies),
            ("steps", np.broadcast_to(steps / steps.max(), (count,)).copy()),
        ):
            object.__setattr__(self, name, value)


def gossip_mu(run: GossipRun, *, observer: int, targets: Sequence[int]) -> Doubles:
    """Return mu for each target: what one observer learned about it in a whole run of gossip learning is mu-GDP.

    The observer is sent its neighbours' values in every round, and knows its own data and noise.

    >>> line = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], dtype=np.int32)  # 0 - 1 - 2
    >>> run = GossipRun(graphs=[line] * 4, nodes=3, rounds=1, noise_multiplier=10.0)
    >>> gossip_mu(run, observer=0, targets=[1, 2]).round(4)
    array([0.4   , 0.1723])
    """
    return gossip_mu_curve(run, observer=observer, targets=targets, points=[len(run.adjacencies)])[0]


def gossip_mu_curve(run: GossipRun, *, observer: int, targets: Sequence[int], points: Sequence[int]) -> Doubles:
    """Return mu after some phases of one run (the first one is phase 1), as an array [point, target].

    A point of a curve may be slightly above `gossip_mu` of the shorter run, which need not care for what comes later.
    """
    _require_node("observer", observer, run.nodes)
    for target in targets:
        _require_node("targets", target, run.nodes)
        if target == observer:
            raise InvalidInput.because("targets", target, "is the observer itself")
    count = len(run.adjacencies)
    places = _phase_numbers(points, count)
    # Each noisy gradient of the target is a release of its own; all that the observer sees is made from them.
    own_releases = 4.0 * (places + 1.0)
    if not run.amplified:
        return np.tile(np.sqrt(own_releases)[:, None] / run.noise_multiplier, (1, len(targets)))
    who = np.asarray(targets, dtype=np.intp)
    phases = [phase_seen_by(adjacency, run.rounds, observer, who) for adjacency in run.adjacencies]
    with np.errstate(over="ignore", invalid="ignore"):  # what overflows gives way to the target's own releases
        mu2 = leaked_mu2(phases, run.rounds, observer, who, run.steps)[places]
        mu2 *= 1.0 + 1e-10 + 1e-14 * count  # more than rounding in the sums can take away
        mu: Doubles = np.sqrt(np.fmin(mu2, own_releases[:, None])) / run.noise_multiplier
    return mu


class GossipAccountant(GaussianAccountant):
    """What one observer learned about some targets in a run of gossip learning, on the graphs that were drawn.

    Epsilon and delta are those of the target that the observer knows most about; `mu` has all of them.

    >>> line = np.array([0, 1, 3, 4]), np.array([1, 0, 2, 1], dtype=np.int32)  # 0 - 1 - 2
    >>> run = GossipRun(graphs=[line] * 4, nodes=3, rounds=1, noise_multiplier=10.0)
    >>> account = GossipAccountant(run, observer=0, targets=[1, 2])
    >>> account.mu.round(4), round(account.epsilon(delta=1e-6), 3)
    (array([0.4   , 0.1723]), 1.766)
    """

    def __init__(self, run: GossipRun, *, observer: int, targets: Sequence[int], protects: Unit = USUAL_UNIT) -> None:
        if len(targets) == 0:
            raise InvalidInput("targets", "none", "at least one node")
        self.observer, self.targets, self.amplified = observer, tuple(targets), run.amplified
        self.method, self.protects = "gossip", protects
        self.mu = gossip_mu(run, observer=observer, targets=targets)

    def guarantee(self, delta: float) -> Guarantee:
        """Return the epsilon at a delta with all that it cannot be read without."""
        some = f"node {self.targets[0]}" if len(self.targets) == 1 else f"each of {len(self.targets)} nodes"
        return Guarantee(
            protects=self.protects,
            whose=some,
            against=f"node {self.observer}",
            sees="which knows all graphs and is sent its neighbours' values in every round",
            method=self.method,
            delta=delta,
            epsilon=self.epsilon(delta),
            assumptions=("no final model is counted", AMPLIFIED if self.amplified else IN_FULL),
        )

    def _worst_mu(self) -> float:
        return float(self.mu.max())


def muffliato_epsilon(run: GossipRun, *, delta: float, points: Sequence[int], target: int = 0) -> Doubles:
    """Return the epsilon that Muffliato's published accounting states after some phases: of the worst observer.

    Cyffers, Even, Bellet & Massoulié (2022), Theorem 4, for a fresh random graph in each phase. An observer adjacent to
    the target learns a Rényi divergence of alpha Delta^2 / (2 sigma^2) in that phase, with Delta = 2k. Another one
    learns at most that, and at most alpha Delta^2 / sigma^2 x rounds x degree / (nodes - degree). Phases add up. The
    conversion is Mironov's (2017, Proposition 3) with the best alpha, as in the paper of the ring: rho + 2 sqrt(rho
    ln(1/delta)).

    This is not proven for the protocol here, and can be too small. It treats what the target's value carries over from
    earlier phases as if it said nothing about the target (true only if averaging goes on until all agree). And it
    relies on graphs that the observer does not know. It also needs noise that is not clipped afterwards. Use
    `gossip_mu` for a guarantee.

    >>> pair = np.array([0, 1, 2]), np.array([1, 0], dtype=np.int32)
    >>> run = GossipRun(graphs=[pair] * 10, nodes=2, rounds=2, noise_multiplier=10.0)
    >>> muffliato_epsilon(run, delta=1e-6, points=[1, 10]).round(3)
    array([1.071, 3.525])
    """
    require_delta(delta)
    _require_node("target", target, run.nodes)
    rho = np.zeros(run.nodes)
    worst = []
    others = np.arange(run.nodes) != target
    bare = 2.0 / run.noise_multiplier**2
    for adjacency in run.adjacencies:
        start, ends = adjacency.indptr, adjacency.indices
        degrees = np.diff(start)
        learned = np.minimum(bare, 2.0 * bare * run.rounds * degrees / (run.nodes - degrees))
        learned[ends[start[target] : start[target + 1]]] = bare
        rho += learned
        worst.append(rho[others].max())
    stated = np.array(worst)[_phase_numbers(points, len(worst))]
    epsilon: Doubles = stated + 2.0 * np.sqrt(stated * math.log(1.0 / delta))
    return epsilon


def federated_mu(uploads: int, noise_multiplier: float) -> float:
    """Return mu of what the server of federated learning learns about a node that uploaded noisy gradients.

    Each upload is a Gaussian release with mu = 2k / sigma (its Rényi divergence is 2 alpha k^2 / sigma^2).

    >>> federated_mu(100, 10.0)
    2.0
    """
    require_integer("uploads", uploads, 0)
    require_positive("noise_multiplier", noise_multiplier)
    noise_multiplier = float(noise_multiplier)  # a float16 would round the bound
    return 2.0 * math.sqrt(uploads) / noise_multiplier


def federated_node_mu(participants: ArrayLike, target_present: ArrayLike, *, noise_multiplier: float) -> float:
    """Return mu of what another node learns if an honest server publishes nothing but averages.

    The average of m noisy gradients hides the target's behind the noise of m - 1: the observer, which knows its own, is
    taken to be one of them whenever it can have been. The model is public after each iteration, so that the releases
    compose exactly, whatever the losses.

    Parameters
    ----------
    participants : for each iteration, how many nodes took part, target and observer included.
    target_present : for each iteration, whether the target took part.
    noise_multiplier : sigma / k.

    >>> round(federated_node_mu([101, 50, 1], [True, False, True], noise_multiplier=10.0), 4)
    0.201
    """
    require_positive("noise_multiplier", noise_multiplier)
    noise_multiplier = float(noise_multiplier)  # a float16 would round the bound
    count, present = np.asarray(participants), np.asarray(target_present)
    if count.ndim != 1 or (count.size and (count.dtype.kind not in "iu" or count.min() < 0)):
        raise InvalidInput("participants", participants, "a whole number of at least 0 for each iteration")
    if present.shape != count.shape or present.dtype != np.bool_:
        raise InvalidInput("target_present", f"shape {present.shape}", "a truth value for each iteration")
    if np.any(count[present] < 1):
        raise InvalidInput("participants", 0, "at least 1 where the target took part")
    hidden_by = np.maximum(count[present] - 1, 1).astype(np.float64)
    return 2.0 * math.sqrt(float(np.sum(1.0 / hidden_by))) / noise_multiplier
