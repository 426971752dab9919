"""A journal of a long run: it grows with the run and no faster, and a start goes on from the last sum of its rows."""

from __future__ import annotations

import random
import runpy
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from summing import account_of

from skipring.errors import InvalidInput
from skipring.network._packing import Packer
from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import Entry, Fold, Memory, Place, Places, Trail
from skipring.network.storage import JournalFile, _entries, read_journal, sum_journal
from skipring.network.storage._summary import Summary

ROOT = Path(__file__).parents[2]
OneNode = runpy.run_path(str(ROOT / "benchmarks" / "long_run.py"))["OneNode"]
WHOSE: Any = {"node": "ann", "run_digest": "run"}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: this is about bytes, not about disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as path:
        yield Path(path)


class Counting(OwnAccount):
    """An account that remembers how often it was told of a release by this process."""

    told = 0

    def released(self, *what: Any) -> None:
        type(self).told += 1
        super().released(*what)


def size_of(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def test_a_hop_takes_as_many_bytes_at_the_end_of_a_run_as_at_its_beginning(folder: Path) -> None:
    """20,000 hops of two nodes; `benchmarks/long_run.py` does the same with a million."""
    node, path, sizes = OneNode(20_000, 2, 0.1), folder / "journal", [0]
    account = Counting(node.terms)
    with JournalFile.create(path, **WHOSE, blank=node.blank) as journal:
        journal.follow(account)
        for number, entries in enumerate(node.turns(node.initial, 1, node.hops), start=1):
            journal.append(*entries)
            if number % 5_000 == 0:
                sizes.append(size_of(folder))
        memory = journal.memory
    assert account.releases == Counting.told == 10_000
    assert size_of(folder) / node.hops < 300  # bytes, so that a million hops take 300 MB
    assert sizes[2] - sizes[1] < 1.2 * (sizes[1] - sizes[0])
    with JournalFile.open(path, **WHOSE) as journal:
        again = Counting(node.terms)
        journal.follow(again)
        assert journal.memory == memory
    assert Counting.told < 10_000 + 1_100  # the newest, which were not added up yet
    assert again.state() == account.state()
    assert sum_journal(path).memory == memory


def small(hops: int = 60) -> tuple[Any, list[tuple[Entry, ...]]]:
    node = OneNode(hops, 3, 0.3)
    return node, list(node.turns(node.initial, 1, hops))


def replayed(node: Any, batches: list[tuple[Entry, ...]]) -> tuple[Memory, bytes]:
    """Return what entries add up to, without any file."""
    account = OwnAccount(node.terms)
    memory = Fold(node.blank, account).add_all(entry for batch in batches for entry in batch).memory
    return memory, account.state()


def opened(path: Path, node: Any) -> tuple[Memory, bytes]:
    """Return what a start finds."""
    with JournalFile.open(path, **WHOSE) as journal:
        account = OwnAccount(node.terms)
        journal.follow(account)
        return journal.memory, account.state()


def test_a_power_cut_at_any_byte_leaves_the_rows_before_it(folder: Path) -> None:
    """The log is cut off anywhere, also between a row and the sum that comes with it: what is left adds up."""
    node, batches = small()
    made, tried = folder / "made", folder / "tried"
    made.mkdir()
    tried.mkdir()
    with JournalFile.create(made / "journal", **WHOSE, blank=node.blank, sum_after=3) as journal:
        journal.follow(OwnAccount(node.terms))
        first = (made / "journal-witness").read_bytes()  # a power cut may leave an older witness
        for batch in batches:
            journal.append(*batch)
        files = {file.name: file.read_bytes() for file in made.iterdir() if not file.name.endswith("-shm")}
    log, frame = files["journal-wal"], 24 + 4096
    assert len(log) > 20 * frame
    known = [replayed(node, batches[:count]) for count in range(len(batches) + 1)]
    found, rng = [], random.Random(1)
    for whole in range((len(log) - 32) // frame + 1):
        for size in {32 + whole * frame, min(len(log), 32 + whole * frame + rng.randrange(frame))}:
            for file in tried.iterdir():
                file.unlink()
            for name, content in {**files, "journal-wal": log[:size], "journal-witness": first}.items():
                (tried / name).write_bytes(content)
            found.append((size, known.index(opened(tried / "journal", node))))
    counts = [count for _, count in sorted(found)]
    assert counts == sorted(counts)
    assert set(counts) == set(range(len(batches) + 1))


def test_a_copy_that_is_made_while_the_node_runs_is_whole(folder: Path) -> None:
    node, batches = small()
    with JournalFile.create(folder / "journal", **WHOSE, blank=node.blank, sum_after=4) as journal:
        journal.follow(OwnAccount(node.terms))
        for count, batch in enumerate(batches, start=1):
            journal.append(*batch)
            copy = folder / f"copy-{count}"
            witness = (folder / "journal-witness").read_bytes()
            with closing(sqlite3.connect(folder / "journal")) as source, closing(sqlite3.connect(copy)) as target:
                source.backup(target)
            copy.with_name(f"{copy.name}-witness").write_bytes(witness)
            assert opened(copy, node) == replayed(node, batches[:count])
            if count > 5:  # an old copy in place of the newest is noticed, whatever sums it has
                copy.with_name(f"{copy.name}-witness").write_bytes(witness)
                older = folder / f"copy-{count - 5}"
                older.with_name(f"{older.name}-witness").write_bytes(witness)
                with pytest.raises(InvalidInput, match="the newest are missing"):
                    opened(older, node)


def test_an_account_whose_state_is_not_in_the_sum_is_told_everything(folder: Path) -> None:
    node, batches = small()
    path = folder / "journal"
    other = AccountTerms(3, 0, node.path, np.ones(node.hops), 7.0, True)
    with JournalFile.create(path, **WHOSE, blank=node.blank, sum_after=4) as journal:
        for batch in batches[:10]:
            journal.append(*batch)  # nobody follows yet
        late = OwnAccount(node.terms)
        journal.follow(late)
        for batch in batches[10:]:
            journal.append(*batch)
    assert late.state() == replayed(node, batches)[1]
    entries = [entry for _, entry in read_journal(path).entries]
    with JournalFile.open(path, **WHOSE) as journal:
        account = OwnAccount(other)
        journal.follow(account)
    assert account.state() == account_of(other, entries).state()
    assert account.mu2 < late.mu2
    assert not OwnAccount(other).resume(late.state())
    assert not OwnAccount(other).resume(b"no state")


def test_a_sum_that_another_version_has_written_is_not_read() -> None:
    node, batches = small()
    memory, state = replayed(node, batches)
    content = Summary(memory, {"copy": ("ab", None)}, (state,)).packed()
    found = Summary.unpacked(content)
    assert found is not None
    assert (found.memory.ledger, found.accounts) == (memory.ledger, (state,))
    version, *rest = Packer({}).unpack(Packer({}).pack(("0.0.0", {}, {}, ())))
    assert Summary.unpacked(Packer({}).pack((version, *rest))) is None
    assert Summary.unpacked(content[:-1]) is None


# What it is made of.


@given(st.lists(st.tuples(st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(0, 300)), max_size=30))
def test_places_are_what_a_tuple_of_them_would_be(drawn: list[Place]) -> None:
    grown, twin, versions = Places(), tuple[Place, ...](), list[tuple[Places, tuple[Place, ...]]]()
    for at, place in enumerate(drawn):
        grown, twin = grown.plus(place), (*twin, place)
        if at % 4 == 3:  # grow once more from an earlier one, which must not change
            base, known = versions[at // 2]
            grown, twin = base.plus(place), (*known, place)
        versions.append((grown, twin))
    for places, known in versions:
        assert places == known
        assert (len(places), list(places), places[1:3]) == (len(known), list(known), known[1:3])
        assert Places.of(places.stretches()) == places
        for place in drawn:
            assert (place in places) == (place in known)


LEAVES = (
    st.none() | st.booleans() | st.integers(-(2**60), 2**200) | st.floats(allow_nan=False) | st.binary() | st.text()
)
FEW = st.lists(LEAVES, max_size=5)
VALUES = LEAVES | FEW | st.tuples(LEAVES, FEW) | st.dictionaries(st.integers(0, 99), st.tuples(FEW, LEAVES), max_size=4)


@settings(max_examples=40, deadline=None)
@given(VALUES)
def test_values_are_unpacked_as_they_were_packed(value: Any) -> None:
    packer = Packer({})
    packed = packer.pack(value)
    assert repr(packer.unpack(packed)) == repr(value)
    for size in range(len(packed)):
        with pytest.raises(ValueError, match=r"bytes|unpack"):
            packer.unpack(packed[:size])


def test_sets_are_packed_and_each_entry_has_a_number() -> None:
    sets = {"a": {3, 1}, "b": frozenset({b"x"}), "c": Counter({2: 5}), "d": bytearray(b"y")}
    found = Packer({}).unpack(Packer({}).pack(sets))
    assert found == sets
    assert list(map(type, found.values())) == [set, frozenset, Counter, bytearray]
    assert set(get_args(Entry)) <= set(_entries._PACKER._numbers)


def test_what_has_no_number_is_not_packed() -> None:
    for odd in (object(), Trail(b"", ()), {1: {2: object()}}):
        with pytest.raises(TypeError, match="cannot be packed"):
            Packer({}).pack(odd)
