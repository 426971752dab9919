"""What a long run leaves on one node's disk, and how long its next start takes: a million hops by default.

    python benchmarks/long_run.py [--hops 1000000] [--nodes 2] [--skipped 0.1] [--ledger]

A real journal, with its fsyncs, the account that follows it, and, if asked, the ledger of its owner's data are told
what one node would write in such a run: the token comes with the others' updates, is updated, and is offered on.
What the others do is made up (random digests and signatures of the right length), so that a million hops take minutes.
Printed are the size of all files, megabytes of memory, milliseconds per own hop at the beginning and at
the end, and the seconds until a start knows everything again.
"""

from __future__ import annotations

import argparse
import random
import resource
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from skipring.network.node import AccountTerms, CountedJournal, Lifetime, OwnAccount
from skipring.network.protocol import Copy, Entry, Kept, Kind, Memory, Passing, Released, Stamp, Token, blank_chain
from skipring.network.storage import JournalFile, LedgerFile, sum_journal

BALLOT = (0, 0)
SIGNATURE = 71  # bytes of most signatures of a node
PARAMETERS = 248  # bytes of a logistic model of 31 numbers


class OneNode:
    """What one node of a long run writes down, turn by turn."""

    def __init__(self, hops: int, nodes: int, skipped: float, seed: int = 1) -> None:
        self.hops, self.nodes, self._skipped = hops, nodes, skipped
        self._rng = random.Random(seed)
        self.path = [hop % nodes for hop in range(hops)]
        self.terms = AccountTerms(nodes, 0, self.path, np.ones(hops), 5.0, True)
        self.initial = Token(0, self._rng.randbytes(PARAMETERS), blank_chain(hops, b"run"))
        self.blank = Memory.blank(0, self.initial)

    def turns(self, token: Token, first: int, last: int) -> Iterator[tuple[Entry, ...]]:
        """Go through what is written at each own turn of some hops; the token is as it was after the hop before."""
        rng, stamps = self._rng, dict(token.stamps)
        bitmap, updates, digest = bytearray(token.chain[32:]), token.updates, token.chain[:32]
        for hop in range(first, last + 1):
            node = self.path[hop - 1]
            if node and rng.random() < self._skipped:
                continue
            before, parameters = Token(updates, b"", b""), rng.randbytes(PARAMETERS)
            if node == 0:
                before = Token(updates, parameters, digest + bitmap, tuple(sorted(stamps.items())))
            bitmap[(hop - 1) // 8] |= 1 << (hop - 1) % 8
            digest, updates = rng.randbytes(32), updates + 1
            stamps[node] = Stamp(BALLOT, digest, rng.randbytes(SIGNATURE)).content
            if node == 0:
                after = Token(updates, rng.randbytes(PARAMETERS), digest + bitmap, tuple(sorted(stamps.items())))
                accepted = Kept(Copy(BALLOT, hop, Kind.ACCEPTED, before), self.nodes - 1)
                yield accepted, Released(Copy(BALLOT, hop, Kind.UPDATED, after)), Passing(BALLOT, hop + 1)


def memory() -> float:
    """Return how many megabytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 1e6


class Books:
    """A node's journal, its account, and the ledger of its owner's data, if it has one; opened as a node does it."""

    def __init__(self, node: OneNode, journal: JournalFile, *, ledger: bool) -> None:
        self._journal, self.account = journal, OwnAccount(node.terms)
        self.append: Callable[..., None] = journal.append
        if not ledger:
            journal.follow(self.account)
            return
        file = LedgerFile(journal.path.with_name("rows.ledger"), heads=journal.path.parent)
        lifetime = Lifetime(file, self.account, run="run", node="a", delta=1e-5)
        journal.follow(lifetime)
        lifetime.begin()
        self.append = CountedJournal(journal, lifetime).append

    @property
    def size(self) -> int:
        """How many bytes their files have."""
        return sum(file.stat().st_size for file in self._journal.path.parent.iterdir())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hops", type=int, default=1_000_000)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--skipped", type=float, default=0.1, help="of the others' turns")
    parser.add_argument("--ledger", action="store_true", help="also keep a ledger of the owner's data")
    parser.add_argument("--folder", type=Path, help="on which disk; by default one in memory, where there is one")
    asked = parser.parse_args()
    node = OneNode(asked.hops, asked.nodes, asked.skipped)
    shared = Path("/dev/shm")
    within = asked.folder or (shared if shared.is_dir() else None)
    with tempfile.TemporaryDirectory(prefix="skipring-benchmark-", dir=within) as place:
        path = Path(place) / "journal.sqlite"
        times: list[float] = []
        with JournalFile.create(path, node="a", run_digest="run", blank=node.blank) as journal:
            books, began = Books(node, journal, ledger=asked.ledger), time.perf_counter()
            for entries in node.turns(node.initial, 1, node.hops):
                start = time.process_time()
                books.append(*entries)
                times.append(time.process_time() - start)
                if len(times) % 50_000 == 0:
                    spent = time.perf_counter() - began
                    print(f"  own hop {len(times)}: {books.size / 1e6:.0f} MB, {spent:.0f} s", flush=True)
            held = memory()
        own, size, few = len(times), books.size, max(1, len(times) // 100)
        print(f"{node.hops} hops of {node.nodes} nodes, {own} own updates: {size / 1e6:.1f} MB on the disk", end=", ")
        print(f"{size / node.hops:.0f} bytes per hop, {held:.0f} MB of memory")
        first, last = np.mean(times[:few]), np.mean(times[-few:])
        print(f"an own hop costs {1e3 * first:.2f} ms of a CPU core at the beginning, {1e3 * last:.2f} ms at the end;")
        print(f"at most {1e3 * max(times):.0f} ms, where all that came before is added up")
        start, worked = time.perf_counter(), time.process_time()
        with JournalFile.open(path, node="a", run_digest="run") as journal:
            again = Books(node, journal, ledger=asked.ledger)
            known = journal.memory
        took, worked = time.perf_counter() - start, time.process_time() - worked
        print(f"the next start knows all of it after {took:.2f} s ({worked:.2f} s of a CPU core)", end="; ")
        assert again.account.state() == books.account.state()
        assert len(known.ledger) == own
        start, worked = time.perf_counter(), time.process_time()
        sum_journal(path, account=lambda _: OwnAccount(node.terms))
        took, worked = time.perf_counter() - start, time.process_time() - worked
        print(f"a reader of the journal, after {took:.2f} s ({worked:.2f} s)")


if __name__ == "__main__":
    main()
