"""Recoveries cost what can have been seen, and no less: accounts against exact leakage, over trees of forks.

All tokens are Gaussian in these runs, so that what an observer has learned has a formula; that it sees tokens on many
ways is in it. An account must never be below it, whoever answers after the end, and whatever nobody knows.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import watched
import world
from hypothesis import given, settings
from hypothesis import strategies as st
from summing import account_of, replayed
from ways import Ways, detour, ways

import skipring.network.node.ledger as ledger_module
import skipring.network.node.settled_account as account_module
import skipring.network.protocol.forks as forks_module
from skipring.errors import InvalidInput
from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import (
    Broke,
    Forked,
    Heard,
    Kind,
    Looks,
    Memory,
    Peer,
    Released,
    Rule,
    Rules,
    Send,
    SetTimer,
    Settled,
    Ticket,
    Timer,
    Token,
    Told,
    WantLooks,
    Write,
    marks_of,
    settled,
)
from skipring.network.protocol.forks import starts_before
from skipring.privacy import Transcript, TranscriptAccountant

NOISE = 5.0


class Low(AssertionError):
    """An account says less than what an observer has learned."""


def terms_of(found: Ways, target: int) -> AccountTerms:
    sizes = 1.0 / np.sqrt(1.0 + np.arange(found.rules.steps))
    return AccountTerms(found.rules.nodes, target, found.rules.path, sizes, NOISE, True)


def account_in(found: Ways, target: int, rng: random.Random) -> OwnAccount:
    """Keep the account of a node that hears of every ballot, with what a majority has told about the lower ones."""
    account, rules = OwnAccount(terms_of(found, target)), found.rules
    mine = sorted((ballot, hop, token) for author, ballot, hop, token in found.releases if author == target)
    for ballot in sorted({found.first, *found.starts}):
        start = found.starts.get(ballot)
        if start is not None:
            voters = rng.sample(sorted(found.promised[ballot]), rules.majority)
            before = starts_before(rules, ballot, {node: found.told(node, ballot) for node in voters})
            account.heard(ballot, start, before)
        elif ballot != found.first:
            account.heard(ballot)
        for under, hop, token in mine:
            if under == ballot:
                account.released(ballot, hop, token.chain, token.updates)
    return account


def check(seed: int) -> tuple[int, int, int]:
    """Check all accounts of a run; return how many pairs are hidden in it, how many more after it, how many not."""
    found, rng = ways(seed), random.Random(seed + 1)
    nodes = found.rules.nodes
    many = rng.choice([0, 1, nodes - found.rules.majority, rng.randint(0, nodes - 1)])
    return check_all(found, set(rng.sample(range(nodes), many)), rng, str(seed))


def check_all(found: Ways, silent: set[int], rng: random.Random, name: str) -> tuple[int, int, int]:
    """Check all accounts of a run after which some nodes are silent."""
    rules = found.rules
    sizes = (1.0 / np.sqrt(1.0 + np.arange(rules.steps))).tolist()
    hidden = certain = full = 0
    for target in range(rules.nodes):
        account = account_in(found, target, rng)
        by_journal, plain = account.by_observer(), account.plain_mu2
        assert found.outcome is not None
        told = {node: found.told(node) for node in range(rules.nodes) if node == target or node not in silent}
        end = settled(rules, found.outcome, found.decided, told)
        if end is not None:
            account.settled(end)
        after = account.by_observer()
        assert np.all(after <= by_journal)
        for observer in set(range(rules.nodes)) - {target}:
            exact = watched.exact_mu2(found, target, observer, sizes, NOISE)
            for said, when in ((by_journal, "in the run"), (after, "after its end")):
                if exact > said[observer] * (1.0 + 1e-9):
                    raise Low(
                        f"{name}: {observer} knows {exact:.4g} of {target}, which says {said[observer]:.4g} {when}"
                    )
            hidden += by_journal[observer] < 0.99 * plain
            certain += after[observer] < 0.99 * by_journal[observer]
            full += plain > 0.0 and after[observer] > 0.99 * plain
    return hidden, certain, full


@pytest.mark.parametrize("seeds", [range(600), pytest.param(range(600, 20_000), marks=pytest.mark.slow)])
def test_no_observer_learns_more_than_an_account_says_whatever_forked(seeds: range) -> None:
    hidden, certain, full = np.sum([check(seed) for seed in seeds], axis=0)
    assert hidden > len(seeds)  # in the run, other nodes hide something
    assert certain > len(seeds) // 3  # and after its end some more
    assert full > len(seeds)


def check_detours() -> None:
    """Check the accounts of one run for all who may be silent after it, and all who may know of the detour."""
    for bits in range(2**5):
        silent = {node for node in range(5) if bits >> node & 1}
        for informed in ({3}, {1, 3}, set[int]()):
            for draw in range(4):  # of the majority that was asked
                found = detour(informed)
                if not informed:  # node 3 has led that recovery, so it would know
                    silent = silent | {3}
                    found.promised[2, 2] = {0, 1, 2, 4}
                check_all(found, silent, random.Random(draw), f"silent {silent}, informed {informed}")


def test_a_detour_counts_whoever_is_silent_after_it() -> None:
    check_detours()
    found, one = detour({1, 3}), (2.0 / NOISE) ** 2
    assert watched.exact_mu2(found, 0, 4, [1.0] * 6, NOISE) == pytest.approx(2.0 * one)  # both bare
    assert watched.exact_mu2(found, 0, 3, [1.0] * 6, NOISE) == pytest.approx((1.0 + 1.0 / 3.0) * one)
    terms = AccountTerms(5, 0, found.rules.path, [1.0] * 6, NOISE, True)

    def said(*tell: int) -> Any:
        account = OwnAccount(terms)
        for author, ballot, hop, token in found.releases:
            if author == 0:
                account.released(ballot, hop, token.chain, token.updates)
        account.heard(found.decided)
        assert found.outcome is not None
        end = settled(found.rules, found.outcome, found.decided, {node: found.told(node) for node in tell})
        if end is not None:
            account.settled(end)
        return (account.by_observer() / one).round(6).tolist()

    hidden, full = [0.0, 2.0, 2.0, 1.333333, 2.0], [0.0, 2.0, 2.0, 2.0, 2.0]
    assert said(0, 1, 2, 3, 4) == hidden
    assert said(0, 1, 2, 4) == hidden  # node 3 has led that recovery, but had no token beside the line
    assert said(0, 1, 2, 3) == full  # the others may have had one
    assert said(0, 1, 3, 4) == full
    assert said(0, 2, 3, 4) == full
    assert said(0, 2) == full  # there may be ballots that neither has heard of


# --- Mutants: each takes away one rule.


def _nobody_is_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    beside = forks_module._beside

    def all_have_told(rules: Rules, tree: Any, ballot: Any, told: dict[int, Told]) -> set[int]:
        return beside(rules, tree, ballot, {node: told.get(node, Told()) for node in range(rules.nodes)})

    monkeypatch.setattr(forks_module, "_beside", all_have_told)


def _looks_beside_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forks_module, "_beside", lambda *_: set())


def _what_is_not_known_never_was(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = forks_module._starts
    monkeypatch.setattr(forks_module, "_starts", lambda *given: (starts(*given)[0], set()))


def _few_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    class Few(Rules):
        majority = 100

    original = forks_module.settled

    def lenient(rules: Rules, *given: Any) -> Settled | None:
        return original(Few(**{name: getattr(rules, name) for name in rules.__dataclass_fields__}), *given)

    monkeypatch.setitem(globals(), "settled", lenient)


def _releases_beside_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    on_the_line = account_module.on_the_line

    def counted(terms: AccountTerms, made: Any, found: Any, marks: int | None = None) -> Any:
        hops = on_the_line(terms, made, found, marks)
        return hops and [hop for under in made.values() for hop in account_module._hops_in(under.hops)]

    monkeypatch.setattr(ledger_module, "on_the_line", counted)


def _ways_part_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves_at = forks_module._Tree.leaves_at

    def late(self: Any, ballot: Any) -> int | None:
        return None if leaves_at(self, ballot) is None else self._steps

    monkeypatch.setattr(forks_module._Tree, "leaves_at", late)


def _only_its_own_start_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    parted = forks_module.parted

    def alone(path: Any, ballot: Any, start: Any, before: Any) -> Any:
        line, at = {}, start
        for each, begun in sorted(before, reverse=True):
            if at is not None and each == at[0]:
                line[each], at = begun, begun
        return parted(path, ballot, start, tuple(sorted(line.items())))

    monkeypatch.setattr(ledger_module, "parted", alone)


def _who_denies_is_believed_by_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ballots of which nobody knows a start are taken for ones that were never gone on with."""
    before = forks_module.starts_before

    def certain(*given: Any) -> Any:
        found = before(*given)
        return found and tuple(each for each in found if each[1] is not None)

    monkeypatch.setitem(globals(), "starts_before", certain)


