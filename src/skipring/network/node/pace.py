"""How long a holder waits for a node: a time that was given, or one that is learned while the run goes on."""

from __future__ import annotations

import math
from collections import deque
from statistics import median
from typing import Any, Protocol

from ...errors import InvalidInput, require_integer, require_non_negative, require_positive

#: The timeout is reconsidered after every round of this many observations.
_ROUND = 16
#: Fewer nodes that were ready teach nothing.
_ENOUGH = 20
#: What a hop costs is the median of the last hops; before there is any, a millisecond.
_HOPS = 100
_FIRST_HOP = 1e-3
#: Of the timeouts that are this close to the best, the longest is taken: it is as good, and shows more.
_AS_GOOD = 1.02
#: A node that takes a little longer than those seen is not to be missed.
_MARGIN = 1.05
#: Timers are no finer than this.
_SHORTEST = 1e-3
#: What a node has seen itself counts as much as this many claims.
_OWN = 2
#: After a round as unlikely as this, what was learned before it is forgotten.
_SURPRISING = 1e-3
#: One offer in this many waits longer than the timeout.
_EXPLORING = 32


class Pace(Protocol):
    """How long a holder waits for the nodes that it offers the token to; all times are in seconds."""

    @property
    def timeout(self) -> float:
        """The timeout in force."""

    def offered(self) -> float:
        """Return how long to wait for the node of a new offer; to be asked once per offer."""

    def saw(self, waited: float, ready: bool, *, own: bool = True) -> None:
        """Take note of how long an offer waited, and whether the node was ready then or was given up.

        A refusal is not an observation: it says nothing about how long nodes take. What is not this node's `own`
        observation came with a token, and is a claim.
        """

    def overhead(self, seconds: float) -> None:
        """Take note of what an offer cost beyond its wait, whether or not the node was ready.

        Sending the token and computing the update are no part of it: an update costs them whatever the timeout is,
        so they do not change which one is best.
        """


class FixedPace:
    """The same timeout for every offer."""

    def __init__(self, timeout: float) -> None:
        # Endless waits are for simulations: in a network, a node may be dead.
        require_positive("timeout", timeout)
        self._timeout = float(timeout)

    @property
    def timeout(self) -> float:
        """The timeout that was given."""
        return self._timeout

    def offered(self) -> float:
        """Return the timeout."""
        return self._timeout

    def saw(self, waited: float, ready: bool, *, own: bool = True) -> None:
        """Learn nothing."""

    def overhead(self, seconds: float) -> None:
        """Learn nothing."""


