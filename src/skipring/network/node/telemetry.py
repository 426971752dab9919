"""What a node counts and times while it runs, and what it says of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..protocol import News
from .events import (
    BudgetSpent,
    Event,
    GoesOn,
    OfferRefused,
    Prepared,
    ProtocolNews,
    RuleBroken,
    Standstill,
    TokenAccepted,
    TooSlow,
    Updated,
)
from .hop_times import HopTimes
from .status import NodeStatus


class Telemetry:
    """Takes the events of a node: counts them, times its hops, and tells the people who run it.

    Parameters
    ----------
    say : writes a line of the log: the name of an event, and facts about it.
    clock : the time in seconds; only differences matter.
    hop : the newest hop that the node knows of when it starts.
    before : what the node had counted when it was told to stop, if it was.
    """

    def __init__(
        self, say: Callable[..., None], clock: Callable[[], float], hop: int, before: NodeStatus | None = None
    ) -> None:
        self.say, self._clock = say, clock
        self.started = clock()
        self.hop = hop
        self.refused = 0 if before is None else before.refused
        self.recoveries = 0 if before is None else before.recoveries
        self._refused_before = 0 if before is None else before.refused_for_budget
        self._unaffordable: set[int] = set()  # own hops whose update would have exceeded the budget
        #: Turns that came to nothing, since the update was not there in time; turns that were let go at once, since it
        #: would not have been; and updates of fewer rows than there are.
        self.late = 0 if before is None else before.late
        self.declined = 0 if before is None else before.declined
        self.cut = 0 if before is None else before.cut
        self.times = HopTimes()
        #: How often each of the others has done what no honest node does.
        self.broken_rules: Counter[int] = Counter()
        #: What the node has last said that it waits for, as long as it does.
        self.standstill: Standstill | None = None

    @property
    def refused_for_budget(self) -> int:
        """How many of its turns the node has refused for its budget's sake."""
        return self._refused_before + len(self._unaffordable)

    @property
    def running_for(self) -> float:
        """Seconds since the node was made."""
        return self._clock() - self.started

    @property
    def waits_for(self) -> str | None:
        """What the node has last said that it waits for; None where something moves."""
        return None if self.standstill is None else self.standstill.what

    def note(self, event: Event) -> None:
        """Count an event, and log it if it has a name."""
        level = event.level
        if isinstance(event, Updated):
            self.hop = event.hop
            self.cut += event.rows != "all"
        elif isinstance(event, Prepared):
            self.times.prepared(event.seconds)
        elif isinstance(event, TooSlow):
            level = "debug" if self.declined else "info"  # the first is news; the others are counted
            self.declined += 1
        elif isinstance(event, TokenAccepted):
            self.hop = event.hop
            self.times.accepted(self._clock())
        elif isinstance(event, ProtocolNews):
            self.recoveries += event.news is News.RECOVERY
            if event.news is News.LATE:
                level = "debug" if self.late else "info"
                self.late += 1
        elif isinstance(event, Standstill):
            self.standstill = event
        elif isinstance(event, GoesOn):
            self.standstill = None
        elif isinstance(event, OfferRefused):
            self.refused += 1
        elif isinstance(event, RuleBroken):
            self.broken_rules[event.node] += 1
        elif isinstance(event, BudgetSpent):
            if event.hop in self._unaffordable:
                return
            # The first is news; the others, perhaps one for every turn until the end, are counted.
            level = "debug" if self._unaffordable else "info"
            self._unaffordable.add(event.hop)
        if event.name is not None:
            self.say(event.name, **event.facts, level=level)

    # How long hops take.

    def offered(self, hop: int) -> float:
        """Take note that the token is on offer for a hop; return since when."""
        self.hop, now = hop, self._clock()
        self.times.offered(now)
        return now

    def wait_ended(self) -> float:
        """Take note that an offer was answered, or given up; return how long it waited."""
        return self.times.wait_ended(self._clock())

    def passing(self) -> None:
        """Take note that the token is on its way."""
        self.times.passing(self._clock())

    def passed(self, size: int) -> None:
        """Take note that a token has arrived, and its bytes."""
        self.times.passed(self._clock(), size)
