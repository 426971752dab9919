"""Stamps on a token: only a node's own key makes one, what it vouches for cannot be changed, and forks are proven."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
from world import fake_seals

from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import (
    Ballot,
    Broke,
    Copy,
    Final,
    Fold,
    Fork,
    Forked,
    Kept,
    Kind,
    Memory,
    Outcome,
    Peer,
    Released,
    Rule,
    Rules,
    Send,
    Token,
    WantOutcome,
    Write,
    blank_chain,
    marks_of,
    stamped,
    updated_hops,
    updates_of,
)
from skipring.network.protocol.stamps import Stamp, StampCheck, split, turns_of

NODES, STEPS = 4, 20
PATH = [0, 1, 2, 3] * 5
TURNS = turns_of(PATH, NODES)
SEALS = fake_seals(NODES)
FIRST: Ballot = (0, 0)
BLANK = Token(0, b"model", blank_chain(STEPS, b"run"))


def updated(token: Token, *hops: int, ballot: Ballot = FIRST, secret: bytes = bytes(32)) -> Token:
    for hop in hops:
        node = PATH[hop - 1]
        token = stamped(token, ballot, hop, b"model", secret, me=node, seal=SEALS[node])
    return token


def problem(token: Token) -> str:
    return StampCheck(TURNS, STEPS, SEALS[0]).problem(token)


def with_marks(token: Token, marks: int) -> Token:
    chain = token.chain[:32] + marks.to_bytes(len(token.chain) - 32, "little")
    return replace(token, chain=chain, updates=updates_of(chain))


def test_turns_are_the_hops_of_each_node() -> None:
    chance = random.Random(1)
    path = [chance.randrange(5) for _ in range(37)]
    turns = turns_of(path, 6)
    assert [[hop for hop in range(1, 38) if own >> (hop - 1) & 1] for own in turns] == [
        [hop for hop, node in enumerate(path, start=1) if node == each] for each in range(6)
    ]


def test_every_honest_token_is_signed() -> None:
    chance = random.Random(2)
    for _ in range(50):
        hops = [hop for hop in range(1, STEPS + 1) if chance.random() < 0.5]
        token = updated(BLANK, *hops)
        assert updated_hops(token.chain) == hops
        assert problem(token) == ""
        assert {node for node, _ in token.stamps} == {PATH[hop - 1] for hop in hops}


def test_only_the_last_updates_can_be_left_out_and_none_be_added() -> None:
    """Whatever marks are changed under the same stamps, the token is refused; a shorter history is an older token."""
    token = updated(BLANK, 2, 3, 5, 6, 8)
    for hop in range(1, STEPS + 1):
        assert problem(with_marks(token, marks_of(token.chain) ^ 1 << (hop - 1))) != "", hop
    assert problem(updated(BLANK, 2, 3)) == ""
    forged = stamped(updated(BLANK, 2, 3), FIRST, 5, b"model", bytes(32), me=0, seal=SEALS[3])
    assert problem(forged) == "has an update of hop 5 that its node has not signed"


def test_what_is_changed_in_a_stamp_is_seen() -> None:
    token = updated(BLANK, 2, 3, 5)
    for at, (node, content) in enumerate(token.stamps):
        stamps = list(token.stamps)
        for place in range(0, len(content), 5):
            spoiled = bytearray(content)
            spoiled[place] ^= 1
            stamps[at] = node, bytes(spoiled)
            assert problem(replace(token, stamps=tuple(stamps))) != ""
        for other in (b"", content[:20], content + b"\0", token.stamps[at - 1][1]):
            stamps[at] = node, other
            assert problem(replace(token, stamps=tuple(stamps))) != ""
        del stamps[at]
        assert problem(replace(token, stamps=tuple(stamps))) != ""
    assert problem(replace(token, stamps=(*token.stamps, (3, token.stamps[0][1])))).startswith("has a stamp of node 3")
    assert problem(replace(token, chain=b"x" * 32 + token.chain[32:])).startswith("has a digest")
    assert problem(replace(token, chain=b"")) == "has no chain of this run"
    assert Stamp.read(b"").signature == b""


def test_a_stamp_that_was_good_is_good_for_its_marks_alone() -> None:
    """What was checked before is remembered, and not taken for something else."""
    check, token = StampCheck(TURNS, STEPS, SEALS[0]), updated(BLANK, 2, 3, 5)
    assert check.problem(token) == check.problem(token) == ""
    assert check.problem(with_marks(token, marks_of(token.chain) ^ 1)) != ""
    assert check.problem(updated(token, 8)) == ""


def test_two_stamps_tell_of_a_token_on_its_way_if_one_node_lies() -> None:
    """Whoever lies, what it makes up is seen: by its own key it can sign its own updates only."""
    honest = updated(BLANK, 2, 3, 5, 6)
    for liar in range(NODES):
        for hop in range(7, STEPS + 1):
            node = PATH[hop - 1]
            made = stamped(honest, FIRST, hop, b"model", bytes(32), me=node, seal=SEALS[liar])
            good = StampCheck(TURNS, STEPS, SEALS[0]).problem_on_its_way(made, 0, BLANK) == ""
            assert good == (node == liar) == (problem(made) == "")
            own = next((turn for turn in range(hop + 1, STEPS + 1) if PATH[turn - 1] == liar), None)
            if node != liar and own is not None:  # under a good update of its own
                hidden = stamped(made, FIRST, own, b"model", bytes(32), me=liar, seal=SEALS[liar])
                assert StampCheck(TURNS, STEPS, SEALS[0]).problem_on_its_way(hidden, 0, BLANK) != ""


def test_an_own_stamp_on_a_token_is_looked_at_unless_it_is_known() -> None:
    token = updated(BLANK, 1, 2, 3)
    stamps = dict(token.stamps)
    stamps[0] = Stamp.read(stamps[0]).content[:-1] + b"x"
    spoiled = replace(token, stamps=tuple(sorted(stamps.items())))
    check = StampCheck(TURNS, STEPS, SEALS[0])
    assert check.problem_on_its_way(spoiled, 3, BLANK) == "", "hidden under two others"
    assert StampCheck(TURNS, STEPS, SEALS[0]).problem_on_its_way(spoiled, 0, BLANK) != ""
    assert StampCheck(TURNS, STEPS, SEALS[0]).problem_on_its_way(token, 0, BLANK) == ""


def test_one_way_is_no_fork_and_two_are() -> None:
    chance = random.Random(3)
    for _ in range(200):
        hops = [hop for hop in range(1, STEPS + 1) if chance.random() < 0.6]
        cut = chance.randrange(len(hops) + 1)
        before, after = updated(BLANK, *hops[:cut]), updated(BLANK, *hops)
        assert split(before, after, TURNS) is None
        recovered = updated(before, *hops[cut:], ballot=(1, 2), secret=b"2" * 32)
        found = split(after, recovered, TURNS)
        assert found is None or found.ballot != (1, 2), "another ballot may go another way"
    token = updated(BLANK, 2, 3)
    twins = [updated(token, 5, secret=secret * 32) for secret in (b"1", b"2")]
    found = split(twins[0], twins[1], TURNS)
    assert found is not None
    assert (found.ballot, found.culprit) == (FIRST, 0)
    ways = updated(token, 5), updated(token, 8)
    found = split(ways[0], ways[1], TURNS)
    assert found is not None
    assert (found.ballot, found.culprit) == (FIRST, None)


RULES = Rules(nodes=NODES, path=PATH, timeout=1.0)


def peer_at(token: Token, hop: int) -> Peer:
    """Return node 1 with a copy of the token at a hop."""
    memory = Memory.blank(0, BLANK).after(Kept(Copy(FIRST, hop, Kind.ACCEPTED, token), 0))
    return Peer(1, RULES, memory, SEALS[1])


def test_who_sees_both_ways_tells_everybody_and_everybody_counts_in_full() -> None:
    token = updated(BLANK, 1, 2, 3)
    seen, other = (updated(token, 5, secret=secret * 32) for secret in (b"1", b"2"))
    peer = peer_at(seen, 6)
    actions = peer.received(0, Final(FIRST, other))
    told = [action for action in actions if isinstance(action, Send) and isinstance(action.message, Fork)]
    assert [action.to for action in told] == [0, 2, 3]
    assert Write(Forked(FIRST)) in actions
    named = [action for action in actions if isinstance(action, Broke)]
    assert [(broke.node, broke.rule, broke.proof) for broke in named] == [(0, Rule.TWO_UPDATES, True)]
    assert peer.received(0, Final(FIRST, seen)) == [], "who is proven to lie is not heard any more"
    # The one who is told hands it on, once.
    hearer = Peer(2, RULES, Memory.blank(0, BLANK), SEALS[2])
    first = hearer.received(1, told[0].message)
    assert Write(Forked(FIRST)) in first
    assert sum(isinstance(action, Send) and isinstance(action.message, Fork) for action in first) == 3
    assert not any(isinstance(action, Write) for action in hearer.received(3, told[0].message))


def test_a_fork_that_is_none_is_not_believed() -> None:
    peer = Peer(2, RULES, Memory.blank(0, BLANK), SEALS[2])
    one, other = updated(BLANK, 1, 2), updated(BLANK, 1, 2, 3)
    assert not any(isinstance(action, Write) for action in peer.received(1, Fork(one.trail, other.trail)))
    forged = stamped(BLANK, FIRST, 1, b"model", b"2" * 32, me=0, seal=SEALS[1])
    actions = peer.received(1, Fork(one.trail, forged.trail))
    assert not any(isinstance(action, Write) for action in actions)
    assert [(broke.node, broke.rule) for broke in actions if isinstance(broke, Broke)] == [(1, Rule.STAMPS)]


def test_a_node_that_is_over_counts_a_fork_too_and_tells_whoever_asks() -> None:
    final = updated(BLANK, 1, 2, 3, 5)
    votes = tuple((node, SEALS[node].vote(FIRST, final)) for node in range(3))
    peer = Peer(1, RULES, Memory.blank(0, BLANK), SEALS[1])
    peer.received(2, Outcome(final, FIRST, votes))
    twin = updated(updated(BLANK, 1, 2, 3), 5, secret=b"2" * 32)
    assert Write(Forked(FIRST)) in peer.received(2, Final(FIRST, twin))
    assert peer.received(0, Final(FIRST, twin)) == []
    # Even whoever is not heard any more is told the outcome, which shows it what it has forgotten.
    assert any(isinstance(action, Send) for action in peer.received(0, WantOutcome()))


@pytest.mark.parametrize("forked", [False, True])
def test_what_a_fork_costs(forked: bool) -> None:
    """Each release so far counts in full, as after a recovery; one that comes later has a way of its own again."""
    terms = AccountTerms(NODES, 0, PATH, np.ones(STEPS), 5.0, True)
    account = OwnAccount(terms)
    fold = Fold(Memory.blank(0, BLANK), account)
    token = BLANK
    for hop in (1, 2, 3, 4, 5):
        token = updated(token, hop)
        if PATH[hop - 1] == 0:
            fold.add(Released(Copy(FIRST, hop, Kind.UPDATED, token)))
    one = (2.0 / 5.0) ** 2
    amplified = account.by_observer()
    assert amplified[3] < 2 * one * 0.99
    if forked:
        fold.add(Forked(FIRST))
        assert account.by_observer() == pytest.approx([0.0] + [2 * one] * 3, rel=1e-9)
        assert fold.memory.forked == FIRST
        token = updated(token, 6, 9)
        fold.add(Released(Copy(FIRST, 9, Kind.UPDATED, token)))
        assert account.by_observer() == pytest.approx([0.0] + [3 * one] * 3, rel=1e-9)
    else:
        assert fold.memory.forked is None
