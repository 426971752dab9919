"""Where a run with recoveries can have gone two ways, and who can have seen it: what the nodes' answers add up to.

Under one ballot a run goes one way. So its tokens are a tree of which each ballot is a path, and two ways part only
where a node goes on under a new ballot. They part at the token of the copy that it goes on with (its start). The final
model is at the end of one line through that tree. Take a node that was sent a token beside the line, however far
beside. It has learned at most as much as from a look at the last token on the line before that (docs/privacy.md has the
theorem). So what is needed is the start of each ballot, and who was sent tokens beside the line.

A node that does not answer may have sent a token to any other, if it can have had one: then all count as having looked.
A ballot whose start nobody knows may have begun anywhere: releases under lower ballots count in full.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .journal import Settled, Starts
from .looks import Told, hops_in
from .messages import Ballot, Kind, Rank, Token

if TYPE_CHECKING:
    from ._state import Rules

_End = tuple[int, Kind]


def settled(rules: Rules, outcome: Token, decided: Ballot, told: Mapping[int, Told]) -> Settled | None:
    """Return what is certain of a run that was decided under a ballot, by what nodes have told; None if nothing is.

    A ballot that a node has gone on under was promised by a majority, and each of them wrote that down before. So as
    long as those who have told are too many for a majority without any of them, they have heard of all. Recoveries
    after the decision find the final model, and nothing parts there.
    """
    first = (0, rules.path[0])
    if len(told) <= rules.nodes - rules.majority:
        return None
    known, unknown = _starts(rules.path, decided, told)
    if decided not in known and decided not in unknown and decided != first:
        return None  # nobody has heard of it, though the run has ended under it
    tree = _Tree(rules.steps, decided, known, max(unknown, default=first))
    looks: dict[int, set[int]] = {}
    for ballot in sorted({first, *known}):
        place = tree.leaves_at(ballot)
        if place is not None:
            looks.setdefault(place, set()).update(_beside(rules, tree, ballot, told))
    found = tuple((place, tuple(sorted(nodes))) for place, nodes in sorted(looks.items()) if nodes)
    return Settled(outcome.trail, tree.line, found, tree.below)


def starts_before(rules: Rules, ballot: Ballot, told: Mapping[int, Told]) -> Starts | None:
    """Return all lower ballots that may be gone on under, by what a majority has told; None if no majority has.

    None of those who have promised a ballot will promise a lower one, go on under it, or lead a recovery of it.
    """
    if len(told) < rules.majority:
        return None
    known, unknown = _starts(rules.path, ballot, told)
    found: dict[Ballot, Rank | None] = {**known, **dict.fromkeys(unknown)}
    return tuple((each, found[each]) for each in sorted(found) if each < ballot)


@dataclass(frozen=True)
class Parted:
    """Where a run can have gone two ways before a recovery.

    Parameters
    ----------
    line : the ballots of the token that it went on from, each with the last hop on the way there under it.
    places : after these hops of that way another one can have begun.
    below : where ways under lower ballots parted, nobody knows.
    """

    line: tuple[tuple[Ballot, int], ...]
    places: tuple[int, ...]
    below: Ballot


def parted(path: Sequence[int], ballot: Ballot, start: Rank, before: Starts) -> Parted | None:
    """Return where a run that goes on under a ballot can have gone two ways; None if what was told makes no sense."""
    first = (0, path[0])
    known = {ballot: start, **{each: begun for each, begun in before if begun is not None}}
    heard = {each for each, _ in before}
    sound = all(_is_possible(path, each, begun, heard) for each, begun in known.items())
    if not sound or any(each >= ballot or each <= first for each in heard):
        return None
    tree = _Tree(len(path), ballot, known, max(heard - known.keys(), default=first))
    places = {tree.leaves_at(each) for each in (first, *known)}
    return Parted(tree.line, tuple(sorted(place for place in places if place is not None)), tree.below)


def _starts(path: Sequence[int], last: Ballot, told: Mapping[int, Told]) -> tuple[dict[Ballot, Rank], set[Ballot]]:
    """Return the starts of all ballots that may have been gone on under, and those whose start is not known.

    The leader of a recovery writes down with which copy it is to be gone on, before any node is told to: what it has
    not written down never was. Where answers contradict each other, nothing is known.
    """
    known: dict[Ballot, Rank] = {}
    unknown: set[Ballot] = set()
    heard = {ballot for each in told.values() for ballot in (*each.starts, *each.passed, *each.taken)}
    for ballot in sorted(ballot for ballot in heard if ballot != (0, path[0]) and ballot <= last):
        said = {start for each in told.values() if (start := each.starts.get(ballot)) is not None}
        used = any(each.passed.get(ballot, 0) or each.taken.get(ballot, 0) for each in told.values())
        denied = ballot[1] in told and told[ballot[1]].starts.get(ballot) is None
        if denied and not said and not used:
            continue  # never gone on with
        start = said.pop() if len(said) == 1 and not denied else None
        if start is not None and _is_possible(path, ballot, start, known):
            known[ballot] = start
        else:
            unknown.add(ballot)
    return known, unknown


def _is_possible(path: Sequence[int], ballot: Ballot, start: Rank, known: Container[Ballot]) -> bool:
    before, hop, kind = start
    there = {Kind.INITIAL: hop == 0, Kind.FINAL: hop == len(path) + 1}.get(kind, 1 <= hop <= len(path))
    return there and before < ballot and (before == (0, path[0]) or before in known)


class _Tree:
    """The ways of a run: a line to the newest token under one ballot, and what leaves it.

    Parameters
    ----------
    steps : of the run.
    last : the ballot at the end of the line.
    known : the starts of ballots.
    below : what is under lower ballots counts in full, so that nobody asks about it.
    """

    def __init__(self, steps: int, last: Ballot, known: Mapping[Ballot, Rank], below: Ballot) -> None:
        self._steps, self.known, self.below, self._newest = steps, known, below, last
        #: The ballots on the line, and where it leaves each of them; what is newest is not left.
        self.ends: dict[Ballot, _End] = {last: (steps + 1, Kind.FINAL)}
        while last in known and last > below:
            last, hop, kind = known[last]
            self.ends[last] = hop, kind
        self.ends = {ballot: end for ballot, end in self.ends.items() if ballot >= below}

    @property
    def line(self) -> tuple[tuple[Ballot, int], ...]:
        """The ballots on the line, each with the last hop whose update is on it."""
        return tuple((ballot, self._last_hop(end)) for ballot, end in sorted(self.ends.items()))

    def _last_hop(self, end: _End) -> int:
        hop, kind = end
        return self._steps if kind is Kind.FINAL else hop - (kind is Kind.ACCEPTED)

    def leaves_at(self, ballot: Ballot) -> int | None:
        """Return after which hop of the line the tokens of a ballot leave it.

        None if they do not, or before all that counts: a final model is one token, of which nothing parts.
        """
        if ballot < self.below or ballot == self._newest:
            return None
        leaves = self.ends.get(ballot)
        while leaves is None:
            if ballot not in self.known:
                return None
            ballot, hop, kind = self.known[ballot]
            if ballot in self.ends:
                leaves = min((hop, kind), self.ends[ballot])
        return None if leaves[1] is Kind.FINAL else self._last_hop(leaves)


def _beside(rules: Rules, tree: _Tree, ballot: Ballot, told: Mapping[int, Told]) -> set[int]:
    """Return those who may have looked at tokens of a ballot beside the line.

    They are those who were sent one, as far as any node says. One that has not told, and can have had such a token, can
    have sent it to any other. It can have had one if it was sent one, or has had the one at which the ballot leaves the
    line.
    """
    end, everybody = tree.ends.get(ballot), set(range(rules.nodes))
    after, kind = end if end is not None else (0, tree.known[ballot][2])
    nodes: set[int] = set()
    for each in told.values():
        hops = each.passed.get(ballot, 0) | each.taken.get(ballot, 0)
        for hop in hops_in(hops >> (after + 1) << (after + 1)):
            nodes |= everybody if hop > rules.steps else {rules.node_of(hop)}
    hop = after if end is not None else tree.known[ballot][1]
    if kind is Kind.INITIAL and end is not None and ballot == (0, rules.path[0]):
        hop = 1
    holder = rules.node_of(hop) if 1 <= hop <= rules.steps else None
    silent = everybody - told.keys()
    return everybody if silent and (holder is None or (nodes | {holder}) & silent) else nodes