def _a_minority_knows_all(monkeypatch: pytest.MonkeyPatch) -> None:
    before = forks_module.starts_before
    monkeypatch.setitem(
        globals(),
        "starts_before",
        lambda rules, ballot, told: before(
            rules, ballot, {node: Told() if at else each for at, (node, each) in enumerate(sorted(told.items()))}
        ),
    )


MUTANTS: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    "who does not answer has seen nothing": _nobody_is_silent,
    "a look beside the line is none": _looks_beside_do_not_count,
    "a start that nobody knows does not matter": _what_is_not_known_never_was,
    "few answers are enough": _few_are_enough,
    "what is beside the line was not released": _releases_beside_do_not_count,
    "ways part at the end of the line": _ways_part_at_the_end,
    "ballots beside the line do not matter": _only_its_own_start_counts,
    "a ballot without a known start never was": _who_denies_is_believed_by_nobody,
    "one node knows of all ballots": _a_minority_knows_all,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def tried() -> None:
        check_detours()
        for seed in range(1500):
            check(seed)

    MUTANTS[name](monkeypatch)
    with pytest.raises(Low):
        tried()


# --- Histories of the protocol.


def final_mu2(found: watched.Watched, target: int, outcome: Token) -> Any:
    """The account of the final chain by somebody who knows all of it, and nothing else."""
    path = found.rules.path
    updated = np.array([outcome.chain[32 + at // 8] >> at % 8 & 1 for at in range(len(path))], dtype=bool)
    sizes = (1.0 / np.sqrt(1.0 + np.arange(len(path))))[: updated.sum()]
    run = Transcript(
        nodes=found.rules.nodes,
        offered=np.array(path),
        updated=updated,
        step_sizes=sizes,
        noise_multiplier=NOISE,
        convex=True,
    )
    return TranscriptAccountant(run).matrix(threads=1)[target] ** 2


def rough(seed: int) -> watched.Watched:
    """A history with many recoveries; some of its nodes are lost for good."""
    rng = random.Random(seed)
    nodes = rng.randint(3, 6)
    path = [rng.randrange(nodes) for _ in range(rng.choice([3, 6]) * nodes)]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=0.3, silence=5.0)
    weather = world.Weather(
        drop=rng.choice([0.02, 0.1]),
        crash=rng.choice([0.01, 0.03]),
        slow=0.1,
        partitions=rng.choice([1, 4]),
        lost_for_good=rng.choice([0, 0, 1, (nodes - 1) // 2]),
    )
    found = watched.Watched(seed, rules, weather)
    found.run(until=4000.0)
    found.check_end()
    return found


def saw_more(end: Settled, path: Sequence[int]) -> bool:
    """Say whether somebody has looked where it would not have looked at its next turn all the same."""
    marks = marks_of(end.trail.chain)
    for place, nodes in end.looks:
        next_update = next((hop for hop in range(place + 1, len(path) + 1) if marks >> (hop - 1) & 1), len(path))
        if not set(nodes) <= set(path[place:next_update]):
            return True
    return False


@pytest.mark.parametrize("seeds", [range(120), pytest.param(range(120, 4000), marks=pytest.mark.slow)])
def test_in_histories_a_recovery_costs_what_was_seen(seeds: Iterable[int]) -> None:
    """Never less than that; and where nothing was lost, and nobody looked beside the chain, nothing at all."""
    recovered = settled_in = as_if_none = relaxed = 0
    for seed in seeds:
        found = rough(seed)
        nodes, path = found.rules.nodes, found.rules.path
        sizes = (1.0 / np.sqrt(1.0 + np.arange(len(path)))).tolist()
        for target, machine in enumerate(found.machines):
            if machine.memory.outcome is None:
                continue
            account = account_of(AccountTerms(nodes, target, path, sizes, NOISE, True), machine.disk)
            recovered += bool(machine.memory.starts)
            end = machine.memory.settled
            settled_in += account.is_settled
            relaxed += account.mu2 < 0.999 * account.mu2_by_journal
            for observer in set(range(nodes)) - {target}:
                said = account.by_observer()[observer]
                assert watched.exact_mu2(found, target, observer, sizes, NOISE) <= said * (1.0 + 1e-9)
            released = [entry for entry in machine.disk if isinstance(entry, Released)]
            hops = [hop for hop, node in enumerate(path, start=1) if node == target]
            lost = len(released) - sum(machine.memory.outcome.chain[32 + (h - 1) // 8] >> (h - 1) % 8 & 1 for h in hops)
            if end is not None and account.is_settled and not lost and not saw_more(end, path) and end.below[0] == 0:
                as_if_none += 1
                said, chain = account.by_observer(), final_mu2(found, target, machine.memory.outcome)
                assert said == pytest.approx(chain, rel=1e-9, abs=1e-12)
    assert recovered > 200
    assert settled_in > 150
    assert relaxed > 40
    assert as_if_none > 20


def test_the_end_comes_first_and_what_is_certain_after_it() -> None:
    """A node that dies in between has counted in full, and asks again when it is back."""
    done = 0
    for seed in range(60):
        found = rough(seed)
        for me, machine in enumerate(found.machines):
            if machine.memory.settled is None:
                continue
            done += 1
            before = machine.disk[: next(at for at, entry in enumerate(machine.disk) if isinstance(entry, Settled))]
            memory = found.machines[me].memory
            blank = Memory.blank(found.rules.path[0], found.initial)
            again = Peer(me, found.rules, replayed(blank, before), found.seals[me], sight=found.sights[me])
            actions = again.begin()
            asked = {action.to for action in actions if isinstance(action, Send) and action.message == WantLooks()}
            assert asked == again.settling == set(range(found.rules.nodes)) - {me}
            assert any(isinstance(action, SetTimer) and action.name is Timer.LOOKS for action in actions)
            for entry in before:
                assert not isinstance(entry, Settled)
            assert memory.outcome is not None
    assert done > 50


def ended() -> tuple[Peer, Any]:
    """A node whose run is over, after a recovery in which nothing was lost."""
    for seed in range(100):
        found = rough(seed)
        for me, machine in enumerate(found.machines):
            if machine.memory.settled is not None and not any(each.gone for each in found.machines):
                blank = Memory.blank(found.rules.path[0], found.initial)
                disk = [entry for entry in machine.disk if not isinstance(entry, Settled)]
                peer = Peer(me, found.rules, replayed(blank, disk), found.seals[me], sight=found.sights[me])
                peer.begin()
                return peer, found
    raise AssertionError("no such history")


def answers(found: Any, me: int) -> dict[int, Looks]:
    others = set(range(found.rules.nodes)) - {me}
    return {node: Looks(Told.of(found.machines[node].memory).places) for node in others}


def test_nothing_is_settled_before_all_have_answered_or_were_asked_enough() -> None:
    peer, found = ended()
    me = next(iter(set(range(found.rules.nodes)) - peer.settling))
    said = sorted(answers(found, me).items())
    for node, message in said[:-1]:
        assert not any(isinstance(action, Write) for action in peer.received(node, message))
        assert not peer.received(node, message)  # again: nothing new
    assert peer.settling == {said[-1][0]}
    for _ in range(20):
        actions = peer.expired(Timer.LOOKS)
        if not peer.settling:
            break
    written = [action.entry for action in actions if isinstance(action, Write)]
    assert len(written) <= 1  # without one of them: not more than is certain all the same
    late = [action.entry for action in peer.received(*said[-1]) if isinstance(action, Write)]
    everybody = {node: Told.of(found.machines[node].memory) for node in range(found.rules.nodes)}
    memory = peer.memory
    assert memory.outcome is not None
    assert memory.decided is not None
    assert memory.settled == settled(found.rules, memory.outcome, memory.decided, everybody)
    assert late in ([memory.settled], [])


@pytest.mark.parametrize(
    "places", [b"", b"rubbish", zlib.compress(b"x"), zlib.compress(bytes(1 << 25)), zlib.compress(b"\1" * 13)]
)
def test_an_answer_that_no_journal_gives_is_none(places: bytes) -> None:
    peer, _ = ended()
    node = min(peer.settling)
    actions = peer.received(node, Looks(places))
    assert [(action.node, action.rule) for action in actions if isinstance(action, Broke)] == [(node, Rule.LOOKS)]
    assert node in peer.settling


def test_who_contradicts_the_others_makes_it_count_in_full() -> None:
    """One that speaks of a ballot which its leader has never gone on with, or of another start."""
    relaxed = 0
    for seed in range(300):
        found = ways(seed)
        assert found.outcome is not None
        told = {node: found.told(node) for node in range(found.rules.nodes)}
        end = settled(found.rules, found.outcome, found.decided, told)
        assert end is not None
        relaxed += end.below == found.first
        liar, (ballot, start) = found.rng.randrange(found.rules.nodes), max(found.starts.items())
        assert start is not None
        other = (start[0], start[1] + 1, Kind.ACCEPTED)
        lies = {**told, liar: replace(told[liar], starts={**told[liar].starts, ballot: other})}
        if len({each.starts.get(ballot) for each in lies.values()} - {None}) > 1:
            contradicted = settled(found.rules, found.outcome, found.decided, lies)
            assert contradicted is not None
            assert contradicted.below == ballot
    assert relaxed > 100


def test_a_fork_that_is_proven_later_takes_it_back() -> None:
    for seed in range(100):
        found = rough(seed)
        for me, machine in enumerate(found.machines):
            terms = AccountTerms(found.rules.nodes, me, found.rules.path, np.ones(found.rules.steps), NOISE, True)
            account = account_of(terms, machine.disk)
            if account.is_settled and account.mu2 < 0.9 * account.plain_mu2:
                account = account_of(terms, [*machine.disk, Forked((0, found.rules.path[0]))])
                assert not account.is_settled
                assert account.mu2 == account.plain_mu2
                again = account_of(terms, [*machine.disk, Forked((0, 0)), machine.memory.settled])  # type: ignore[list-item]
                assert again.mu2 == again.plain_mu2
                return
    pytest.fail("no history in which it matters")


def test_a_promise_alone_counts_in_full_and_its_proof_says_what_does() -> None:
    """Between the two nobody knows where the run goes on from: no budget may rely on what may not come."""
    fell = 0
    for seed in range(100):
        found = rough(seed)
        for me, machine in enumerate(found.machines):
            terms = AccountTerms(found.rules.nodes, me, found.rules.path, np.ones(found.rules.steps), NOISE, True)
            account = OwnAccount(terms)
            for entry in machine.disk:
                if isinstance(entry, Heard):
                    account.heard(entry.ballot)
                    if entry.ballot == max(ballot for ballot, _ in (*account_ballots(machine.disk, entry),)):
                        assert account.mu2 == account.plain_mu2
                    promised = account.mu2
                    account.heard(entry.ballot, entry.start, entry.before)
                    assert account.mu2 <= promised
                    fell += account.mu2 < 0.999 * promised
                elif isinstance(entry, Released):
                    token = entry.copy.token
                    account.released(entry.copy.ballot, entry.copy.hop, token.chain, token.updates)
    assert fell > 5


def account_ballots(disk: list[Any], upto: Heard) -> list[tuple[Any, Any]]:
    """Return the ballots of releases and promises up to an entry."""
    found = []
    for entry in disk:
        if isinstance(entry, Heard):
            found.append((entry.ballot, None))
        elif isinstance(entry, Released):
            found.append((entry.copy.ballot, None))
        if entry is upto:
            break
    return found


@pytest.mark.parametrize("sender", [1, 2])
def test_where_a_recovery_went_on_from_is_believed_from_its_leader(sender: int) -> None:
    """Another node may pass the proof on, but nobody has signed what is beside the promises."""
    rules, ballot, seals = Rules(nodes=3, path=[0, 1, 2] * 3, timeout=1.0), (1, 1), world.fake_seals(3)
    peer = Peer(0, rules, Memory.blank(0, Token(0, b"model", b"")), seals[0])
    promises = tuple((node, seals[node].promise(ballot)) for node in (1, 2))
    start = ((0, 0), 2, Kind.ACCEPTED)
    actions = peer.received(sender, Ticket(ballot, promises, start, Told().places))
    heard = [action.entry for action in actions if isinstance(action, Write)]
    assert heard == [Heard(ballot, promises, start, () if sender == 1 else None)]


# --- What nodes tell.

BALLOTS = st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 4))
HOPS = st.integers(0, 2**21 - 1).map(lambda bits: bits << 1)
RANKS = st.tuples(BALLOTS, st.integers(0, 22), st.sampled_from(Kind))


@settings(max_examples=200, deadline=None)
@given(st.dictionaries(BALLOTS, st.none() | RANKS), st.dictionaries(BALLOTS, HOPS), st.dictionaries(BALLOTS, HOPS))
def test_what_is_told_is_read_back(starts: Any, passed: Any, taken: Any) -> None:
    told = Told(starts, passed, taken)
    again = Told.read(told.places, nodes=5, steps=20)
    everything = {*starts, *passed, *taken}
    assert again.starts == starts
    assert all(again.passed.get(ballot, 0) == passed.get(ballot, 0) for ballot in everything)
    assert all(again.taken.get(ballot, 0) == taken.get(ballot, 0) for ballot in everything)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.booleans())
def test_rubbish_is_refused_and_nothing_else_goes_wrong(content: bytes, packed: bool) -> None:
    try:
        told = Told.read(zlib.compress(content) if packed else content, nodes=3, steps=12)
    except InvalidInput:
        return  # and nothing else
    assert all(ballot[1] < 3 for ballot in (*told.starts, *told.passed, *told.taken))
