"""What each observer has learned about one node, while a run goes on: the account that a node keeps of itself.

It says what `TranscriptAccountant` would say of the run so far, without a compiler. A node process starts quickly, and
needs memory for the nodes and for those of its own updates that some node has not looked after yet, however long it is.
"""

from __future__ import annotations

import math
from typing import get_args

import numpy as np

from .._arrays import Doubles
from ..errors import InvalidInput, require_integer, require_positive
from .accountant import AMPLIFIED, ANOTHER_NODE, IN_FULL, USUAL_UNIT, Guarantee, Unit
from .gaussian import GaussianAccountant
from .transcript import _RANGE, WorstPair, _require_node, _rounding, require_one_part, require_part

#: How many segments that nobody asks for any more are kept, to be dropped together.
_SPARE = 256


class OwnTranscript(GaussianAccountant):
    """What observers learned about one target: append what happens, ask what it has cost so far.

    An observer's interval is what happened between two of its looks. Of an interval only the target's own updates
    matter (each a shift), and the noise between one of them and the next, or the look. So the run is cut at the
    target's updates: a segment is one of them and all that follows up to the next. An interval holds whole segments,
    but for its end: the newest segment as far as it has come. What lies before the first own update in an interval has
    nothing to hide. Sums of noise thus only ever grow from 0, and none is a difference of two others: they are as exact
    as sums of positive numbers are, however long the run.

    Parameters
    ----------
    nodes : number of nodes; they are numbered from 0.
    target : the node whose data is at stake.
    convex : False if nothing is known about the update maps; then each update of the target counts in full.
    parts : into how many parts the target has dealt its persons or records, of which each of its updates uses one. A
        unit is in one part: the account is that of the part about which most is known.
    protects : what is hidden: all data of a ``node``, all rows of a ``person``, or one ``record``.

    >>> account = OwnTranscript(nodes=3, target=0)
    >>> for node in (0, 1, 2):
    ...     account.update(node, step_size=1.0, noise_multiplier=10.0)
    >>> [round(float(mu2), 4) for mu2 in account.mu2_by_observer()]
    [0.0, 0.04, 0.02]
    """

    def __init__(
        self, nodes: int, target: int, *, convex: bool = True, parts: int = 1, protects: Unit = USUAL_UNIT
    ) -> None:
        require_integer("nodes", nodes, 2)
        require_integer("parts", parts, 1, 10**6)
        if protects not in get_args(Unit):
            raise InvalidInput("protects", protects, "one of " + ", ".join(get_args(Unit)))
        require_one_part(parts, protects)
        _require_node("target", target, nodes)
        self.nodes, self.convex, self.protects = nodes, convex, protects
        self._unit = 1.0  # the first step size; only ratios matter
        self._updates = 0
        self.parts = parts
        self._of_part: dict[int, OwnTranscript] = {}  # of several parts: each a target of its own, from its first use
        self.target = target
        self._plain = 0.0  # what the target's updates cost if each counts in full
        self._dropped = 0  # segments that all have looked after: no interval begins in them any more
        self._shifts: list[float] = []  # of each segment that is left
        self._noises: list[float] = []  # the variance in each segment so far; only the last one grows
        self._open = [0] * nodes  # the first segment that began after the observer's last look
        self._closed = [0.0] * nodes  # what the observer had learned at its last look

    def look(self, observer: int) -> None:
        """Record that a node was sent the token as it is now."""
        _require_node("observer", observer, self.nodes)
        for account in self._of_part.values():
            account.look(observer)
        first, now = self._open[observer], self._segments
        if first < now:
            self._closed[observer] += self._costs(first)[0]
            self._open[observer] = now

    def update(
        self,
        node: int,
        *,
        step_size: float,
        noise_multiplier: float,
        part: int | None = None,
        closing: bool = False,
    ) -> None:
        """Record that a node, having been sent the token, updated it; at a closing hop, by noise alone.

        If the target has several parts, its own updates say which one they used. It is its turn number (all hops
        offered to it in the run, from 0, skipped or not) mod `parts`. What other nodes used does not matter.
        """
        step, noise = self._checked(node, step_size, noise_multiplier)
        used = require_part(part, self.parts) if node == self.target and not closing else -1
        self._updates += 1
        variance = (step * noise) ** 2
        if closing and node == self.target:  # noise like that of others, which nothing of its own goes with
            for account in self._of_part.values() if self.parts > 1 else [self]:
                account._updates += account is not self
                if account._noises:
                    account._noises[-1] += variance
        elif self.parts > 1:
            self._update_parts(node, step, noise, used)
        elif node == self.target:
            self._shifts.append(2.0 * step)
            self._noises.append(variance)
            self._plain += (2.0 / noise) ** 2
            self._open[node] = self._segments  # it learns nothing about itself
            self._drop()
        else:
            # It saw the token just before, and knows its own noise: that hides nothing from it, but all from others.
            self.look(node)
            if self._noises:
                self._noises[-1] += variance

    def _checked(self, node: int, step_size: float, noise_multiplier: float) -> tuple[float, float]:
        """Return the step size of a node's update, in units of the first one, and its noise; refuse what is none."""
        require_positive("step_size", step_size)
        require_positive("noise_multiplier", noise_multiplier)
        _require_node("node", node, self.nodes)
        step_size, noise_multiplier = float(step_size), float(noise_multiplier)  # a float16 would round the bound
        if self._updates == 0:
            self._unit = step_size
        step = step_size / self._unit
        if not (1.0 / _RANGE < step < _RANGE and 1.0 / _RANGE < noise_multiplier < _RANGE):
            raise InvalidInput.because("step_size", step_size, f"or its noise is out of range (a factor of {_RANGE:g})")
        return step, noise_multiplier

    @property
    def _segments(self) -> int:
        """How many there have been."""
        return self._dropped + len(self._shifts)

    def _drop(self) -> None:
        """Forget the segments that all have looked after, if they are many."""
        spare = min(self._open) - self._dropped
        if spare > _SPARE:
            del self._shifts[:spare], self._noises[:spare]
            self._dropped += spare

    def _update_parts(self, node: int, step: float, noise_multiplier: float, used: int) -> None:
        """Tell the account of each part; to the others than the one that was used an own update is just noise."""
        if node == self.target and used not in self._of_part:
            # Nothing of this part was hidden before, so nothing that happened before matters.
            self._of_part[used] = OwnTranscript(self.nodes, self.target, convex=self.convex, protects=self.protects)
            self._of_part[used]._updates = self._updates - 1  # its step sizes are in units of the first one, as here
        for part, account in self._of_part.items():
            if node != self.target or part == used:
                account.update(node, step_size=step, noise_multiplier=noise_multiplier)
            else:
                account._updates += 1
                account._noises[-1] += (step * noise_multiplier) ** 2

    def mu2_by_observer(self, part: int | None = None) -> Doubles:
        """Return mu^2 for each observer if the run ended now and everyone were sent the model; 0 for the target.

        It is about the part of which most is known to that observer, or about the one that is asked for.
        """
        if part is not None:
            known = self._of_part.get(require_part(part, self.parts)) if self.parts > 1 else self
            return np.zeros(self.nodes) if known is None else known.mu2_by_observer()
        if self.parts > 1:
            known_of = [account.mu2_by_observer() for account in self._of_part.values()]
            return np.max([np.zeros(self.nodes), *known_of], axis=0)
        if self.convex:
            first = min(self._open)
            waiting = np.array([*self._costs(first), 0.0])  # the last: nothing new since the observer's last look
            mu2 = np.minimum(np.array(self._closed) + waiting[np.array(self._open) - first], self._plain)
        else:
            mu2 = np.full(self.nodes, self._plain)
        mu2[self.target] = 0.0
        return mu2 * _rounding(self._updates)

    def worst(self) -> WorstPair:
        """Return the observer who would know most if the run ended now and everyone were sent the model."""
        mu2 = self.mu2_by_observer()
        if not mu2.any():
            return WorstPair(0.0, self.target, 0 if self.target else 1)
        observer = int(np.argmax(mu2))
        return WorstPair(math.sqrt(float(mu2[observer])), self.target, observer)

    def _worst_mu(self) -> float:
        return self.worst().mu

    def guarantee(self, delta: float) -> Guarantee:
        """Return the epsilon at a delta with all that it cannot be read without."""
        return Guarantee(
            protects=self.protects,
            whose=f"node {self.target}",
            against=ANOTHER_NODE,
            sees="which sees the token when it is sent it, knows the path and sees the final model",
            method="own transcript",
            delta=delta,
            epsilon=self.epsilon(delta),
            assumptions=(
                "it is about the path that was taken so far, which no data may have decided",
                AMPLIFIED if self.convex else IN_FULL,
            ),
        )

    def _costs(self, first: int) -> list[float]:
        """Return what a look now costs if the one before was in the segment before `first`, `first` + 1, and so on.

        The cheapest way to absorb the shifts is the greatest convex minorant of (noise so far, shift so far). Pooling
        adjacent violators from the end finds it for each beginning in one pass.
        """
        costs: list[float] = []
        pools: list[tuple[float, float, float]] = []  # shift, noise, cost from here to the end; the earliest on top
        for segment in range(len(self._shifts) - 1, first - self._dropped - 1, -1):
            shift, noise = self._shifts[segment], self._noises[segment]
            while pools and shift / noise >= pools[-1][0] / pools[-1][1]:
                later = pools.pop()
                shift += later[0]
                noise += later[1]
            cost = shift * shift / noise + (pools[-1][2] if pools else 0.0)
            pools.append((shift, noise, cost))
            costs.append(cost)
        return costs[::-1]
