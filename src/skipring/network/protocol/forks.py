"""Where a run with recoveries can have gone two ways, and who can have seen it: what the nodes' answers add up to.

Under one ballot a run goes one way. So its tokens are a tree of which each ballot is a path, and two ways part only
where somebody goes on under a new ballot: at the token of the copy that it goes on with (its start). The final model is
at the end of one line through that tree. Who was sent a token beside the line, however far beside, has learned at most
what it had learned had it looked at the last token on the line before that (docs/privacy.md has the theorem). So what
is needed is the start of each ballot, and who was sent tokens beside the line.

A node that does not answer may have sent a token to anybody, if it can have had one: then all count as having looked. A
ballot whose start nobody knows may have begun anywhere: releases under lower ballots count in full.
"""

from __future__ import annotations

from collections.abc import Mapping

from ._state import Rules
from .chain import marks_of
from .journal import Settled
from .looks import Told, hops_in
from .messages import Ballot, Kind, Rank, Token

__all__ = ["settled"]

_End = tuple[int, Kind]


def settled(rules: Rules, outcome: Token, decided: Ballot, told: Mapping[int, Told]) -> Settled | None:
    """Return what is certain of a run that was decided under a ballot, by what nodes have told; None if nothing is.

    A ballot that somebody has gone on under was promised by a majority, and each of them wrote that down before. So as
    long as those who have told are too many for a majority without any of them, they have heard of all. Recoveries
    after the decision find the final model, and nothing parts there.
    """
    if len(told) <= rules.nodes - rules.majority:
        return None
    first = (0, rules.path[0])
    known, unknown = _starts(rules, decided, told)
    if decided not in known and decided not in unknown and decided != first:
        return None  # nobody has heard of it, though the run has ended under it
    below = max(unknown, default=first)
    ends = _line(known, decided, below)
    beside = _Beside(rules, marks_of(outcome.chain), known, ends, told)
    looks: dict[int, set[int]] = {}
    for ballot in sorted({first, *known, below}):
        if ballot >= below:
            for place, nodes in beside.looks(ballot).items():
                looks.setdefault(place, set()).update(nodes)
    line = tuple((ballot, _last_hop(rules, end)) for ballot, end in sorted(ends.items()))
    found = tuple((place, tuple(sorted(nodes))) for place, nodes in sorted(looks.items()))
    return Settled(outcome.trail, line, found, below)


def _starts(rules: Rules, decided: Ballot, told: Mapping[int, Told]) -> tuple[dict[Ballot, Rank], set[Ballot]]:
    """Return the starts of all ballots that may have been gone on under, and those whose start is not known.

    Whoever leads a recovery writes down with which copy it is to be gone on, before anybody is told to: what it has
    not written down never was. Where answers contradict each other, nothing is known.
    """
    first = (0, rules.path[0])
    known: dict[Ballot, Rank] = {}
    unknown: set[Ballot] = set()
    heard = {ballot for each in told.values() for ballot in (*each.starts, *each.passed, *each.taken)}
    for ballot in sorted(ballot for ballot in heard if ballot != first and ballot <= decided):
        said = {start for each in told.values() if (start := each.starts.get(ballot)) is not None}
        used = any(each.passed.get(ballot, 0) or each.taken.get(ballot, 0) for each in told.values())
        leader = told.get(ballot[1])
        start = next(iter(said)) if len(said) == 1 else None
        if leader is not None and leader.starts.get(ballot) is None and not said and not used:
            continue  # never gone on with
        if leader is not None and leader.starts.get(ballot) is None:
            start = None
        if start is not None and _is_possible(rules, ballot, start, known):
            known[ballot] = start
        else:
            unknown.add(ballot)
    return known, unknown


def _is_possible(rules: Rules, ballot: Ballot, start: Rank, known: Mapping[Ballot, Rank]) -> bool:
    before, hop, kind = start
    there = {Kind.INITIAL: hop == 0, Kind.FINAL: hop == rules.steps + 1}.get(kind, 1 <= hop <= rules.steps)
    return there and before < ballot and (before == (0, rules.path[0]) or before in known)


def _line(known: Mapping[Ballot, Rank], decided: Ballot, below: Ballot) -> dict[Ballot, _End]:
    """Return the ballots on the line to the final model, down to `below`, and where the line leaves each of them."""
    ends: dict[Ballot, _End] = {decided: (0, Kind.FINAL)}  # of a final model the hop does not matter
    ballot = decided
    while ballot in known and ballot > below:
        ballot, hop, kind = known[ballot]
        ends[ballot] = hop, kind
    return {each: end for each, end in ends.items() if each >= below}


def _last_hop(rules: Rules, end: _End) -> int:
    """Return the last hop whose update is in the token at which the line leaves a ballot."""
    hop, kind = end
    return rules.steps if kind is Kind.FINAL else hop - (kind is Kind.ACCEPTED)


class _Beside:
    """Who may have looked beside the line, under which ballot."""

    def __init__(
        self,
        rules: Rules,
        marks: int,
        known: Mapping[Ballot, Rank],
        ends: Mapping[Ballot, _End],
        told: Mapping[int, Told],
    ) -> None:
        self._rules, self._marks, self._known, self._ends, self._told = rules, marks, known, ends, told
        self._everybody = set(range(rules.nodes))
        self._silent = self._everybody - told.keys()

    def looks(self, ballot: Ballot) -> dict[int, set[int]]:
        """Return who may have looked beside the line under a ballot, after so many updates of the line."""
        place = self._leaves_at(ballot)
        end = self._ends.get(ballot)
        if place is None or (end is not None and end[1] is Kind.FINAL):
            return {}
        after = 0 if end is None else end[0]
        nodes = self._sent_to(ballot, after)
        first = self._holder(ballot)
        if self._silent and (first is None or (nodes | {first}) & self._silent):
            nodes = self._everybody
        return {place: nodes} if nodes else {}

    def _leaves_at(self, ballot: Ballot) -> int | None:
        """Return after how many updates of the line the tokens of a ballot leave it; None if before all that count."""
        while ballot not in self._ends:
            if ballot not in self._known:
                return None
            ballot, hop, kind = self._known[ballot]
            if ballot in self._ends and (hop, kind) <= self._whole(self._ends[ballot]):
                return self._updates(hop, kind)
        return self._updates(*self._ends[ballot])

    def _whole(self, end: _End) -> _End:
        return (self._rules.steps + 1, Kind.FINAL) if end[1] is Kind.FINAL else end

    def _updates(self, hop: int, kind: Kind) -> int:
        return (self._marks & ((1 << _last_hop(self._rules, (hop, kind))) - 1)).bit_count()

    def _holder(self, ballot: Ballot) -> int | None:
        """Return who had the token at which a ballot leaves the line, or begins beside it; None if it is not known."""
        path = self._rules.path
        hop, kind = self._ends[ballot] if ballot in self._ends else self._known[ballot][1:]
        if kind is Kind.INITIAL:
            return path[0] if ballot == (0, path[0]) and ballot in self._ends else None
        return None if kind is Kind.FINAL else path[hop - 1]

    def _sent_to(self, ballot: Ballot, after: int) -> set[int]:
        """Return those who were sent a token of a ballot for a later hop, as far as anybody says."""
        nodes: set[int] = set()
        for each in self._told.values():
            hops = each.passed.get(ballot, 0) | each.taken.get(ballot, 0)
            for hop in hops_in(hops >> (after + 1) << (after + 1)):
                nodes |= self._everybody if hop > self._rules.steps else {self._rules.node_of(hop)}
        return nodes
