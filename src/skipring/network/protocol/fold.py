"""What the entries of a journal add up to: one fold, for the node that writes them and for all who read them.

`Fold.add` takes one entry after the other, and is the only place where they are added up. They add up to the memory
that the protocol goes on from (`Memory.after`), and to accounts of what was given away.

What the first entries have added up to may be written down (`Memory`, and the `state` of each account that has one). To
go on from there and add the rest is the same as to add all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Protocol, runtime_checkable

from .journal import Entry, Forgotten, Forked, Heard, Kept, Memory, Over, Released, Settled, Starts
from .messages import Ballot, Parameters, Rank, Trail


@dataclass(frozen=True)
class Release:
    """One line of the ledger: an own update, when it was written down, and the SHA-256 of its parameters."""

    ballot: Ballot
    hop: int
    updates: int
    written: float
    parameters: str


class Account(Protocol):
    """What counts the cost of a node's releases; it is told of promises and releases, in their order."""

    def heard(self, ballot: Ballot, start: Rank | None = None, before: Starts | None = None) -> None:
        """Take a promise: of a higher ballot than before, it may mean a fork.

        `start` is the copy that is gone on with, and `before` are all lower ballots that may have been gone on under.
        """

    def released(self, ballot: Ballot, hop: int, chain: bytes, updates: int) -> None:
        """Take an own update; `chain` and `updates` are of the token with it."""

    def forgotten(self, trail: Trail) -> None:
        """Take the trail of a token with own updates that the journal does not know."""

    def forked(self) -> None:
        """Take the news that the run went two ways under one ballot."""

    def settled(self, found: Settled) -> None:
        """Take what is certain, after the end, of where the run can have forked, and who can have seen it."""


@runtime_checkable
class Resumable(Account, Protocol):
    """An account that can be written down, so that the next start need not tell it all entries again."""

    def state(self) -> bytes:
        """Return all that it was told, added up."""

    def resume(self, state: bytes) -> bool:
        """Go on from a state, if it is one of an account like this one; say whether it is."""


class Fold:
    """The entries of one journal, added up.

    Parameters
    ----------
    blank : what every node knows before the run, or what earlier entries have added up to.
    accounts : are told what each entry costs.
    """

    def __init__(self, blank: Memory, *accounts: Account) -> None:
        self._memory = blank
        self._accounts = list(accounts)

    def add(self, entry: Entry) -> None:
        """Add an entry. An account that refuses it raises before anything else has changed."""
        for account in self._accounts:
            _tell(account, entry)
        self._memory = self._memory.after(entry)

    def add_all(self, entries: Iterable[Entry]) -> Fold:
        """Add entries; return the fold."""
        for entry in entries:
            self.add(entry)
        return self

    def follow(self, account: Account, before: Iterable[Entry]) -> None:
        """Tell an account of the entries so far, and from now on of each that is added."""
        for entry in before:
            _tell(account, entry)
        self._accounts.append(account)

    def refill(self, copy: Parameters, outcome: Parameters | None) -> None:
        """Give the newest copy, and the outcome, the parameters that their entries were read without."""
        newest, final = self._memory.copy, self._memory.outcome
        newest = replace(newest, token=replace(newest.token, parameters=copy))
        if final is not None and outcome is not None:
            final = replace(final, parameters=outcome)
        self._memory = replace(self._memory, copy=newest, outcome=final)

    @property
    def newest(self) -> Parameters:
        """The parameters of the newest copy."""
        return self._memory.copy.token.parameters

    @property
    def memory(self) -> Memory:
        """What the protocol goes on from."""
        return self._memory

    def states(self) -> tuple[bytes, ...]:
        """Return what the accounts have added up, of those that can be written down."""
        return tuple(account.state() for account in self._accounts if isinstance(account, Resumable))


def _tell(account: Account, entry: Entry) -> None:
    """Tell an account what an entry means; those that say nothing about privacy change nothing."""
    if isinstance(entry, Heard):
        account.heard(entry.ballot, entry.start, entry.before)
    elif isinstance(entry, Kept):
        account.heard(entry.copy.ballot)
    elif isinstance(entry, Released):
        copy = entry.copy
        account.released(copy.ballot, copy.hop, copy.token.chain, copy.token.updates)
    elif isinstance(entry, Forgotten):
        account.forgotten(entry.trail)
    elif isinstance(entry, Forked):
        account.forked()
    elif isinstance(entry, Settled):
        account.settled(entry)
    elif isinstance(entry, Over):
        # A majority that decided under a ballot had promised none above it: a node that hears of it has heard of all
        # forks. Recoveries after it find the final model, and update nothing.
        account.heard(entry.ballot)
