"""What the rows of a journal add up to, written down now and then: a start goes on from there, and not from the first.

It is made by the same fold as everything else, in the same transaction as the row that it goes up to, and that row has
its SHA-256. A process that cannot read it, because another version of skipring has written it, adds up all rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ... import __version__
from .._packing import Packer
from ..protocol import Copy, Heard, Kind, Memory, Places, Settled, Token, Track, Trail
from ._entries import ranked, with_kinds

#: What for (initial, copy, outcome) -> SHA-256 of parameters, and their size if they are in a file.
Needed = Mapping[str, tuple[str, int | None]]

_PACKER = Packer({Copy: 20, Token: 21, Heard: 22, Track: 23, Settled: 24, Trail: 25})


def now_needed(needed: Needed, use: str, name: str, size: int | None) -> dict[str, tuple[str, int | None]]:
    """Return which parameters are needed once some have a new use; where the same bytes were before does not matter."""
    moved = {each: (its, size if its == name else where) for each, (its, where) in needed.items()}
    return {**moved, use: (name, size)}


@dataclass(frozen=True)
class Summary:
    """What all rows up to one add up to.

    Parameters
    ----------
    memory : without parameters.
    needed : which parameters it has.
    accounts : the states of those that were told of all entries.
    """

    memory: Memory
    needed: Needed
    accounts: tuple[bytes, ...]

    def packed(self) -> bytes:
        """Return it as bytes."""
        memory, outcome = self.memory, self.memory.outcome
        copy = replace(memory.copy, token=replace(memory.copy.token, parameters=b""))
        changed: dict[str, Any] = {
            "copy": copy,
            "outcome": None if outcome is None else replace(outcome, parameters=b""),
            "ledger": memory.ledger.stretches(),
            "unchanged": memory.unchanged.stretches(),
        }
        parts = {field.name: getattr(memory, field.name) for field in fields(Memory)} | changed
        return _PACKER.pack((__version__, parts, dict(self.needed), self.accounts))

    @classmethod
    def unpacked(cls, content: bytes) -> Summary | None:
        """Read one; None if another version has written it."""
        try:
            version, parts, needed, accounts = _PACKER.unpack(content)
        except (TypeError, ValueError):
            return None
        if version != __version__ or parts.keys() != {field.name for field in fields(Memory)}:
            return None
        copy = replace(parts["copy"], kind=Kind(parts["copy"].kind))
        places: dict[str, Any] = {name: Places.of(parts[name]) for name in ("ledger", "unchanged")}
        ticket, starts = parts["ticket"], parts["starts"]
        ranks = {
            "ticket": None if ticket is None else with_kinds(ticket),
            "starts": tuple((ballot, ranked(rank)) for ballot, rank in starts),
        }
        return cls(Memory(**parts | places | ranks | {"copy": copy}), needed, accounts)
