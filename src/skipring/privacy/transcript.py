"""Tight privacy of a run after it happened (or while it does): what each observer learned about each target.

Given who updated when, the step sizes and the noise, the view of an observer is mu-GDP with a mu that is the exact
optimum of the shift-and-absorb argument (docs/privacy.md, "Transcript"). It needs no law of the path: dead nodes,
adaptive timeouts and refusals are all in the transcript.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import LEAST_DELTA, InvalidInput, require_integer, require_positive
from .accountant import IN_FULL, Claim
from .by_mu import GaussianAccountant
from .gaussian import gdp_delta, gdp_epsilon
from .record import View

__all__ = ["RunningTranscript", "Transcript", "TranscriptAccountant", "WorstPair"]

Floats = NDArray[np.floating[Any]]
Ints = NDArray[np.int64]

CONTRACTIONS = (
    "the noise of others counts: no update may bring two models further apart than its contraction factor says"
)
#: Step sizes and noises of one run may differ by this factor; squares of what is allowed cannot overflow.
_RANGE = 1e60


def _rounding(updates: int) -> float:
    """Return what gives back all that rounding in sums over the updates may take away."""
    return 1.0 + 1e-10 + 1e-15 * updates


def _require_node(parameter: str, node: int, nodes: int) -> None:
    require_integer(parameter, node, 0)
    if node >= nodes:
        raise InvalidInput(parameter, node, f"a node from 0 to {nodes - 1}")


class WorstPair(NamedTuple):
    """The pair that leaks most: the observer's view of the target's data is mu-GDP."""

    mu: float
    target: int
    observer: int


def _per_update(parameter: str, value: ArrayLike, updates: int, *, least: float) -> Floats:
    values = np.array(value, dtype=np.float64)  # a copy: what happened must not change afterwards
    if values.ndim == 0:
        values = np.full(updates, float(values))
    if values.shape != (updates,):
        raise InvalidInput(parameter, values.shape, f"one number, or one for each of the {updates} updates")
    if not np.all(np.isfinite(values)) or np.any(values < least):
        raise InvalidInput(
            parameter, float(np.min(values)), "finite and " + ("at least 0" if least == 0.0 else "above 0")
        )
    return values


@dataclass(frozen=True, eq=False, kw_only=True)
class Transcript:
    """A run that happened: whom each hop was offered to, who updated, with which step size and noise.

    Parameters
    ----------
    nodes : number of nodes; they are numbered from 0.
    offered : for each hop, the node it was offered to.
    updated : for each hop, whether that node updated the token (else it was skipped).
    step_sizes : one number, or one for each update.
    noise_multiplier : sigma / k, one number or one for each update.
    contraction : Lipschitz factor of the update map, one number or one for each update: 1 for convex, smooth losses
        with step sizes of at most 2 / smoothness; less under strong convexity.
    convex : False if nothing is known about the update maps; then each update of a target counts in full.
    view : ``offered``: a node sees the token at each hop offered to it; ``participants``: only when it updates.
    """

    nodes: int
    offered: ArrayLike
    updated: ArrayLike
    step_sizes: ArrayLike
    noise_multiplier: ArrayLike
    contraction: ArrayLike = 1.0
    convex: bool = True
    view: View = "offered"

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)
        if self.view not in ("offered", "participants"):
            raise InvalidInput("view", self.view, "one of offered, participants")
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        if offered.ndim != 1 or updated.shape != offered.shape or updated.dtype != np.bool_:
            raise InvalidInput("updated", f"shape {updated.shape}", "a truth value for each hop offered")
        if len(offered) and (offered.dtype.kind not in "iu" or offered.min() < 0 or offered.max() >= self.nodes):
            raise InvalidInput("offered", "a node", f"a whole number from 0 to {self.nodes - 1} for each hop")
        updates = int(updated.sum())
        checked = {
            "offered": offered.astype(np.int64),
            "updated": updated.copy(),
            "step_sizes": _per_update("step_sizes", self.step_sizes, updates, least=5e-324),
            "noise_multiplier": _per_update("noise_multiplier", self.noise_multiplier, updates, least=5e-324),
            "contraction": _per_update("contraction", self.contraction, updates, least=0.0),
        }
        steps, noises = checked["step_sizes"], checked["noise_multiplier"]
        if updates and (steps.max() / _RANGE > steps.min() or noises.max() > _RANGE or noises.min() < 1.0 / _RANGE):
            raise InvalidInput.because(
                "step_sizes", "of this run", f"and its noises must be within a factor of {_RANGE:g} of each other"
            )
        for name, value in checked.items():
            value.setflags(write=False)
            object.__setattr__(self, name, value)

    @property
    def updaters(self) -> Ints:
        """Who made each update."""
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        made: Ints = offered[updated]
        return made

    def looks(self) -> tuple[Ints, Ints]:
        """Return (looks, start): looks[start[v]:start[v+1]] are the numbers of updates after which v saw the token.

        A node that updates saw the token before, and knows it after. Everyone sees the final model.
        """
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        before = np.cumsum(updated) - updated
        sees = np.ones_like(updated) if self.view == "offered" else updated
        everyone = np.arange(self.nodes)
        nodes = np.concatenate([offered[sees], offered[updated], everyone])
        looks = np.concatenate([before[sees], before[updated] + 1, np.full(self.nodes, int(updated.sum()))]).astype(
            np.int64
        )
        order = np.lexsort((looks, nodes))
        start = np.searchsorted(nodes[order], np.arange(self.nodes + 1))
        return looks[order], start.astype(np.int64)


def _links(updaters: Ints) -> tuple[Ints, Ints]:
    """Return for each update the previous and the next one of the same node (-1: none)."""
    previous, following = np.full(len(updaters), -1), np.full(len(updaters), -1)
    order = np.argsort(updaters, kind="stable")
    same = updaters[order[1:]] == updaters[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    following[order[:-1][same]] = order[1:][same]
    return previous, following


class TranscriptAccountant:
    """What each observer learned about each target in a run that happened.

    >>> import numpy as np
    >>> run = Transcript(nodes=3, offered=np.array([0, 1, 2]), updated=np.array([True, True, True]),
    ...                  step_sizes=1.0, noise_multiplier=10.0)
    >>> account = TranscriptAccountant(run)
    >>> round(account.mu(target=0, observer=1), 4), round(account.mu(target=0, observer=2), 4)
    (0.2, 0.1414)
    >>> account.worst().target, round(account.epsilon(delta=1e-6), 3)
    (2, 0.834)
    """

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.method = "transcript"
        self._updaters = transcript.updaters
        # Only ratios of step sizes matter; a unit of their own size keeps squares in range.
        steps = np.asarray(transcript.step_sizes)
        self._steps = steps / steps.max() if len(steps) else steps
        self._noise = np.asarray(transcript.noise_multiplier)
        self._links = _links(self._updaters)

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""
        seen = "is sent the token whenever it is its turn" if self.transcript.view == "offered" else "updates"
        return Claim(
            protected="any node",
            against=f"any other node, which sees the token when it {seen}, knows the path and sees the final model",
            method=self.method,
            view=self.transcript.view,
            assumptions=(
                "it is about the path that was taken, which no data may have decided",
                CONTRACTIONS if self.transcript.convex else IN_FULL,
            ),
        )

    def _chain(self) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats]:
        """Return the chain of updates in the units of the proof: with k = 1 a shift is 2 eta, a noise std eta sigma."""
        contraction = np.asarray(self.transcript.contraction)
        return (
            self._updaters,
            *self._links,
            2.0 * self._steps,
            (self._steps * self._noise) ** 2,
            contraction,
        )

    def _own_releases(self) -> Floats:
        """Return mu^2 of each node if each of its updates counts in full."""
        counts = np.bincount(self._updaters, (2.0 / self._noise) ** 2, self.transcript.nodes)
        return np.asarray(counts, dtype=np.float64)

    def _rows(self, first: int, last: int) -> Floats:
        """Return mu^2 for observers first..last-1 (rows) and all targets."""
        from ._intervals import observers_mu2  # numba is loaded only where it is needed

        plain = self._own_releases()
        out = np.zeros((last - first, self.transcript.nodes))
        if self.transcript.convex:
            looks, start = self.transcript.looks()
            observers_mu2(first, last, looks, start, *self._chain(), out)
            out = np.minimum(np.nan_to_num(out, nan=np.inf), plain)
        else:
            out[:] = plain
        out[np.arange(last - first), np.arange(first, last)] = 0.0
        return out * _rounding(len(self._updaters))

    def matrix(self, *, threads: int | None = None) -> Floats:
        """Return mu for all pairs, as an array [target, observer]; the diagonal is 0."""
        return np.sqrt(self._all_rows(threads)).T

    def _all_rows(self, threads: int | None) -> Floats:
        n = self.transcript.nodes
        workers = max(1, threads or os.cpu_count() or 1)
        edges = np.linspace(0, n, min(n, 8 * workers) + 1).astype(int)
        with ThreadPoolExecutor(workers) as pool:
            return np.concatenate(list(pool.map(self._rows, edges[:-1].tolist(), edges[1:].tolist())))

    def seen_by(self, observer: int) -> Floats:
        """Return mu about every target, for one observer."""
        _require_node("observer", observer, self.transcript.nodes)
        return np.sqrt(self._rows(observer, observer + 1)[0])

    def mu(self, target: int, observer: int | Sequence[int]) -> float:
        """Return mu for one target and one observer, or a coalition of observers who pool what they saw."""
        _require_node("target", target, self.transcript.nodes)
        observers = [observer] if isinstance(observer, int | np.integer) else list(observer)
        if not observers:
            raise InvalidInput("observer", observer, "at least one node")
        for node in observers:
            _require_node("observer", node, self.transcript.nodes)
            if node == target:
                raise InvalidInput.because("observer", node, "is the target itself")
        if len(observers) == 1:
            return float(self.seen_by(int(observers[0]))[target])
        return math.sqrt(self._coalition(target, observers))

    def _coalition(self, target: int, observers: Sequence[int]) -> float:
        from ._intervals import observers_mu2  # numba is loaded only where it is needed

        plain = float(self._own_releases()[target])
        rounding = _rounding(len(self._updaters))
        if not self.transcript.convex:
            return plain * rounding
        looks, start = self.transcript.looks()
        union = np.unique(np.concatenate([looks[start[v] : start[v + 1]] for v in observers]))
        out = np.zeros((1, self.transcript.nodes))
        observers_mu2(0, 1, union, np.array([0, len(union)]), *self._chain(), out)
        return float(np.fmin(out[0, target], plain)) * rounding

    def worst(self, *, threads: int | None = None) -> WorstPair:
        """Return the pair that leaks most."""
        rows = self._all_rows(threads)
        if not rows.any():
            return WorstPair(0.0, 0, 1)
        observer, target = divmod(int(np.argmax(rows)), self.transcript.nodes)
        return WorstPair(math.sqrt(float(rows[observer, target])), target, observer)

    def epsilon(self, delta: float) -> float:
        """Return epsilon of the pair that leaks most."""
        return gdp_epsilon(self.worst().mu, delta)

    def delta(self, epsilon: float) -> float:
        """Return delta of the pair that leaks most; unless it is 0, it is at least `LEAST_DELTA`."""
        return float(self.curve([epsilon])[0])

    def curve(self, epsilons: Iterable[float]) -> Floats:
        """Return delta of the pair that leaks most, for each epsilon."""
        mu = self.worst().mu
        least = LEAST_DELTA if mu > 0.0 else 0.0
        return np.array([max(gdp_delta(mu, float(epsilon)), least) for epsilon in epsilons])


class RunningTranscript(GaussianAccountant):
    """The same account while a run goes on: append what happens, ask for the worst pair so far.

    It keeps a sum for every pair, closed at the observer's last look; `worst` adds what everyone would see now.
    With `target` given, only that node's own leakage is asked for (a node's own ledger). Without `convex` each update
    of a target counts in full.

    >>> account = RunningTranscript(nodes=3)
    >>> for node in (0, 1, 2):
    ...     account.update(node, step_size=1.0, noise_multiplier=10.0)
    >>> round(account.worst().mu, 4)
    0.2
    """

    def __init__(self, nodes: int, *, target: int | None = None, convex: bool = True) -> None:
        require_integer("nodes", nodes, 2)
        self.convex = convex
        self.nodes = nodes
        if target is not None:
            _require_node("target", target, nodes)
        self._targets = np.arange(nodes) if target is None else np.array([target])
        self._unit = 1.0  # the first step size; only ratios matter
        self._updates = 0
        self._ints = np.full((3, 64), -1, dtype=np.int64)  # node, previous, following
        self._floats = np.zeros((3, 64))  # shift, variance, contraction
        self._last_update = np.full(nodes, -1, dtype=np.int64)
        self._last_look = np.zeros(nodes, dtype=np.int64)
        self._closed = np.zeros((nodes, nodes))  # observer x target
        self._plain = np.zeros(nodes)  # what each target's updates cost if they count in full

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""
        return Claim(
            protected="any node" if len(self._targets) > 1 else f"node {self._targets[0]}",
            against="any other node, which sees the token when it is sent it, knows the path and sees the final model",
            method="running transcript",
            view="offered",
            assumptions=(
                "it is about the path that was taken so far, which no data may have decided",
                CONTRACTIONS if self.convex else IN_FULL,
            ),
        )

    def _worst_mu(self) -> float:
        return self.worst().mu

    def _arrays(self) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats]:
        n = self._updates
        node, previous, following = self._ints[:, :n]
        shift, variance, contraction = self._floats[:, :n]
        return node, previous, following, shift, variance, contraction

    def look(self, observer: int) -> None:
        """Record that a node was sent the token as it is now."""
        from ._intervals import add_interval  # numba is loaded only where it is needed

        _require_node("observer", observer, self.nodes)
        low, high = int(self._last_look[observer]), self._updates
        if high > low:
            scratch = np.empty((2, high))
            stack = np.empty((2, high - low + 1))
            add_interval(low, high, *self._arrays(), scratch[0], scratch[1], stack, self._closed[observer])
        self._last_look[observer] = high

    def update(self, node: int, *, step_size: float, noise_multiplier: float, contraction: float = 1.0) -> None:
        """Record that a node, having been sent the token, updated it."""
        require_positive("step_size", step_size)
        require_positive("noise_multiplier", noise_multiplier)
        if not 0.0 <= contraction < math.inf:
            raise InvalidInput("contraction", contraction, "a finite number of at least 0")
        _require_node("node", node, self.nodes)
        step_size, noise_multiplier = float(step_size), float(noise_multiplier)  # a float16 would round the bound
        if self._updates == 0:
            self._unit = step_size
        step_size /= self._unit
        if not (1.0 / _RANGE < step_size < _RANGE and 1.0 / _RANGE < noise_multiplier < _RANGE):
            raise InvalidInput.because(
                "step_size", step_size * self._unit, f"or its noise is out of range (a factor of {_RANGE:g})"
            )
        self.look(node)
        c = self._updates
        if c == self._ints.shape[1]:
            self._ints = np.concatenate([self._ints, np.full_like(self._ints, -1)], axis=1)
            self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)], axis=1)
        before = int(self._last_update[node])
        self._ints[:, c] = node, before, -1
        if before >= 0:
            self._ints[2, before] = c
        self._floats[:, c] = 2.0 * step_size, (step_size * noise_multiplier) ** 2, contraction
        self._plain[node] += (2.0 / noise_multiplier) ** 2
        self._last_update[node] = c
        self._updates += 1
        # The updater knows the token after its own update; that interval holds no update of anyone else.
        self._last_look[node] = self._updates

    def worst(self) -> WorstPair:
        """Return the pair that leaks most if the run ended now and everyone were sent the model."""
        from ._intervals import worst_open  # numba is loaded only where it is needed

        if not self.convex:
            target = int(self._targets[np.argmax(self._plain[self._targets])])
            return WorstPair(math.sqrt(float(self._plain[target])), target, 0 if target else 1)
        mu2, target, observer = worst_open(
            self._updates, self._last_look, self._targets, self._closed, self._plain, *self._arrays()
        )
        if mu2 == 0.0:
            return WorstPair(0.0, int(self._targets[0]), 0 if self._targets[0] else 1)
        return WorstPair(math.sqrt(mu2 * _rounding(self._updates)), target, observer)
