"""Which run a journal belongs to: the run's identity, what was agreed, and the node's own rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from ...errors import InvalidInput

__all__ = ["RunMark", "new_identity", "require_identity"]

_BYTES = 12  # nobody meets the same twice
_KEY = "run="


def new_identity(day: date, random: bytes) -> str:
    """Return the identity of a new run: the day, for people, and what makes it unlike any other.

    >>> new_identity(date(2026, 3, 1), bytes(12))
    '2026-03-01-000000000000000000000000'
    """
    if len(random) != _BYTES:
        raise InvalidInput("random", f"{len(random)} bytes", f"{_BYTES} bytes")
    return f"{day.isoformat()}-{random.hex()}"


def require_identity(identity: str | None, path: object) -> str:
    """Return a run's identity; refuse a run file that has none."""
    if identity is None:
        reason = f"in {path}; `skipring network init --run` and `skipring network again` make one up for all nodes"
        raise InvalidInput.because("network.identity", "missing", reason)
    return identity


@dataclass(frozen=True)
class RunMark:
    """What the first row of a journal says of the run; `rows` is the owner's own affair, and never sent."""

    agreement: str
    terms: str
    rows: tuple[str, ...] = ()
    identity: str | None = None

    @property
    def text(self) -> str:
        """The mark as a journal keeps it."""
        named = () if self.identity is None else (f"{_KEY}{self.identity}",)
        return " ".join((self.agreement, self.terms, *self.rows, *named))

    @classmethod
    def parse(cls, text: str) -> RunMark:
        """Read what a journal kept.

        >>> RunMark.parse(RunMark("ab", "cd", ("1", "2"), "2026-03-01-00").text)
        RunMark(agreement='ab', terms='cd', rows=('1', '2'), identity='2026-03-01-00')
        """
        words = text.split()
        identity = words.pop().removeprefix(_KEY) if words[-1:] and words[-1].startswith(_KEY) else None
        agreement, terms, *rows = (*words, "", "")[: max(2, len(words))]
        return cls(agreement, terms, tuple(rows), identity)

    @property
    def name(self) -> str:
        """The run, as people call it."""
        return "a run without an identity" if self.identity is None else f"the run {self.identity}"
