"""One fold: entries add up to the same, one by one, from the file, or for somebody who reads beside the node."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import watched
import world
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from summing import account_of, replayed

from skipring.errors import InvalidInput
from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import (
    Copy,
    Entry,
    Fold,
    Forgotten,
    Forked,
    Heard,
    Kept,
    Kind,
    Memory,
    Over,
    Release,
    Released,
    Token,
)
from skipring.network.storage import JournalError, JournalFile, digest_of, read_journal, sum_journal
from skipring.privacy import Unit

NODE, RUN = "ann", "run"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder in memory where there is one: this is about bytes, not about disks."""
    memory = Path("/dev/shm")
    within = memory if memory.is_dir() else tmp_path_factory.mktemp("journals")
    with tempfile.TemporaryDirectory(dir=within) as path:
        yield Path(path)


def told(account: OwnAccount) -> tuple[int, bytes, float, bytes]:
    """All that an account says, and all that it knows."""
    return account.releases, account.by_observer().tobytes(), account.plain_mu2, account.state()


def with_bad_news(entries: Sequence[Entry], rng: random.Random) -> list[Entry]:
    """Put in what only others can tell: a way of the run with own updates that were forgotten, and forks."""
    trails = [entry.copy.token.trail for entry in entries if isinstance(entry, Kept) and entry.copy.token.updates]
    changed = list(entries)
    for at in sorted(rng.sample(range(len(changed) + 1), min(2, len(changed))), reverse=True):
        if rng.random() < 0.3:
            changed.insert(at, Forked((rng.randrange(3), 0)))
        elif trails and rng.random() < 0.3:
            changed.insert(at, Forgotten(rng.choice(trails), rng.randrange(4)))
    return changed


def without_parameters(entry: Entry, memory: Memory) -> Entry:
    """Return an entry as it is read: parameters are there of the first copy, of the newest, and of the outcome."""
    kept = {
        world.INITIAL.parameters,
        memory.copy.token.parameters,
        memory.outcome.parameters if memory.outcome else b"",
    }
    token = entry.token if isinstance(entry, Over) else entry.copy.token if isinstance(entry, Kept | Released) else None
    if token is None or token.parameters in kept:
        return entry
    token = replace(token, parameters=b"")
    if isinstance(entry, Over):
        return replace(entry, token=token)
    assert isinstance(entry, Kept | Released)
    return replace(entry, copy=replace(entry.copy, token=token))


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(seed=st.integers(0, 10_000), draws=st.integers(0, 2**32))
def test_entries_add_up_to_the_same_everywhere(folder: Path, seed: int, draws: int) -> None:
    """Entry by entry; in batches into a file that is closed and opened again, with sums of rows; by a reader."""
    found, rng = watched.history(seed), random.Random(draws)
    nodes, steps = found.rules.nodes, found.rules.steps
    me, sums = rng.randrange(nodes), rng.choice([1, 2, 5, 1000])
    entries, path = with_bad_news(found.machines[me].disk, rng), folder / f"{seed}-{draws}"
    parts = rng.choice([1, 1, 3])
    protects: Unit = rng.choice(["node", "person"]) if parts == 1 else "record"
    convex, closing = rng.random() < 0.8, rng.choice([0, 0, 2])
    sizes = 1.0 / np.sqrt(1.0 + np.arange(steps))
    terms = AccountTerms(nodes, me, found.rules.path, sizes, 5.0, convex, parts, protects, closing)
    blank = Memory.blank(found.rules.path[0], found.initial)

    one_by_one, live = OwnAccount(terms), OwnAccount(terms)
    fold = Fold(blank, one_by_one)
    journal = JournalFile.create(path, node=NODE, run_digest=RUN, blank=blank, sum_after=sums)
    journal.follow(live)
    at, releases = 0, list[Release]()
    while at < len(entries):
        batch = entries[at : at + rng.randint(1, 6)]
        for entry in batch:
            fold.add(entry)
            if isinstance(entry, Released):
                copy, name = entry.copy, digest_of(entry.copy.token.parameters)
                releases.append(Release(copy.ballot, copy.hop, copy.token.updates, float(at), name))
        journal.append(*batch, written=float(at))
        at += len(batch)
        if rng.random() < 0.2:
            journal.close()
            journal = JournalFile.open(path, node=NODE, run_digest=RUN, sum_after=sums)
            live = OwnAccount(terms)
            journal.follow(live)
        assert journal.memory == fold.memory
        assert list(journal.releases()) == releases
        assert told(live) == told(one_by_one)

    reading, made = read_journal(path), list[OwnAccount]()

    def another(_: str) -> OwnAccount:
        made.append(OwnAccount(terms))
        return made[-1]

    summed = sum_journal(path, account=another)
    journal.close()
    assert reading.memory == fold.memory == summed.memory == replayed(blank, entries)
    assert [entry for _, entry in reading.entries] == [without_parameters(entry, reading.memory) for entry in entries]
    assert told(made[-1]) == told(one_by_one)
    assert list(reading.releases) == releases
    assert [(line.ballot, line.hop) for line in releases] == list(fold.memory.ledger)
    assert told(account_of(terms, (entry for _, entry in reading.entries))) == told(one_by_one)


def test_what_an_account_refuses_is_not_written(tmp_path: Path) -> None:
    """An own update of which the journal knows nothing: the node must stop, and nothing of it is on disk."""
    path, steps = [0, 1] * 4, 8
    account = OwnAccount(AccountTerms(2, 0, path, np.ones(steps), 5.0, True))
    blank = Memory.blank(0, world.INITIAL)
    with JournalFile.create(tmp_path / "journal", node=NODE, run_digest=RUN, blank=blank) as journal:
        journal.follow(account)
        chain = bytes(32) + bytes([0b101])  # hops 1 and 3; the ledger has no release at hop 1
        release = Released(Copy((0, 0), 3, Kind.UPDATED, Token(2, b"model", chain)))
        with pytest.raises(InvalidInput, match="the journal has forgotten it"):
            journal.append(Heard((0, 0)), release)
        with pytest.raises(JournalError):
            journal.append(Heard((1, 1)))
    assert account.releases == 2  # both count, the one that was forgotten and this one
    assert not read_journal(tmp_path / "journal").entries
