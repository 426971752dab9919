"""A node's own ledger: as exact as the account of the whole run, never below it, and never over its budget."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summing import account_of
from watched import exact_mu2, history

from skipring.errors import InvalidInput
from skipring.network.node import AccountTerms, NodeBudget, OwnAccount, willing
from skipring.network.protocol import (
    Ballot,
    Copy,
    Entry,
    Heard,
    Kept,
    Kind,
    Over,
    Released,
    Settled,
    Token,
    agreed_path,
    blank_chain,
    extended_chain,
    sealed,
    updates_of,
)
from skipring.privacy import Transcript, TranscriptAccountant, Unit, gdp_epsilon

FIRST: Ballot = (0, 0)
SEAL = sealed(bytes(32), bytes(32))


def terms_of(
    path: Sequence[int], *, nodes: int = 4, me: int = 0, noise: float = 5.0, convex: bool = True
) -> AccountTerms:
    """A run whose first ballot is (0, 0) if its first hop is of node 0."""
    sizes = 1.0 / np.sqrt(1.0 + np.arange(len(path)))
    return AccountTerms(nodes, me, path, sizes, noise, convex)


def chain_of(hops: Iterable[int], steps: int, ballot: Ballot = FIRST) -> bytes:
    chain = blank_chain(steps, b"run")
    for hop in hops:
        chain = extended_chain(chain, ballot, hop, SEAL)
    return chain


def whole_account(terms: AccountTerms, updated: Sequence[bool], hops: int | None = None) -> TranscriptAccountant:
    """The account of somebody who knows everything, if the run had ended after so many hops."""
    took = np.array(updated[:hops], dtype=bool)
    run = Transcript(
        nodes=terms.nodes,
        offered=np.array(terms.path[:hops], dtype=np.int64),
        updated=took,
        step_sizes=np.asarray(terms.step_sizes)[: took.sum()],
        noise_multiplier=terms.noise_multiplier,
        convex=terms.convex,
        parts=np.where(np.arange(terms.nodes) == terms.me, terms.parts, 1),
        protects=terms.protects,
    )
    return TranscriptAccountant(run)


def whole_mu2(terms: AccountTerms, updated: Sequence[bool], hops: int | None = None) -> Any:
    return whole_account(terms, updated, hops).matrix(threads=1)[terms.me] ** 2


def play(
    terms: AccountTerms, updated: Sequence[bool], each: Callable[[OwnAccount, str], None] | None = None
) -> OwnAccount:
    """Keep the account of a run without recoveries; `each` is called before and after every release."""
    account, chain = OwnAccount(terms), blank_chain(len(terms.path), b"run")
    ballot = (0, terms.path[0])
    for hop, (node, took) in enumerate(zip(terms.path, updated, strict=True), start=1):
        if not took:
            continue
        chain = extended_chain(chain, ballot, hop, SEAL)
        if node == terms.me:
            if each is not None:
                each(account, "before")
            account.released(ballot, hop, chain, updates_of(chain))
            if each is not None:
                each(account, "after")
    return account


@st.composite
def runs(draw: st.DrawFn) -> tuple[AccountTerms, list[bool]]:
    nodes = draw(st.integers(2, 7))
    steps = draw(st.integers(1, 60))
    schedule = draw(st.sampled_from(["ring", "random-ring", "random-walk"]))
    path = agreed_path(schedule, nodes, steps, draw(st.binary(min_size=2, max_size=2)))
    rng = random.Random(draw(st.integers(0, 2**32)))
    skip = draw(st.sampled_from([0.0, 0.2, 0.7]))
    spread = draw(st.sampled_from([0.0, 0.5, 1.5]))
    sizes = [math.exp(spread * rng.gauss(0.0, 1.0)) for _ in path]
    me, noise = draw(st.integers(0, nodes - 1)), math.exp(rng.uniform(-1.0, 3.0))
    terms = AccountTerms(nodes, me, path, sizes, noise, draw(st.integers(0, 4)) > 0)
    return terms, [rng.random() >= skip for _ in path]


# One chain.


@settings(max_examples=60, deadline=None)
@given(runs())
def test_it_is_the_account_of_the_whole_run_up_to_the_last_release(run: tuple[AccountTerms, list[bool]]) -> None:
    """And never below that of the run to its end, which every node is sent; nor are its parts."""
    terms, updated = run
    own = [hop for hop, took in enumerate(updated, start=1) if took and terms.path[hop - 1] == terms.me]
    account = play(terms, updated)
    assert account.releases == len(own)
    if own:
        expected = whole_mu2(terms, updated, own[-1])
        assert account.by_observer() == pytest.approx(expected, rel=1e-9, abs=0.0)
        assert np.all(account.by_observer() >= expected * (1.0 - 1e-12))
        assert account.mu2 == account.by_observer()[account.worst_observer]
        assert account.worst_observer != terms.me
        assert account.epsilon(1e-6) == pytest.approx(gdp_epsilon(math.sqrt(expected.max()), 1e-6), rel=1e-8, abs=1e-9)
    else:
        assert account.mu2 == account.plain_mu2 == account.epsilon(1e-6) == 0.0
    final = whole_mu2(terms, updated)
    assert np.all(account.by_observer() >= final * (1.0 - 1e-12))
    assert account.mu2 <= account.plain_mu2
    assert account.plain_mu2 == pytest.approx(len(own) * (2.0 / terms.noise_multiplier) ** 2, rel=1e-9)
    assert account.epsilon_of_releases(1e-6) >= account.epsilon(1e-6)
    if not terms.convex:
        assert account.mu2 == pytest.approx(account.plain_mu2, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(runs())
def test_one_more_is_never_more_than_was_said(run: tuple[AccountTerms, list[bool]]) -> None:
    said: list[float] = []

    def each(account: OwnAccount, when: str) -> None:
        if when == "before":
            said.append(account.mu2_with_one_more())
            assert said[-1] <= account.plain_mu2_after()
            assert gdp_epsilon(math.sqrt(account.mu2_with_one_more()), 1e-5) >= account.epsilon(1e-5)
        else:
            assert account.mu2 <= said[-1]

    assert play(*run, each=each).releases == len(said)


def test_others_hide_what_a_node_gives_away() -> None:
    """On a ring the next node sees each update bare, the one before last: no release costs more than in full."""
    terms = terms_of([0, 1, 2, 3] * 25, noise=10.0)
    account = play(terms, [True] * 100)
    mu2 = account.by_observer()
    assert mu2[1] == pytest.approx(25 * 0.04, rel=1e-6)
    assert mu2[1] > mu2[2] > mu2[3]
    assert account.worst_observer == 1
    skipped = play(terms, [node != 1 for node in terms.path])
    assert skipped.by_observer()[1] == pytest.approx(
        mu2[1], rel=1e-6
    )  # it was offered the token, so it may have seen it


def test_a_thousand_nodes_and_24000_hops() -> None:
    path = agreed_path("random-ring", 1000, 24_000, b"long")
    rng = random.Random(5)
    updated = [rng.random() > 0.1 for _ in path]
    terms = AccountTerms(1000, 17, path, 1.0 / np.sqrt(1.0 + np.arange(24_000)), 10.6, True)
    account = play(terms, updated)
    last = max(hop for hop, took in enumerate(updated, start=1) if took and path[hop - 1] == 17)
    expected = np.array([whole_account(terms, updated, last).mu(17, observer) for observer in (0, 16, 18, 999)]) ** 2
    assert account.by_observer()[[0, 16, 18, 999]] == pytest.approx(expected, rel=1e-9)
    assert account.releases > 15


# Forks.


def test_a_higher_ballot_makes_all_before_it_count_in_full() -> None:
    steps = 40
    terms = terms_of([0, 1, 2, 3] * 10)
    account = OwnAccount(terms)
    one = (2.0 / 5.0) ** 2
    for hop in (1, 5, 9):
        account.released(FIRST, hop, chain_of(range(1, hop + 1), steps), hop)
    amplified = account.by_observer()
    assert amplified[3] < 2.9 * one
    account.heard((0, 0))
    assert np.array_equal(account.by_observer(), amplified)  # known before
    account.heard((2, 3))
    assert account.by_observer() == pytest.approx([0.0, 3 * one, 3 * one, 3 * one], rel=1e-9)
    account.heard((1, 2))
    assert account.mu2 == account.plain_mu2
    # From here on others hide it again: the first release on the new chain is as the first one of a run.
    for hop in (17, 21):
        hops = [*range(1, 13), *range(14, hop + 1)]
        account.released((2, 3), hop, chain_of(hops, steps, (2, 3)), len(hops))
    fresh = whole_mu2(dataclasses.replace(terms, path=[0, 1, 2, 3, 0], step_sizes=terms.step_sizes[15:]), [True] * 5)  # type: ignore[index]
    assert account.by_observer()[1:] == pytest.approx(3 * one + fresh[1:], rel=1e-9)
    assert account.plain_mu2 == pytest.approx(5 * one, rel=1e-9)


def test_a_release_under_another_ballot_tells_of_a_fork() -> None:
    terms, one = terms_of([0, 1, 2, 3, 0, 2, 3, 1, 0, 3, 1, 2] * 4), (2.0 / 5.0) ** 2
    account = OwnAccount(terms)
    for hop in (1, 5, 9):
        account.released(FIRST, hop, chain_of(range(1, hop + 1), 48), hop)
    assert account.mu2 < 2.9 * one
    before = account.mu2_with_one_more((1, 1))
    assert before == account.plain_mu2_after()
    assert account.mu2_with_one_more(FIRST) == account.mu2_with_one_more() < before
    account.released((1, 1), 13, chain_of([1, 2, 13], 48), 3)
    assert account.by_observer()[1:] == pytest.approx(4 * one, rel=1e-9)
    assert account.mu2 <= before
    # Under a lower ballot it should not have been: it counts in full, and hides behind nobody.
    account.released(FIRST, 17, chain_of(range(1, 18), 48), 17)
    account.released((1, 1), 21, chain_of([1, 2, 13, 14, 15, 16, 18, 19, 20, 21], 48), 10)
    assert account.by_observer()[1:] == pytest.approx(6 * one, rel=1e-9)


def test_a_chain_that_does_not_go_on_from_the_last_one_is_a_fork() -> None:
    terms, one = terms_of([0, 1, 2, 3] * 10), (2.0 / 5.0) ** 2
    for hops, amplified in (([1, 2, 3, 4, 5, 6, 9], True), ([1, 2, 3, 5, 6, 9], False), ([2, 3, 4, 5, 9], False)):
        account = OwnAccount(terms)
        account.released(FIRST, 1, chain_of([1], 40), 1)
        account.released(FIRST, 5, chain_of([1, 2, 3, 4, 5], 40), 5)
        account.released(FIRST, 9, chain_of(hops, 40), len(hops))
        assert bool(account.by_observer()[3] < 2.9 * one) is amplified
    account.released(FIRST, 9, chain_of(hops, 40), len(hops))  # twice the same hop: one more release
    assert account.releases == 4
    assert account.mu2 == account.plain_mu2


def test_an_end_under_a_higher_ballot_counts_in_full() -> None:
    """A node that was away is told the model, and the ballot it was decided under: that of a fork, if it is higher."""
    path, steps = [0, 1, 2, 3] * 2, 8
    token = Token(5, b"", chain_of(range(1, 6), steps))
    entries: list[Entry] = [
        Released(Copy(FIRST, 1, Kind.UPDATED, Token(1, b"", chain_of([1], steps)))),
        Released(Copy(FIRST, 5, Kind.UPDATED, token)),
    ]
    amplified = account_of(terms_of(path), entries)
    assert amplified.by_observer()[3] < 0.99 * amplified.plain_mu2
    final = Token(7, b"", chain_of(range(1, 8), steps))

    def after(*more: Entry) -> float:
        return float(account_of(terms_of(path), [*entries, *more]).by_observer()[3])

    in_full = pytest.approx(amplified.plain_mu2, rel=1e-9)
    assert after(Over(final, FIRST)) == amplified.by_observer()[3]
    assert after(Over(final, (1, 2))) == in_full
    assert after(Kept(Copy((1, 2), 9, Kind.FINAL, final), 3), Over(final, (1, 2))) == in_full


@pytest.mark.parametrize(
    ("hop", "chain", "updates", "reason"),
    [
        (6, chain_of([1, 6], 40), 2, "hop = 6: must be a hop of node 0"),
        (41, chain_of([1], 40), 1, "hop = 41: must be a hop of node 0"),
        (0, chain_of([1], 40), 1, "hop = 0"),
        (5, chain_of([1, 5], 48), 2, "must be 37 bytes for a run of 40 steps"),
        (5, chain_of([1, 5], 40), 3, "2 updates: the token says 3"),
        (5, chain_of([1, 4], 40), 2, "no update at hop 5: it was released there"),
        (5, chain_of([1, 5, 6], 40), 3, "only hops before 6"),
        (9, chain_of([1, 5, 9], 40), 3, "an own update at hop 5: the journal has forgotten it"),
    ],
)
def test_a_release_that_makes_no_sense_is_refused_but_counted(
    hop: int, chain: bytes, updates: int, reason: str
) -> None:
    account = OwnAccount(terms_of([0, 1, 2, 3] * 10))
    account.released(FIRST, 1, chain_of([1], 40), 1)
    with pytest.raises(InvalidInput, match=reason):
        account.released(FIRST, hop, chain, updates)
    assert account.releases == (4 if "forgotten" in reason else 2)  # hop 1 may have been made twice, too
    assert account.mu2 == account.plain_mu2 == pytest.approx(account.releases * 0.16, rel=1e-9)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nodes": 1}, "nodes"),
        ({"me": 4}, "me = 4: must be a node from 0 to 3"),
        ({"path": []}, "path"),
        ({"path": [0, 4]}, "path"),
        ({"step_sizes": [1.0]}, "step_sizes"),
        ({"step_sizes": [1.0, 0.0]}, "step_sizes"),
        ({"step_sizes": [1.0, 1e-60]}, "step_sizes = of this run: or its noise are out of range"),
        ({"noise_multiplier": -1.0}, "noise_multiplier"),
        ({"parts": 0, "protects": "record"}, "parts"),
        ({"parts": 2}, "parts = 2: a whole node is in all of its parts"),
        ({"protects": "row"}, "protects"),
    ],
)
def test_terms_that_make_no_sense_are_refused(change: dict[str, Any], reason: str) -> None:
    good: dict[str, Any] = {"nodes": 4, "me": 0, "path": [0, 1], "step_sizes": [1.0, 1.0], "noise_multiplier": 1.0}
    with pytest.raises(InvalidInput, match=reason):
        AccountTerms(**(good | {"convex": True, "protects": "node"} | change))


# Histories of the protocol, with recoveries. What an observer learned is computed exactly, for losses that make all
# tokens Gaussian; that it sees on several chains is in it.


def stripped(entry: Entry) -> Entry:
    """An entry as it is read from a journal that keeps only the newest parameters."""
    if isinstance(entry, Kept | Released):
        token = dataclasses.replace(entry.copy.token, parameters=b"")
        return dataclasses.replace(entry, copy=dataclasses.replace(entry.copy, token=token))
    return (
        dataclasses.replace(entry, token=dataclasses.replace(entry.token, parameters=b""))
        if isinstance(entry, Over)
        else entry
    )


class Forgiving(OwnAccount):
    """A mutant: it takes no notice of forks."""

    def _count_in_full(self) -> None:
        pass


def test_no_observer_learns_more_than_the_account_says() -> None:
    amplified = recovered = 0
    for seed in range(100):
        found = history(seed)
        nodes, path = found.rules.nodes, found.rules.path
        sizes = (1.0 / np.sqrt(1.0 + np.arange(len(path)))).tolist()
        for target in range(nodes):
            disk = found.machines[target].disk
            account = account_of(AccountTerms(nodes, target, path, sizes, 5.0, True), disk)
            recovered += any(isinstance(entry, Heard) for entry in disk)
            for observer in set(range(nodes)) - {target}:
                said = account.by_observer()[observer]
                amplified += said < 0.99 * account.plain_mu2
                assert exact_mu2(found, target, observer, sizes, 5.0) <= said * (1.0 + 1e-9)
    assert amplified > 100
    assert recovered > 100


def test_no_observer_learns_more_of_a_record_in_any_part() -> None:
    """With recoveries, after which a turn may be taken again: with the same part, for turns are those of the path."""
    amplified = in_parts = 0
    for seed in range(60):
        found = history(seed)
        nodes, path = found.rules.nodes, found.rules.path
        sizes = (1.0 / np.sqrt(1.0 + np.arange(len(path)))).tolist()
        for target in range(nodes):
            disk, parts = found.machines[target].disk, 2 + (seed + target) % 2
            account = account_of(AccountTerms(nodes, target, path, sizes, 5.0, True, parts, "record"), disk)
            whole = account_of(AccountTerms(nodes, target, path, sizes, 5.0, True), disk)
            assert account.releases == whole.releases
            assert account.plain_mu2 <= whole.plain_mu2
            in_parts += account.plain_mu2 < whole.plain_mu2
            turns = [hop for hop, node in enumerate(path, start=1) if node == target]
            for observer in set(range(nodes)) - {target}:
                said = account.by_observer()[observer]
                assert said <= whole.by_observer()[observer] * (1.0 + 1e-9)
                amplified += said < 0.99 * account.plain_mu2
                for part in range(parts):
                    exact = exact_mu2(found, target, observer, sizes, 5.0, set(turns[part::parts]))
                    assert exact <= said * (1.0 + 1e-9)
    assert amplified > 100
    assert in_parts > 100


@pytest.mark.parametrize("parts", [2, 3, 7])
def test_with_parts_it_is_the_account_of_the_whole_run(parts: int) -> None:
    """Up to the last release, before which it is never above what one more release was said to cost at most."""
    rng = random.Random(parts)
    for _ in range(25):
        nodes, steps = rng.randint(2, 6), rng.randint(1, 60)
        path = agreed_path(rng.choice(["ring", "random-ring", "random-walk"]), nodes, steps, rng.randbytes(2))
        sizes = [math.exp(rng.gauss(0.0, 0.5)) for _ in path]
        terms = AccountTerms(nodes, rng.randrange(nodes), path, sizes, 3.0, rng.random() < 0.8, parts, "person")
        updated = [rng.random() >= 0.4 for _ in path]
        own = [hop for hop, took in enumerate(updated, start=1) if took and path[hop - 1] == terms.me]
        upcoming, most = list(own), list[tuple[float, float]]()

        def each(account: OwnAccount, when: str, upcoming: list[int] = upcoming, most: list[Any] = most) -> None:
            if when == "before":
                hop = upcoming.pop(0)
                most.append((account.mu2_with_one_more(hop=hop), account.plain_mu2_after(hop)))
                assert most[-1][0] <= account.mu2_with_one_more() * (1.0 + 1e-12)
                assert most[-1][1] <= account.plain_mu2_after()
            else:
                assert account.mu2 <= most[-1][0]
                assert account.plain_mu2 == most[-1][1]

        account = play(terms, updated, each)
        mine = [hop for hop, node in enumerate(path, start=1) if node == terms.me]
        counts = [len(set(mine[part::parts]) & set(own)) for part in range(parts)]
        assert account.plain_mu2 == pytest.approx(max(counts) * (2.0 / 3.0) ** 2, rel=1e-9)
        if own:
            assert account.by_observer() == pytest.approx(whole_mu2(terms, updated, own[-1]), rel=1e-9, abs=0.0)
        assert np.all(account.by_observer() >= whole_mu2(terms, updated) * (1.0 - 1e-12))


def test_after_a_fork_each_part_counts_its_own_releases_in_full() -> None:
    path, one = [0, 1, 2, 3] * 10, (2.0 / 5.0) ** 2
    terms = dataclasses.replace(terms_of(path), parts=2, protects="record")
    account = OwnAccount(terms)
    for hops in ([1], [1, 2, 5], [1, 2, 5, 6, 9]):  # turns 0, 1 and 2: parts 0, 1 and 0
        account.released(FIRST, hops[-1], chain_of(hops, 40), len(hops))
    account.heard((1, 2))
    assert account.releases == 3
    assert account.mu2 == account.plain_mu2 == pytest.approx(2.0 * one, rel=1e-9)
    assert account.mu2_with_one_more((2, 0), hop=13) == pytest.approx(2.0 * one, rel=1e-9)  # turn 3: part 1
    assert account.mu2_with_one_more((2, 0), hop=17) == pytest.approx(3.0 * one, rel=1e-9)
    assert account.mu2_with_one_more((2, 0)) == pytest.approx(3.0 * one, rel=1e-9)
    budget = NodeBudget(epsilon=gdp_epsilon(math.sqrt(2.5 * one), 1e-5), delta=1e-5)
    assert willing(account, budget, (2, 0), 13)
    assert not willing(account, budget, (2, 0), 17)
    assert not willing(account, budget, (2, 0))
    account.released((1, 2), 9, chain_of([1, 2, 5, 6, 9], 40), 5)  # turn 2 once more: part 0 again
    assert account.plain_mu2 == pytest.approx(3.0 * one, rel=1e-9)
    with pytest.raises(InvalidInput, match="a hop of node 0"):  # of which part, nobody knows
        account.released((1, 2), 10, chain_of([1, 10], 40), 2)
    assert account.plain_mu2 == account.mu2 == pytest.approx(4.0 * one, rel=1e-9)
    assert account.plain_mu2_after(13) == pytest.approx(4.0 * one, rel=1e-9)


def test_the_digest_of_terms_knows_what_is_protected() -> None:
    terms = dataclasses.replace(terms_of([0, 1, 2, 3] * 3), protects="node")
    others = [{"protects": "record"}, {"protects": "person"}, {"protects": "record", "parts": 2}]
    digests = {dataclasses.replace(terms, **change).digest for change in others}  # type: ignore[arg-type]
    assert len(digests | {terms.digest}) == 4


@pytest.mark.parametrize("told", [True, False])
def test_who_takes_no_notice_of_a_fork_says_too_little(told: bool) -> None:
    """Node 3 sees the token of hop 4 and is lost. Node 2 goes on from its copy, and now node 1 updates before hop 4."""
    path, noise, recovered = [0, 2, 1, 3, 3, 0], 5.0, (1, 2)
    made = {"first": (0, "initial"), "x": (2, "first"), "w": (1, "x"), "v": (3, "w"), "last": (0, "v")}
    number = {name: index for index, name in enumerate(made, start=1)}
    found = SimpleNamespace(updates=made, number=number, seen={3: {"x", "w", "v", "last"}})
    terms = AccountTerms(4, 0, path, [1.0] * 6, noise, True)
    account, mutant = OwnAccount(terms), Forgiving(terms)
    for each in (account, mutant):
        each.released(FIRST, 1, chain_of([1], 6), 1)
        if told:
            each.heard(recovered)
        each.released(recovered, 6, chain_of([1, 2, 3, 5, 6], 6), 5)
    one = (2.0 / noise) ** 2
    assert exact_mu2(found, 0, 3, [1.0] * 6, noise) == pytest.approx(1.5 * one)
    assert account.by_observer()[3] == pytest.approx(2.0 * one)
    assert mutant.by_observer()[3] == pytest.approx((1.0 + 1.0 / 3.0) * one)


def test_the_journal_alone_gives_the_same_account() -> None:
    """At each of its entries; the live one is told of promises, releases and the end only."""
    kinds = set()
    for seed in range(12):
        found = history(seed)
        for me, machine in enumerate(found.machines):
            terms = terms_of(found.rules.path, nodes=found.rules.nodes, me=me)
            live = OwnAccount(terms)
            for count, entry in enumerate(machine.disk, start=1):
                kinds.add(type(entry))
                if isinstance(entry, Heard):
                    live.heard(entry.ballot, entry.start, entry.before)
                elif isinstance(entry, Released):
                    token = entry.copy.token
                    live.released(entry.copy.ballot, entry.copy.hop, token.chain, token.updates)
                elif isinstance(entry, Kept):
                    live.heard(entry.copy.ballot)
                elif isinstance(entry, Over):
                    live.heard(entry.ballot)
                elif isinstance(entry, Settled):
                    live.settled(entry)
                if count % 7 == 0 or count == len(machine.disk):
                    again = account_of(terms, map(stripped, machine.disk[:count]))
                    assert np.array_equal(again.by_observer(), live.by_observer())
                    assert (again.releases, again.mu2) == (live.releases, live.mu2)
                    assert again.mu2_with_one_more((0, 0)) == live.mu2_with_one_more((0, 0))
    assert kinds >= {Heard, Kept, Released, Over, Settled}


# Budgets.


def test_without_a_budget_everything_is_given() -> None:
    account = play(terms_of([0, 1] * 50, noise=0.01), [True] * 100)
    assert willing(account, NodeBudget())


@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("seed", range(12))
def test_what_one_more_release_costs_is_known_once_the_token_is_here(seed: int, parts: int) -> None:
    """To the last digit; before, it is known what it costs at the least, and at the most."""
    rng = np.random.default_rng(seed)
    nodes = int(rng.integers(3, 6))
    path = rng.integers(0, nodes, 60).tolist()
    protects: Unit = "record" if parts > 1 else "node"
    terms = AccountTerms(nodes, 0, path, 1.0 / np.sqrt(1.0 + np.arange(60)), 4.0, True, parts, protects, closing=4)
    account, token = OwnAccount(terms), Token(0, b"", blank_chain(60, b"run"))
    budget = NodeBudget(epsilon=3.0, delta=1e-5)
    refused = made = 0
    for hop, node in enumerate(path, start=1):
        if rng.random() < 0.3:
            continue
        if node == 0:
            least, most = account.mu2_after(hop), account.mu2_with_one_more((0, path[0]), hop)
            exact, before = account.mu2_after(hop, token), account.by_observer()
            assert least <= exact * (1.0 + 1e-12) <= most * (1.0 + 1e-9)
            assert np.array_equal(account.by_observer(), before)  # nothing was counted
            if not willing(account, budget, (0, path[0]), hop, token):
                refused += 1
                continue
            made += 1
        chain = extended_chain(token.chain, (0, path[0]), hop, rng.bytes(32))
        token = Token(token.updates + 1, b"", chain)
        if node == 0:
            account.released((0, path[0]), hop, chain, token.updates)
            assert account.mu2 == exact or hop > 56
            assert account.epsilon(1e-5) <= 3.0
    assert made
    assert refused or parts > 1 or made < 4


@settings(max_examples=60, deadline=None)
@given(runs(), st.floats(0.05, 20.0), st.sampled_from([1e-3, 1e-5, 1e-9]), st.sampled_from(["transcript", "releases"]))
def test_a_budget_is_never_exceeded(
    run: tuple[AccountTerms, list[bool]], epsilon: float, delta: float, count: Any
) -> None:
    """The node refuses when it is not willing; the account of the whole run tells what was given away in the end."""
    (terms, able), budget = run, NodeBudget(epsilon=epsilon, delta=delta, count=count)
    account, chain, updated, ballot = OwnAccount(terms), blank_chain(len(terms.path), b"run"), [], (0, terms.path[0])
    for hop, (node, ready) in enumerate(zip(terms.path, able, strict=True), start=1):
        token = Token(updates_of(chain), b"", chain)
        took = ready and (node != terms.me or willing(account, budget, ballot, hop, token))
        updated.append(took)
        if took:
            chain = extended_chain(chain, ballot, hop, SEAL)
            if node == terms.me:
                account.released(ballot, hop, chain, updates_of(chain))
    assert account.epsilon(delta) <= epsilon
    mu2 = whole_mu2(terms, updated)
    assert gdp_epsilon(math.sqrt(mu2.max()), delta) <= epsilon
    if count == "releases":
        assert account.epsilon_of_releases(delta) <= epsilon


def test_a_budget_is_used() -> None:
    """It refuses only what would be too much: the next release in full would have been over."""
    terms, budget = terms_of([0, 1, 2, 3] * 50), NodeBudget(epsilon=4.0, delta=1e-5)
    releases = []
    for count in ("transcript", "releases"):
        counted = budget.model_copy(update={"count": count})
        account, chain = OwnAccount(terms), blank_chain(200, b"run")
        for hop, node in enumerate(terms.path, start=1):
            if node or willing(account, counted):
                chain = extended_chain(chain, FIRST, hop, SEAL)
                if node == 0:
                    account.released(FIRST, hop, chain, updates_of(chain))
        releases.append(account.releases)
        assert not willing(account, counted)
        assert account.epsilon(1e-5) <= 4.0
        assert gdp_epsilon(math.sqrt(account.mu2 + 0.16), 1e-5) > 4.0
    assert 0 < releases[1] < 50
    assert releases[0] == releases[1]  # on a ring the next node sees each update bare


def test_an_offer_under_a_higher_ballot_is_judged_as_if_it_were_known() -> None:
    """To take it makes all before it count in full; whoever finds out afterwards has spent too much."""
    nodes, steps = 6, 120
    path = agreed_path("random-ring", nodes, steps, b"seed")
    terms = terms_of(path, nodes=nodes, me=2, noise=10.0)
    account = play(terms, [True] * steps)
    middle = 0.5 * (account.mu2_with_one_more() + account.plain_mu2_after())
    budget = NodeBudget(epsilon=gdp_epsilon(math.sqrt(middle), 1e-5), delta=1e-5)
    known = (0, path[0])
    assert willing(account, budget)
    assert willing(account, budget, known)
    assert not willing(account, budget, (1, 0))
    assert not willing(account, budget.model_copy(update={"count": "releases"}))
    account.heard((1, 0))
    assert not willing(account, budget, (1, 0))


def test_rounding_is_on_the_safe_side() -> None:
    """A budget that is spent to the last digit is spent."""
    terms = terms_of([0, 1, 2, 3] * 3)
    account = OwnAccount(terms)
    for delta in (1e-75, 1e-12, 1e-3):
        exact = gdp_epsilon(0.4, delta)  # of one release, without any allowance
        assert not willing(account, NodeBudget(epsilon=exact * (1.0 - 1e-12), delta=delta))
        assert willing(account, NodeBudget(epsilon=exact * (1.0 + 1e-6), delta=delta))
