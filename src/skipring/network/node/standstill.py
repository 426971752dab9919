"""A standstill of any kind is said within ten seconds, and every minute after: what is waited for, and for how long."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from ..protocol import Peer, Rules, Stand
from .events import GoesOn, Standstill
from .telemetry import Telemetry

#: How often a node looks whether something has moved, after how long it says that nothing has, and how often again.
_LOOK, _FIRST, _AGAIN = 0.5, 9.4, 60.0
#: The holder greets once per beat, and as soon as a node holds the token again: this much later there is no sign of it.
_BEATS = 1.25


class Traffic(Protocol):
    """What is asked of a node's connections."""

    @property
    def reachable(self) -> set[int]:
        """The nodes that messages go through to."""

    @property
    def receives(self) -> bool:
        """Whether a large model is arriving."""


class StandstillWatch:
    """Looks now and then at what a node is doing, and tells its owner if that has been the same for long.

    Parameters
    ----------
    begun : returns the protocol, once the run has begun here.
    rules : what all nodes agree on.
    connections : what tells who is reached.
    telemetry : is told of standstills, and of their end.
    clock : the time in seconds; only differences matter.
    me : the number of this node.
    """

    def __init__(
        self,
        begun: Callable[[], Peer | None],
        rules: Rules,
        connections: Traffic,
        telemetry: Telemetry,
        clock: Callable[[], float],
        *,
        me: int,
    ) -> None:
        self._begun, self._rules, self._connections, self._me = begun, rules, connections, me
        self._telemetry, self._clock = telemetry, clock
        self._seen: object = None  # what the node was doing when something last moved
        self._since = self._said = clock()

    @property
    def stands_for(self) -> float:
        """Seconds since something has moved."""
        return self._clock() - self._since

    async def keep(self) -> None:
        """Look, as long as the node runs."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK)

    def look(self) -> None:
        """Say what the node waits for, if that has been the same for long, and was not said just before."""
        seen, limit, event = self._now()
        now, told = self._clock(), self._telemetry.standstill
        if event is None or seen != self._seen:
            if told is not None:
                self._telemetry.note(GoesOn(now - self._since))
            self._seen, self._since = seen, now
        elif now - self._since >= limit and (told is None or now - self._said >= _AGAIN):
            self._said = now
            self._telemetry.note(event)

    def _now(self) -> tuple[object, float, Standstill | None]:
        """Return what the node does, how long that may take unsaid, and what is said then."""
        peer = self._begun()
        if peer is None:
            missing = sorted(set(range(self._rules.nodes)) - {self._me} - self._connections.reachable)
            return "start", _FIRST, self._event("start", "the run has not begun: waiting for {}", missing)
        standing = peer.standing
        if standing is None:
            return None, _FIRST, None
        if standing.stand is not Stand.TOKEN:
            return (standing.stand, standing.since), _FIRST, self._event(standing.stand, standing.what, standing.nodes)
        if self._connections.receives:
            return "arrival", _FIRST, self._event("arrival", "a model is on its way here", ())
        limit = max(_FIRST, _BEATS * self._rules.beat)
        return (standing.stand, standing.since), limit, self._event(standing.stand, standing.what, standing.nodes)

    def _event(self, stand: str, what: str, nodes: tuple[int, ...] | list[int]) -> Standstill:
        names = tuple(self._rules.name_of(node) for node in nodes)
        return Standstill(stand, what.replace("{}", ", ".join(names) or "a sign of the others"), names, self.stands_for)
