"""What happens at a node, as typed events: what is counted and shown goes by them, and never by the text of a log.

An event that people should read has a `name`, under which its `facts` are logged; one without is only counted.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import ClassVar

from ...learning import FIRST_ROWS_ONLY
from ..protocol import News, Rule


@dataclass(frozen=True)
class Event:
    """Something that happened at this node."""

    #: The name in the log; None if nobody has to read of it.
    name: ClassVar[str | None] = None
    #: How much it matters to a reader of the log.
    level: ClassVar[str] = "info"

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {field.name: getattr(self, field.name) for field in fields(self)}


@dataclass(frozen=True)
class Started(Event):
    """The node listens, and goes on from a hop."""

    name = "started"
    listen: str | None
    hop: int


@dataclass(frozen=True)
class Note(Event):
    """Something that the node's owner may not expect of this run."""

    name = "note"
    what: str


@dataclass(frozen=True)
class CertificateEnds(Event):
    """A certificate of the node ends within a month, or has ended."""

    name = "certificate"
    level = "warning"
    what: str
    seconds: int


@dataclass(frozen=True)
class RowsLeftOut(Event):
    """Some rows of the node's own data are not used."""

    name = "rows left out"
    rows: int
    why: str = FIRST_ROWS_ONLY


@dataclass(frozen=True)
class LabelsClipped(Event):
    """Some labels of the node's own data lie beyond the bound, and count as the bound."""

    name = "labels"
    clipped: int
    bound: float | None


@dataclass(frozen=True)
class Incomplete(Event):
    """The run begins although some nodes were not reached."""

    name = "incomplete"
    missing: int
    waited: float


@dataclass(frozen=True)
class Disagreeing(Event):
    """The run does not begin, because a node that is there has another one."""

    name = "waiting"
    who: str
    why: str


@dataclass(frozen=True)
class TokenAccepted(Event):
    """The token of a hop is here."""

    hop: int


@dataclass(frozen=True)
class Prepared(Event):
    """The node has got the rows of its next update ready, and how many seconds that took."""

    name = "prepared"
    level = "debug"
    turn: int
    seconds: float

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"turn": self.turn, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class StillPreparing(Event):
    """The rows of the next update are still not ready after these seconds; until then turns are missed."""

    name = "preparing"
    turn: int
    seconds: float
    function: str

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"turn": self.turn, "seconds": round(self.seconds), "function": self.function}


@dataclass(frozen=True)
class Updated(Event):
    """The node has made its update of a hop, of some of its rows if there was no time for all."""

    name = "updated"
    level = "debug"
    hop: int
    updates: int
    rows: str = "all"


@dataclass(frozen=True)
class TooSlow(Event):
    """The node lets its turn go, since it would not be in time."""

    name = "too slow"
    hop: int
    why: str


@dataclass(frozen=True)
class ProtocolNews(Event):
    """The protocol has something to tell."""

    name = "protocol"
    news: News
    what: str

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"what": self.what}


@dataclass(frozen=True)
class Standstill(Event):
    """Nothing has moved for some `seconds`, as far as this node sees; `what` it waits for, and for whom."""

    name = "standstill"
    stand: str
    what: str
    nodes: tuple[str, ...]
    seconds: float

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"what": self.what, "seconds": round(self.seconds)}


@dataclass(frozen=True)
class GoesOn(Event):
    """A standstill that was told of is over."""

    name = "goes on"
    seconds: float

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {"stood_still": round(self.seconds)}


@dataclass(frozen=True)
class RelayNews(Event):
    """The tunnel to the relay is `open`, or `down`, and `why`; the node tries again by itself."""

    name = "relay"
    state: str
    why: str = ""

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it."""
        return {key: value for key, value in super().facts.items() if value}


@dataclass(frozen=True)
class OfferRefused(Event):
    """The node does not take part at a hop that it was offered."""


@dataclass(frozen=True)
class OwnUpdatesForgotten(Event):
    """A node has sent a token with own updates that are not in the journal; from now on they count."""

    name = "forgotten"
    level = "error"
    sender: str
    hops: tuple[int, ...]
    releases: int
    why: str = "this node has signed them, so its journal is an old copy; they count, and it takes no further part"


@dataclass(frozen=True)
class RuleBroken(Event):
    """Another node has done what no honest one does; the log has a line of it as a refusal, once."""

    node: int
    rule: Rule


@dataclass(frozen=True)
class BudgetSpent(Event):
    """An own turn is refused for the budget's sake; `epsilon` is what was given away before."""

    name = "budget"
    hop: int
    epsilon: float
    budget: float | None
    why: str = "one more update would exceed it, so this turn is refused"


@dataclass(frozen=True)
class RunOver(Event):
    """The final model is here, and its owner has it."""

    name = "over"
    updates: int
    model: str
    refused_for_budget: int
    ended_early_at: int | None = None  # the hop of its last update, if a majority asked for it

    @property
    def facts(self) -> dict[str, object]:
        """What the log says of it: of the budget, and of an early end, only if there was one."""
        facts = super().facts
        if not self.refused_for_budget:
            del facts["refused_for_budget"]
        if self.ended_early_at is None:
            del facts["ended_early_at"]
        return facts


@dataclass(frozen=True)
class ToldToStop(Event):
    """The node has stopped because it was told to."""

    name = "stopped"
    holding: bool
    hop: int