class AdaptivePace:
    """A timeout that is learned: the one with the least time between updates (Lemma 2), as far as one can see.

    What nodes take is estimated from the newest offers; one whose node was given up tells that it takes longer than
    that (the Kaplan-Meier estimate). What the estimate leaves open counts as never ready. Since a short timeout hides
    what is beyond it, one offer in 32 waits longer. Every second one of these waits twice the timeout, every fourth
    four times, and so on, up to twice the longest time that is known of a node. So exploring costs little even if many
    nodes are dead, and all lengths are seen.

    If in 16 offers nobody is ready in time, the next wait is twice as long; and if that was surprising, the nodes have
    changed, and all before is forgotten.

    What a token claims may be a lie. So a node's own observations count twice. If 16 of them in a row are of nobody in
    time, all claims are forgotten, and no claim is listened to any more. No timeout is shorter than a floor that the
    nodes have agreed on.

    Nothing here depends on data, models or chance: only on how long nodes took. A process that
    restarts goes on from what was `learned`.

    Parameters
    ----------
    first : the timeout until twenty nodes were ready.
    longest : no offer waits longer.
    shortest : nor shorter: the floor.
    memory : how many of the newest observations count.
    """

    def __init__(
        self, first: float = 2.0, longest: float = 60.0, memory: int = 500, *, shortest: float = _SHORTEST
    ) -> None:
        # Loaded now: it takes half a second, for which nobody should wait with the token in hand.
        from ...delays import Empirical

        require_positive("longest", longest)
        require_positive("first", first)
        if first > longest:
            raise InvalidInput("first", first, f"at most the longest wait, {longest:g}")
        if not _SHORTEST <= shortest <= longest:
            raise InvalidInput("shortest", shortest, f"{_SHORTEST:g} to the longest wait, {longest:g}")
        require_integer("memory", memory, at_least=100)
        self._law = Empirical
        self._shortest, self._longest = float(shortest), float(longest)
        self._timeout = max(float(first), self._shortest)
        self._seen: deque[tuple[float, bool, bool]] = deque(maxlen=memory)  # how long, whether ready, whether own
        self._overheads: deque[float] = deque(maxlen=_HOPS)
        self._offers = 0
        self._news = 0  # observations since the timeout was last reconsidered
        self._in_time = 0  # how many of them were of nodes ready within the timeout
        self._chance = 0.0  # that a node is, as far as is known
        self._missed = 0  # own observations, since a node was last in time
        self._alone = False  # claims are not listened to

    @property
    def learned(self) -> dict[str, Any]:
        """What was learned so far, for `recall`."""
        return {"timeout": self._timeout, "alone": self._alone, "turns": [list(turn) for turn in self._seen]}

    def recall(self, learned: Any) -> None:
        """Go on from what was `learned`; what is no such thing is left alone."""
        try:
            timeout, alone = float(learned["timeout"]), bool(learned["alone"])
            turns = [(float(took), bool(done), bool(own)) for took, done, own in learned["turns"]]
        except (KeyError, TypeError, ValueError):
            return
        if self._shortest <= timeout <= self._longest and all(0.0 < took < math.inf for took, _, _ in turns):
            self._seen.extend(turns)
            self._timeout, self._alone = timeout, alone

    @property
    def timeout(self) -> float:
        """The timeout in force; offers that explore wait longer."""
        return self._timeout

    def offered(self) -> float:
        """Return how long to wait for the node of a new offer."""
        self._offers += 1
        number, others = divmod(self._offers, _EXPLORING)
        if others:
            return self._timeout
        further = 2 * (number & -number)  # the largest power of two in it, so that double waits are half as frequent
        known = max((waited for waited, ready, _ in self._seen if ready), default=self._longest)
        return min(max(self._timeout, min(further * self._timeout, 2.0 * known)), self._longest)

    def saw(self, waited: float, ready: bool, *, own: bool = True) -> None:
        """Take note of how long an offer waited, and whether the node was ready then or was given up."""
        require_non_negative("waited", waited)
        if not own and self._alone:
            return
        in_time = bool(ready) and waited <= self._timeout
        self._seen.append((max(float(waited), 1e-9), bool(ready), own))  # no timeout is 0
        self._news += 1
        self._in_time += in_time
        if own:
            self._missed = 0 if in_time else self._missed + 1
        if not self._alone and self._missed == _ROUND:
            self._alone = True
            self._seen = deque((one for one in self._seen if one[2]), maxlen=self._seen.maxlen)
            if self._in_time:  # as a token says, and nobody else
                self._in_time, self._news = 0, _ROUND
        if self._news == _ROUND:
            self._reconsider()
            self._news = self._in_time = 0

    def overhead(self, seconds: float) -> None:
        """Take note of what an offer cost beyond its wait."""
        require_non_negative("seconds", seconds)
        self._overheads.append(float(seconds))

    def _reconsider(self) -> None:
        if not self._in_time:
            if (1.0 - self._chance) ** _ROUND < _SURPRISING:
                newest = list(self._seen)[-_ROUND:]
                self._seen.clear()
                self._seen.extend(newest)
                self._chance = 0.0
            self._timeout = min(2.0 * self._timeout, self._longest)
        elif sum(ready for _, ready, _ in self._seen) >= _ENOUGH:
            self._learn()

    def _learn(self) -> None:
        counted = [one for one in self._seen for _ in range(_OWN if one[2] else 1)]
        waits, ready, _ = zip(*counted, strict=True)
        law = self._law(waits, [not finished for finished in ready])
        hop = median(self._overheads) if self._overheads else _FIRST_HOP
        # Between two times at which nodes were ready, waiting longer gains nothing: the best timeout is one of them.
        times = law.search_points()
        paces = (hop + law.truncated_mean(times)) / law.cdf(times)
        good = _AS_GOOD * paces.min()
        best = 2.0 * times[-1] if hop + law.mean <= good else _MARGIN * times[paces <= good][-1]
        self._timeout = min(max(float(best), self._shortest), self._longest)
        self._chance = law.cdf(self._timeout)
