"""What tests add up themselves: a journal's memory and account, entry by entry, and the bytes of a model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import Entry, Fold, Memory, Token
from skipring.network.storage import ModelFile


def replayed(memory: Memory, entries: Iterable[Entry]) -> Memory:
    """Return the memory after all entries of a journal."""
    return reduce(Memory.after, entries, memory)


def account_of(terms: AccountTerms, entries: Iterable[Entry]) -> OwnAccount:
    """Return the account that the entries of a node's journal add up to."""
    account = OwnAccount(terms)
    Fold(Memory.blank(terms.path[0], Token(0, b"", b"")), account).add_all(entries)
    return account


def is_intact(model: ModelFile) -> bool:
    """Read all of it: is it still what was written?"""
    try:
        with open(model.path, "rb", buffering=0) as file:
            return model.is_in(file)
    except FileNotFoundError:
        return False
