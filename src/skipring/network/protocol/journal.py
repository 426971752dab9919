"""What a node must not forget: its promises, its newest copy of the run, its releases."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from .messages import Ballot, Copy, Kind, Place, Rank, Signatures, Token, Trail
from .places import Places

#: Ballots of recoveries, in order, and the copy with which each was gone on, if that is known.
Starts = tuple[tuple[Ballot, Rank | None], ...]


@dataclass(frozen=True)
class Heard:
    """Promised: no ballot below this one is listened to. With promises of a majority, it may be gone on under.

    `start` is the rank of the copy with which it is gone on. `before` are all lower ballots that a node may have gone
    on under, each with its own start, if that is known. Both are None if nobody has told.
    """

    ballot: Ballot
    promises: Signatures = ()
    start: Rank | None = None
    before: Starts | None = None


@dataclass(frozen=True)
class Kept:
    """The newest copy. It also promises its ballot. `sender` passed it on to this node, if a node did."""

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


@dataclass(frozen=True)
class Settled:
    """After the end: others have told where the run was gone on from, and who may have looked where (`forks`).

    Parameters
    ----------
    trail : of the final model.
    line : the ballots under which its updates were made, each with the last hop that is on its chain under it.
    looks : after these hops of that chain these nodes may have looked, beside those whose turn it was.
    below : where releases under lower ballots branched off, nobody knows: they count in full.
    """

    trail: Trail
    line: tuple[tuple[Ballot, int], ...]
    looks: tuple[tuple[int, tuple[int, ...]], ...]
    below: Ballot


Entry = Heard | Kept | Released | Passing | Gone | Over | Forgotten | Forked | Settled | Wished


@dataclass(frozen=True)
class Track:
    """Under a ballot: the hops for which a node has sent a token, or may have, and those of which it has taken one.

    Bit h is hop h. The hop after the last one is a final model, which is sent to all.
    """

    ballot: Ballot
    passed: int = 0
    taken: int = 0


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
    ticket: Heard | None = None  # of the highest ballot that a majority promised
    starts: Starts = field(default=())  # of all ballots that were heard of
    tracks: tuple[Track, ...] = field(default=())  # what was sent and taken, the newest ballot last
    settled: Settled | None = None

    @classmethod
    def blank(cls, first: int, initial: Token) -> Memory:
        """Return what every node knows before the run begins."""
        ballot = (0, first)
        return cls(promised=ballot, copy=Copy(ballot, 0, Kind.INITIAL, initial))

    def after(self, entry: Entry) -> Memory:
        """Return the memory with one more entry."""
        if isinstance(entry, Heard):
            promised = max(self.promised, entry.ballot)
            starts = self._started((entry.ballot, entry.start), *(entry.before or ()))
            return replace(self, promised=promised, starts=starts, ticket=entry if entry.promises else self.ticket)
        if isinstance(entry, Kept):
            promised = max(self.promised, entry.copy.ballot)
            unchanged = self.unchanged
            if self.copy.kind is Kind.ACCEPTED:
                unchanged = unchanged.plus((self.copy.ballot, self.copy.hop))
            goes_on = entry.sender is None and entry.copy.ballot != self.copy.ballot
            memory = replace(
                self,
                promised=promised,
                copy=entry.copy,
                sender=entry.sender,
                passing=None,
                starts=self._started((entry.copy.ballot, self.copy.rank if goes_on else None)),
                tracks=self._tracked(entry.copy, entry.sender),
            )
            return memory if unchanged is self.unchanged else replace(memory, unchanged=unchanged)
        if isinstance(entry, Released):
            place = entry.copy.ballot, entry.copy.hop
            return replace(self, copy=entry.copy, ledger=self.ledger.plus(place), passing=None)
        if isinstance(entry, Passing):
            return replace(self, passing=(entry.ballot, entry.hop), tracks=self._track(entry.ballot, passed=entry.hop))
        if isinstance(entry, Gone):
            place = entry.ballot, entry.hop
            denied = self.denied(entry.to)
            others = tuple(told for told in self.gone if told[0] != entry.to)
            return replace(self, gone=(*others, (entry.to, place if denied is None else max(denied, place))))
        if isinstance(entry, Forgotten):
            return replace(self, reminded=tuple(sorted({*self.reminded, entry.sender})))
        if isinstance(entry, Forked):
            return replace(self, forked=entry.ballot)
        if isinstance(entry, Settled):
            return replace(self, settled=entry)
        if isinstance(entry, Wished):
            return replace(self, wishes=tuple(sorted({**dict(entry.wishes), **dict(self.wishes)}.items())))
        return replace(self, outcome=entry.token, decided=entry.ballot, votes=entry.votes, asked=entry.wishes)

    def _started(self, *heard: tuple[Ballot, Rank | None]) -> Starts:
        """Return the ballots of recoveries, with some that were heard of; the first ballot of a run is none."""
        known = dict(self.starts)
        if all(ballot[0] == 0 or known.get(ballot, heard) == start for ballot, start in heard):
            return self.starts
        for ballot, start in heard:
            if ballot[0] and known.get(ballot) is None:
                known[ballot] = start
        return tuple(sorted(known.items(), key=lambda each: each[0]))

    def _tracked(self, copy: Copy, sender: int | None) -> tuple[Track, ...]:
        """Return what was sent and taken, with a copy that was written down; a final model of one's own goes to all."""
        if copy.kind is Kind.FINAL and sender is None:
            return self._track(copy.ballot, passed=copy.hop)
        return self._track(copy.ballot, taken=copy.hop) if copy.kind in (Kind.ACCEPTED, Kind.FINAL) else self.tracks

    def _track(self, ballot: Ballot, *, passed: int = 0, taken: int = 0) -> tuple[Track, ...]:
        """Return what was sent and taken, with one more hop; 0 is none."""
        others = tuple(each for each in self.tracks if each.ballot != ballot)
        one = next((each for each in self.tracks if each.ballot == ballot), Track(ballot))
        one = Track(ballot, one.passed | (1 << passed & ~1), one.taken | (1 << taken & ~1))
        return (*others, one)

    def denied(self, node: int) -> Place | None:
        """Return the furthest place whose token a node was told is not here, if it was told so."""
        return next((place for told, place in self.gone if told == node), None)
