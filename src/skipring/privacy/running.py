"""The account of all pairs while a run goes on: what a finished `Transcript` would say, update by update."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from .._arrays import Floats, Ints
from ..errors import InvalidInput, require_integer
from ._growing import GrowingTranscript
from .accountant import IN_FULL, USUAL_UNIT, Claim, Unit
from .transcript import CONTRACTIONS, WorstPair, _require_node, _rounding, parts_of_nodes, require_part

#: So many numbers are kept at most: one for each observer and part of a node.
_MOST_RUNNING = 1 << 27


class RunningTranscript(GrowingTranscript):
    """The same account while a run goes on: append what happens, ask for the worst pair so far.

    It keeps a sum for every pair, closed at the observer's last look; `worst` adds what everyone would see now.
    With `target` given, only that node's own leakage is asked for (a node's own ledger). Without `convex` each update
    of a target counts in full. `parts` is into how many parts each node has dealt its persons or records (one number,
    or one for each node); each update of a node with several says which of them it used. `protects` is what is hidden.

    >>> account = RunningTranscript(nodes=3)
    >>> for node in (0, 1, 2):
    ...     account.update(node, step_size=1.0, noise_multiplier=10.0)
    >>> round(account.worst().mu, 4)
    0.2
    """

    def __init__(
        self,
        nodes: int,
        *,
        target: int | None = None,
        convex: bool = True,
        parts: ArrayLike = 1,
        protects: Unit = USUAL_UNIT,
    ) -> None:
        require_integer("nodes", nodes, 2)
        self.parts = parts_of_nodes(parts, nodes)
        super().__init__(nodes, convex=convex, parts=int(self.parts.max()), protects=protects)
        self._first = np.concatenate([[0], np.cumsum(self.parts)])  # a part of a node is a target of its own
        if nodes * int(self._first[-1]) > _MOST_RUNNING:
            reason = f"few enough: nodes times parts of all nodes may be {_MOST_RUNNING:g} while a run goes on"
            raise InvalidInput("parts", int(self.parts.max()), reason)
        if target is not None:
            _require_node("target", target, nodes)
        self._owners = np.repeat(np.arange(nodes), self.parts)
        self._targets = np.arange(len(self._owners))
        if target is not None:
            self._targets = self._targets[self._owners == target]
        self._ints = np.full((3, 64), -1, dtype=np.int64)  # node, previous, following
        self._floats = np.zeros((3, 64))  # shift, variance, contraction
        self._last_update = np.full(len(self._owners), -1, dtype=np.int64)
        self._last_look = np.zeros(nodes, dtype=np.int64)
        self._closed = np.zeros((nodes, len(self._owners)))  # observer x target
        self._plain = np.zeros(len(self._owners))  # what each target's updates cost if they count in full

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""
        target = self._owners[self._targets[0]]
        protected = f"node {target}" if (self._owners[self._targets] == target).all() else "any node"
        return self._claimed(protected, "running transcript", CONTRACTIONS if self.convex else IN_FULL)

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

    def update(
        self,
        node: int,
        *,
        step_size: float,
        noise_multiplier: float,
        contraction: float = 1.0,
        part: int | None = None,
        closing: bool = False,
    ) -> None:
        """Record that a node, having been sent the token, updated it, with which part of its data if it has several.

        A closing hop adds noise and uses no data.
        """
        step, noise = self._checked(node, step_size, noise_multiplier)
        if not 0.0 <= contraction < math.inf:
            raise InvalidInput("contraction", contraction, "a finite number of at least 0")
        # A closing hop brings no drift, so it does not matter to which part of the node it is put down.
        target = int(self._first[node]) + (0 if closing else require_part(part, int(self.parts[node])))
        self.look(node)
        c = self._updates
        if c == self._ints.shape[1]:
            self._ints = np.concatenate([self._ints, np.full_like(self._ints, -1)], axis=1)
            self._floats = np.concatenate([self._floats, np.zeros_like(self._floats)], axis=1)
        before = int(self._last_update[target])
        self._ints[:, c] = target, before, -1
        if before >= 0:
            self._ints[2, before] = c
        self._floats[:, c] = 0.0 if closing else 2.0 * step, (step * noise) ** 2, contraction
        if not closing:
            self._plain[target] += (2.0 / noise) ** 2
        self._last_update[target] = c
        self._updates += 1
        # The updater knows the token after its own update; that interval holds no update of anyone else.
        self._last_look[node] = self._updates

    def worst(self) -> WorstPair:
        """Return the pair that leaks most if the run ended now and everyone were sent the model."""
        from ._intervals import worst_open  # numba is loaded only where it is needed

        if not self.convex:
            worst = int(self._targets[np.argmax(self._plain[self._targets])])
            target = int(self._owners[worst])
            return WorstPair(math.sqrt(float(self._plain[worst])), target, 0 if target else 1)
        mu2, worst, observer = worst_open(
            self._updates, self._last_look, self._targets, self._owners, self._closed, self._plain, *self._arrays()
        )
        target = int(self._owners[worst if mu2 > 0.0 else self._targets[0]])
        if mu2 == 0.0:
            return WorstPair(0.0, target, 0 if target else 1)
        return WorstPair(math.sqrt(mu2 * _rounding(self._updates)), target, observer)
