"""Which run a journal belongs to: the run's identity, what was agreed, and the node's own rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date
from urllib.parse import parse_qsl, urlencode

from ...errors import InvalidInput

_BYTES = 12  # nobody meets the same twice
_KEY, _MARKS = "run=", "agreed:"
_NAMED = 6  # keys; more would hide the others


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
        reason = f"in {path}; `skipring network init --run` and `skipring network new-run` make one up for all nodes"
        raise InvalidInput.because("network.identity", "missing", reason)
    return identity


@dataclass(frozen=True)
class RunMark:
    """What the first row of a journal says of the run; `rows` is the owner's own affair, and never sent.

    `marks` has a short digest of each value that was agreed on, by its key: they say what has changed since.
    """

    agreement: str
    terms: str
    rows: tuple[str, ...] = ()
    identity: str | None = None
    marks: Mapping[str, str] = field(default_factory=dict, compare=False)  # the agreement has them all

    @property
    def text(self) -> str:
        """The mark as a journal keeps it."""
        named = () if self.identity is None else (f"{_KEY}{self.identity}",)
        agreed = urlencode(sorted(self.marks.items()))
        marks = (f"{_MARKS}{agreed}",) if agreed else ()
        return " ".join((self.agreement, self.terms, *self.rows, *marks, *named))

    @classmethod
    def parse(cls, text: str) -> RunMark:
        """Read what a journal kept.

        >>> RunMark.parse(RunMark("ab", "cd", ("1", "2"), "2026-03-01-00").text)
        RunMark(agreement='ab', terms='cd', rows=('1', '2'), identity='2026-03-01-00', marks={})
        """
        words = text.split()
        identity = words.pop().removeprefix(_KEY) if words[-1:] and words[-1].startswith(_KEY) else None
        agreed = words.pop().removeprefix(_MARKS) if words[-1:] and words[-1].startswith(_MARKS) else ""
        agreement, terms, *rows = (*words, "", "")[: max(2, len(words))]
        return cls(agreement, terms, tuple(rows), identity, dict(parse_qsl(agreed)))

    @property
    def name(self) -> str:
        """The run, as people call it."""
        return "a run without an identity" if self.identity is None else f"the run {self.identity}"

    def changed_since(self, before: RunMark) -> str:
        """Say what was agreed otherwise when another mark was written: roster, version, or which keys of the run file.

        >>> now, then = (RunMark("", "", marks={"roster": r, "learning.rate": "1"}) for r in "ab")
        >>> now.changed_since(then)
        'roster.toml has changed'
        """
        keys = sorted({*self.marks, *before.marks})
        differing = [key for key in keys if self.marks.get(key) != before.marks.get(key)]
        said = ["the version of skipring has changed"] if {"version", "protocol"} & {*differing} else []
        said += ["roster.toml has changed"] if "roster" in differing else []
        run = [key for key in differing if key not in ("version", "protocol", "roster")]
        more = f" and {len(run) - _NAMED} more" if len(run) > _NAMED else ""
        said += [f"run.toml has changed ({', '.join(run[:_NAMED])}{more})"] if run else []
        return ", ".join(said) or "what an update costs is computed otherwise"
