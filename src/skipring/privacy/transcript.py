"""Tight privacy of a run after it happened: what each observer learned about each target.

Given who updated when, the step sizes and the noise, the view of an observer is mu-GDP with a mu that is the exact
optimum of the shift-and-absorb argument (docs/privacy.md, "Transcript"). It needs no law of the path: dead nodes,
adaptive timeouts and refusals are all in the transcript.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Floats, Ints
from ..errors import InvalidInput, require_integer
from .accountant import ALONE, ANOTHER_NODE, IN_FULL, OUTSIDER, SHOWN, USUAL_UNIT, Guarantee, Unit
from .gaussian import GaussianAccountant, gdp_epsilon
from .record import Against

CONTRACTIONS = (
    "the noise of others counts: no update may bring two models further apart than its contraction factor says"
)
#: Step sizes and noises of one run may differ by this factor; squares of what is allowed cannot overflow.
_RANGE = 1e60
#: The observer of a pair where that is an outsider.
OUTSIDE = -1
#: How many numbers are kept at once for observers and parts of targets.
_MOST_NUMBERS = 1 << 22


def _rounding(updates: int) -> float:
    """Return what gives back all that rounding in sums over the updates may take away."""
    return 1.0 + 1e-10 + 1e-15 * updates


def _require_node(parameter: str, node: int, nodes: int) -> None:
    require_integer(parameter, node, 0)
    if node >= nodes:
        raise InvalidInput(parameter, node, f"a node from 0 to {nodes - 1}")


def require_part(part: int | None, parts: int) -> int:
    """Return which part an update used. Where there are several it must be said: counting turns is easily wrong."""
    if part is None:
        if parts > 1:
            raise InvalidInput("part", part, f"a part from 0 to {parts - 1}: the updater's turn number mod {parts}")
        return 0
    require_integer("part", part, 0)
    if part >= parts:
        raise InvalidInput("part", part, f"a part from 0 to {parts - 1}")
    return int(part)


def require_one_part(parts: int, protects: Unit) -> None:
    """Refuse several parts where a whole node is hidden."""
    if parts > 1 and protects == "node":
        reason = "a whole node is in all of its parts; only a person or a record is in one of them"
        raise InvalidInput.because("parts", parts, reason)


class WorstPair(NamedTuple):
    """The pair that leaks most: the observer's view of the target's data is mu-GDP.

    The observer is `OUTSIDE` where it is no node, but an outsider who is shown the final model only.
    """

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
    against : ``node`` sees the token at each hop offered to it. ``skipped-node``: only when it is sent it.
        ``final``: it is about an outsider, who is shown the final model and nothing else.
    parts : into how many parts each node has dealt its persons or records: one number, or one for each node. At its
        turn number r (hops offered to it, from 0, skipped or not) a node uses part r mod `parts` only.
    protects : what is hidden: all data of a ``node``, all rows of a ``person``, or one ``record``. `noise_multiplier`
        is the noise std over the most that one such unit can contribute to an update.
    passed_on : for each hop, whether its node was sent the token and passed it on unchanged; None: nowhere. Such a node
        has looked, whatever members see, and has added no noise.
    closing : how many hops at the end carry no data: who takes part in them adds noise and no gradient.
    """

    nodes: int
    offered: ArrayLike
    updated: ArrayLike
    step_sizes: ArrayLike
    noise_multiplier: ArrayLike
    contraction: ArrayLike = 1.0
    convex: bool = True
    against: Against = "node"
    parts: ArrayLike = 1
    protects: Unit = USUAL_UNIT
    passed_on: ArrayLike | None = None
    closing: int = 0

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)
        for parameter, names in (("against", get_args(Against)), ("protects", get_args(Unit))):
            if getattr(self, parameter) not in names:
                raise InvalidInput(parameter, getattr(self, parameter), "one of " + ", ".join(names))
        parts = parts_of_nodes(self.parts, self.nodes)
        require_one_part(int(parts.max()), self.protects)
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        if offered.ndim != 1 or updated.shape != offered.shape or updated.dtype != np.bool_:
            raise InvalidInput("updated", f"shape {updated.shape}", "a truth value for each hop offered")
        if len(offered) and (offered.dtype.kind not in "iu" or offered.min() < 0 or offered.max() >= self.nodes):
            raise InvalidInput("offered", "a node", f"a whole number from 0 to {self.nodes - 1} for each hop")
        passed_on = np.zeros_like(updated) if self.passed_on is None else np.asarray(self.passed_on)
        if passed_on.shape != offered.shape or passed_on.dtype != np.bool_ or (passed_on & updated).any():
            raise InvalidInput("passed_on", "given", "a truth value for each hop, and none where the node updated")
        require_integer("closing", self.closing, 0)
        if self.closing > len(offered):
            raise InvalidInput("closing", self.closing, f"at most the {len(offered)} hops of the run")
        updates = int(updated.sum())
        checked = {
            "parts": parts,
            "passed_on": passed_on.copy(),
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

    @property
    def with_data(self) -> NDArray[np.bool_]:
        """Whether each update used data of the updater: all do, but for those of closing hops."""
        updated = np.asarray(self.updated)
        hops = np.arange(len(updated)) < len(updated) - self.closing
        used: NDArray[np.bool_] = hops[updated]
        return used

    @property
    def parts_used(self) -> Ints:
        """Which part of its data the updater used, for each update: turns count, whether it updated or was skipped."""
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        order = np.argsort(offered, kind="stable")
        turns = np.empty(len(offered), dtype=np.int64)
        turns[order] = np.arange(len(offered)) - np.searchsorted(offered[order], offered[order])
        used: Ints = (turns % np.asarray(self.parts)[offered])[updated]
        return used

    def looks(self) -> tuple[Ints, Ints]:
        """Return (looks, start): looks[start[v]:start[v+1]] are the numbers of updates after which v saw the token.

        A node that updates saw the token before, and knows it after. Everyone sees the final model.
        """
        offered, updated = np.asarray(self.offered), np.asarray(self.updated)
        before = np.cumsum(updated) - updated
        # Looks are not derived from updates alone: a node that passes the token on unchanged has seen it, too.
        sees = np.ones_like(updated) if self.against == "node" else updated | np.asarray(self.passed_on)
        everyone = np.arange(self.nodes)
        nodes = np.concatenate([offered[sees], offered[updated], everyone])
        looks = np.concatenate([before[sees], before[updated] + 1, np.full(self.nodes, int(updated.sum()))]).astype(
            np.int64
        )
        order = np.lexsort((looks, nodes))
        start = np.searchsorted(nodes[order], np.arange(self.nodes + 1))
        return looks[order], start.astype(np.int64)


def parts_of_nodes(parts: ArrayLike, nodes: int) -> Ints:
    """Return the number of parts of each node."""
    given = np.asarray(parts)
    if given.dtype.kind not in "iu" or given.shape not in ((), (nodes,)) or np.any((given < 1) | (given > 10**6)):
        raise InvalidInput("parts", parts, f"a whole number from 1 to 1e6, or one for each of the {nodes} nodes")
    return np.array(np.broadcast_to(given, (nodes,)), dtype=np.int64)


def _links(updaters: Ints) -> tuple[Ints, Ints]:
    """Return for each update the previous and the next one of the same node or part of a node (-1: none)."""
    previous, following = np.full(len(updaters), -1), np.full(len(updaters), -1)
    order = np.argsort(updaters, kind="stable")
    same = updaters[order[1:]] == updaters[order[:-1]]
    previous[order[1:][same]] = order[:-1][same]
    following[order[:-1][same]] = order[1:][same]
    return previous, following


class TranscriptAccountant(GaussianAccountant):
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
        # A part of a node is a target of its own: the updates with the node's other parts are noise like that of
        # others.
        self._targets, self._owners = self._updaters, np.arange(transcript.nodes)
        if np.asarray(transcript.parts).max() > 1:
            most = int(np.asarray(transcript.parts).max())
            used, self._targets = np.unique(self._updaters * most + transcript.parts_used, return_inverse=True)
            self._owners = used // most  # in ascending order
        self._links = _links(self._targets)

    def guarantee(self, delta: float, epsilon: float | None = None) -> Guarantee:
        """Return the epsilon at a delta, or one known to be kept, with all that it cannot be read without.

        Beside what other nodes learned it says what an outsider did.
        """
        run = self.transcript
        notes = ["it is about the path that was taken, which no data may have decided"]
        notes.append(CONTRACTIONS if run.convex else IN_FULL)
        if np.asarray(run.parts).max() > 1:
            notes.append(f"the {run.protects} is in one part of its node's data, and who looks may know in which")
        outsider = Guarantee(
            protects=run.protects,
            whose="any node",
            against=OUTSIDER,
            sees=SHOWN,
            method=self.method,
            delta=delta,
            epsilon=gdp_epsilon(float(self.seen_outside().max()), delta),
            assumptions=(*notes, ALONE),
        )
        if run.against == "outsider":
            return outsider
        seen = "is sent the token whenever it is its turn" if run.against == "node" else "updates, or passes it on"
        return replace(
            outsider,
            against=ANOTHER_NODE,
            sees=f"which sees the token when it {seen}, knows the path and sees the final model",
            epsilon=self.epsilon(delta) if epsilon is None else epsilon,
            assumptions=tuple(notes),
            also=(outsider,),
        )

    def _chain(self, steps: Floats) -> tuple[Ints, Ints, Ints, Floats, Floats, Floats]:
        """Return the chain of updates in the units of the proof: with k = 1 a shift is 2 eta, a noise std eta sigma."""
        contraction = np.asarray(self.transcript.contraction)
        return (
            self._targets,
            *self._links,
            # A closing hop has the same data in both worlds, which is none: its noise counts, and brings no drift.
            np.where(self.transcript.with_data, 2.0 * steps, 0.0),
            (steps * self._noise) ** 2,
            contraction,
        )

    def _own_releases(self) -> Floats:
        """Return mu^2 of each target (node, or part of one) if each of its updates counts in full."""
        releases = np.where(self.transcript.with_data, (2.0 / self._noise) ** 2, 0.0)
        counts = np.bincount(self._targets, releases, len(self._owners))
        return np.asarray(counts, dtype=np.float64)

    def _of_nodes(self, mu2: Floats) -> Floats:
        """Return for each node the largest of its parts (in the last axis)."""
        if self._targets is self._updaters:
            return mu2
        out = np.zeros((*mu2.shape[:-1], self.transcript.nodes))
        if len(self._owners):
            nodes, first = np.unique(self._owners, return_index=True)
            out[..., nodes] = np.maximum.reduceat(mu2, first, axis=-1)
        return out

    def _looked(self, looks: Ints, start: Ints, first: int, last: int, steps: Floats | None = None) -> Floats:
        """Return mu^2 about all targets, parts of nodes among them, for observers first..last-1 with these looks.

        `steps` takes the place of the step sizes.
        """
        plain = self._own_releases()
        out = np.zeros((last - first, len(plain)))
        if self.transcript.convex:
            from ._between_looks import observers_mu2  # numba is loaded only where it is needed

            chain = self._chain(self._steps if steps is None else steps)
            observers_mu2(first, last, looks, start, *chain, out)
            out = np.minimum(np.nan_to_num(out, nan=np.inf), plain)
        else:
            out[:] = plain
        return out * _rounding(len(self._updaters))

    def _rows(self, first: int, last: int) -> Floats:
        """Return mu^2 for observers first..last-1 (rows) and all targets."""
        looks, start = self.transcript.looks()
        some = max(1, _MOST_NUMBERS // max(1, len(self._owners)))
        out = np.concatenate(
            [self._of_nodes(self._looked(looks, start, low, min(low + some, last))) for low in range(first, last, some)]
        )
        out[np.arange(last - first), np.arange(first, last)] = 0.0
        return out

    def seen_outside(self) -> Floats:
        """Return mu about every target for an outsider, who is shown the final model and nothing else.

        It does not depend on `against`, nor hold if the outsider and a node put together what they saw.
        """
        updates = np.array([len(self._updaters)])
        return np.sqrt(self._of_nodes(self._looked(updates, np.array([0, 1]), 0, 1))[0])

    def _require_members(self) -> None:
        if self.transcript.against == "outsider":
            raise InvalidInput.because("against", "outsider", "ask for seen_outside() or worst()")

    def matrix(self, *, threads: int | None = None) -> Floats:
        """Return mu for all pairs, as an array [target, observer]; the diagonal is 0."""
        self._require_members()
        return np.sqrt(self._all_rows(threads)).T

    def _all_rows(self, threads: int | None) -> Floats:
        n = self.transcript.nodes
        workers = max(1, threads or os.cpu_count() or 1)
        edges = np.linspace(0, n, min(n, 8 * workers) + 1).astype(int)
        with ThreadPoolExecutor(workers) as pool:
            return np.concatenate(list(pool.map(self._rows, edges[:-1].tolist(), edges[1:].tolist())))

    def mu(self, target: int, observer: int | Sequence[int]) -> float:
        """Return mu for one target and one observer, or a coalition of observers who pool what they saw."""
        self._require_members()
        _require_node("target", target, self.transcript.nodes)
        observers = [observer] if isinstance(observer, int | np.integer) else list(observer)
        if not observers:
            raise InvalidInput("observer", observer, "at least one node")
        for node in observers:
            _require_node("observer", node, self.transcript.nodes)
            if node == target:
                raise InvalidInput.because("observer", node, "is the target itself")
        if len(observers) == 1:
            return math.sqrt(float(self._rows(int(observers[0]), int(observers[0]) + 1)[0, target]))
        return math.sqrt(self._coalition(target, observers))

    def _coalition(self, target: int, observers: Sequence[int]) -> float:
        looks, start = self.transcript.looks()
        union = np.unique(np.concatenate([looks[start[v] : start[v + 1]] for v in observers]))
        return float(self._of_nodes(self._looked(union, np.array([0, len(union)]), 0, 1))[0, target])

    def worst(self, *, threads: int | None = None) -> WorstPair:
        """Return the pair that leaks most."""
        if self.transcript.against == "outsider":
            mu = self.seen_outside()
            return WorstPair(float(mu.max()), int(np.argmax(mu)), OUTSIDE)
        rows = self._all_rows(threads)
        if not rows.any():
            return WorstPair(0.0, 0, 1)
        observer, target = divmod(int(np.argmax(rows)), self.transcript.nodes)
        return WorstPair(math.sqrt(float(rows[observer, target])), target, observer)

    def _worst_mu(self) -> float:
        return self.worst().mu
