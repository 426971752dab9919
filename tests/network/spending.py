"""A node's journal and ledger without a network: one update after the other, in a process that may be killed.

`python spending.py FOLDER RUN UPDATES [KILL]` makes so many updates, and is killed (SIGKILL) in the middle of writing
the last one down if it is told to: the ledger has it then, and the journal not.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from skipring.network.node import AccountTerms, CountedJournal, Lifetime, OwnAccount
from skipring.network.protocol import (
    Ballot,
    Copy,
    Kind,
    Memory,
    Rank,
    Released,
    Settled,
    Starts,
    Token,
    Trail,
    blank_chain,
    extended_chain,
    sealed,
)
from skipring.network.storage import JournalFile, LedgerFile

STEPS, DELTA = 600, 1e-5
FIRST: Ballot = (0, 0)
SEAL = sealed(bytes(32), bytes(32))


def terms(**changes: Any) -> AccountTerms:
    """Three nodes in rounds, of which the first one's updates are hidden from each other node every other time."""
    given: dict[str, Any] = {
        "nodes": 3,
        "me": 0,
        "path": [0, 1, 2, 0, 2, 1] * (STEPS // 6),
        "step_sizes": [1.0] * STEPS,
        "convex": True,
        "protects": "node",
    }
    return AccountTerms(**given | {"noise_multiplier": 5.0} | changes)


RING = terms()


class Killer:
    """An account that is told last, and kills its process at a release."""

    def __init__(self, hop: int) -> None:
        self._hop = hop

    def heard(self, ballot: Ballot, start: Rank | None = None, before: Starts | None = None) -> None:
        pass

    def released(self, ballot: Ballot, hop: int, chain: bytes, updates: int) -> None:
        if hop == self._hop:
            os.kill(os.getpid(), signal.SIGKILL)

    def forgotten(self, trail: Trail) -> None:
        pass

    def forked(self) -> None:
        pass

    def settled(self, found: Settled) -> None:
        pass


class Spender:
    """A node that has a journal, an account of its run, and a ledger of its data."""

    def __init__(
        self, folder: Path, run: str, *, ledger: Path | None = None, node: str = "a", terms: AccountTerms = RING
    ) -> None:
        folder.mkdir(exist_ok=True)
        self.terms, path = terms, folder / f"{run}.sqlite"
        blank = Memory.blank(0, Token(0, b"model", blank_chain(STEPS, b"run")))
        self.journal = (
            JournalFile.open(path, node=node, run_digest=run, sum_after=2)
            if path.exists()
            else JournalFile.create(path, node=node, run_digest=run, blank=blank, sum_after=2)
        )
        self.ledger = LedgerFile(folder / "rows.ledger" if ledger is None else ledger, heads=folder)
        self.account = OwnAccount(terms)
        self.lifetime = Lifetime(self.ledger, self.account, run=run, node=node, delta=DELTA)
        try:
            self.journal.follow(self.lifetime)
            self.lifetime.begin()
            self.counted = CountedJournal(self.journal, self.lifetime)
        except BaseException:
            self.close()
            raise

    def next_update(self) -> Released:
        """Return the next update of this node; everybody between has made theirs."""
        token, hop = self.journal.memory.copy.token, 0
        chain, updates = token.chain, token.updates
        last = self.journal.memory.copy.hop
        for hop in range(last + 1, STEPS + 1):
            chain, updates = extended_chain(chain, FIRST, hop, SEAL), updates + 1
            if self.terms.path[hop - 1] == self.terms.me:
                break
        return Released(Copy(FIRST, hop, Kind.UPDATED, Token(updates, b"model", chain)))

    def update(self, times: int = 1) -> None:
        """Make updates, and write them down."""
        for _ in range(times):
            self.counted.append(self.next_update())

    def close(self) -> None:
        """Leave the files as they are, for another process."""
        self.lifetime.release()
        self.journal.close()


def main() -> None:
    """Make updates in a process of their own."""
    folder, run, updates, *kill = sys.argv[1:]
    spender = Spender(Path(folder), run)
    if kill:
        spender.update(int(updates) - 1)
        spender.journal.follow(Killer(spender.next_update().copy.hop))
        spender.update()
    else:
        spender.update(int(updates))
    spender.close()


if __name__ == "__main__":
    main()
