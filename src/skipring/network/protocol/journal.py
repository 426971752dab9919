"""What a node must not forget: its promises, its newest copy of the run, its releases."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from .messages import Ballot, Copy, Kind, Place, Signatures, Token, Trail
from .places import Places

__all__ = ["Entry", "Forgotten", "Forked", "Gone", "Heard", "Kept", "Memory", "Over", "Passing", "Released", "Wished"]


@dataclass(frozen=True)
class Heard:
    """Promised: no ballot below this one is listened to. With promises of a majority, it may be gone on under."""

    ballot: Ballot
    promises: Signatures = ()


@dataclass(frozen=True)
class Kept:
    """The newest copy. It also promises its ballot. `sender` passed it on to this node, if somebody did."""

    copy: Copy
    sender: int | None = None


@dataclass(frozen=True)
class Released:
    """An own update: in the ledger from now on, and the newest copy. What may be seen is counted before it is sent."""

    copy: Copy


@dataclass(frozen=True)
class Passing:
    """About to offer, and perhaps to send, the token for a hop: after a crash only the node of that hop knows which."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Gone:
    """Told a node that the token of a place is not here; it will never be accepted from that node."""

    ballot: Ballot
    hop: int
    to: int


@dataclass(frozen=True)
class Over:
    """The run is over, and this is its model, decided under a ballot with the votes of a majority."""

    token: Token
    ballot: Ballot
    votes: Signatures = ()
    wishes: Signatures = ()  # of the majority that asked for it, if it ended before its last hop


@dataclass(frozen=True)
class Wished:
    """Some nodes, perhaps this one, have signed that their owners wish the run to end."""

    wishes: Signatures


@dataclass(frozen=True)
class Forgotten:
    """A node has sent a token whose chain has own updates that this journal does not know: it may be an old copy.

    This node has signed them, so that nobody can have made them up. They count, each in full.
    """

    trail: Trail
    sender: int


@dataclass(frozen=True)
class Forked:
    """Signed trails have shown that the run went two ways under this ballot: who saw both knows more than one tells."""

    ballot: Ballot


Entry = Heard | Kept | Released | Passing | Gone | Over | Forgotten | Forked | Wished


@dataclass(frozen=True)
class Memory:
    """What the entries of a journal add up to."""

    promised: Ballot
    copy: Copy
    sender: int | None = None
    passing: Place | None = None
    gone: tuple[tuple[int, Place], ...] = field(default=())  # whom it was told that a token is not here, and the last
    ledger: Places = field(default_factory=Places)
    unchanged: Places = field(default_factory=Places)  # tokens that were accepted, and passed on as they were
    outcome: Token | None = None
    decided: Ballot | None = None
    reminded: tuple[int, ...] = field(default=())  # the nodes that have sent own updates which are not in the ledger
    forked: Ballot | None = None  # the last ballot of which it is known that the run went two ways under it
    votes: Signatures = ()
    wishes: Signatures = ()  # of those whose owners wish the run to end
    asked: Signatures = ()  # of the majority that the run ended for, if it did so before its last hop
    ticket: tuple[Ballot, Signatures] | None = None  # the highest ballot that a majority promised, and their signatures

    @classmethod
    def blank(cls, first: int, initial: Token) -> Memory:
        """Return what every node knows before the run begins."""
        ballot = (0, first)
        return cls(promised=ballot, copy=Copy(ballot, 0, Kind.INITIAL, initial))

    def after(self, entry: Entry) -> Memory:
        """Return the memory with one more entry."""
        if isinstance(entry, Heard):
            promised = max(self.promised, entry.ballot)
            if not entry.promises:
                return replace(self, promised=promised)
            return replace(self, promised=promised, ticket=(entry.ballot, entry.promises))
        if isinstance(entry, Kept):
            promised = max(self.promised, entry.copy.ballot)
            unchanged = self.unchanged
            if self.copy.kind is Kind.ACCEPTED:
                unchanged = unchanged.plus((self.copy.ballot, self.copy.hop))
            memory = replace(self, promised=promised, copy=entry.copy, sender=entry.sender, passing=None)
            return memory if unchanged is self.unchanged else replace(memory, unchanged=unchanged)
        if isinstance(entry, Released):
            place = entry.copy.ballot, entry.copy.hop
            return replace(self, copy=entry.copy, ledger=self.ledger.plus(place), passing=None)
        if isinstance(entry, Passing):
            return replace(self, passing=(entry.ballot, entry.hop))
        if isinstance(entry, Gone):
            place = entry.ballot, entry.hop
            denied = self.denied(entry.to)
            others = tuple(told for told in self.gone if told[0] != entry.to)
            return replace(self, gone=(*others, (entry.to, place if denied is None else max(denied, place))))
        if isinstance(entry, Forgotten):
            return replace(self, reminded=tuple(sorted({*self.reminded, entry.sender})))
        if isinstance(entry, Forked):
            return replace(self, forked=entry.ballot)
        if isinstance(entry, Wished):
            return replace(self, wishes=tuple(sorted({**dict(entry.wishes), **dict(self.wishes)}.items())))
        return replace(self, outcome=entry.token, decided=entry.ballot, votes=entry.votes, asked=entry.wishes)

    def denied(self, node: int) -> Place | None:
        """Return the furthest place whose token a node was told is not here, if it was told so."""
        return next((place for told, place in self.gone if told == node), None)

    def replayed(self, entries: Iterable[Entry]) -> Memory:
        """Return the memory after all entries of a journal."""
        memory = self
        for entry in entries:
            memory = memory.after(entry)
        return memory
