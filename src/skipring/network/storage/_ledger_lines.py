"""The lines of a ledger that say how much an account has come to: some are written for each update, so they are short.

Such a line is a list: which account it is of, releases, mu^2, and that with each release in full. Then comes what an
update that is being made may bring them to, the time, the account as it is, and what the journal was seen to have of
it. What is the same as what stands before it is 0. Then, in brackets, how often the account was put in doubt, if it
was. A 1 at the end says that it has become certain what recoveries have cost: only then mu^2 may be less than before.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from ..._json import json_text

#: How a line ends if what recoveries have cost has become certain; what stands there else is 0, or ends with ]].
_CERTAIN = b",1]"
#: Releases, mu^2, and mu^2 with each release in full: they never fall.
Level = tuple[int, float, float]


@dataclass(frozen=True)
class Spent:
    """How many own updates, what the observer who knows most knows from them (mu^2), and with each of them in full."""

    releases: int = 0
    mu2: float = 0.0
    in_full: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Now:
    """How much an account has come to at a time (see `LedgerRecord`)."""

    at: float
    releases: int
    mu2: float
    in_full: float
    may_mu2: float
    may_in_full: float
    told: Spent
    kept: Spent
    boot: str
    settled: bool = False
    doubts: int = 0

    @property
    def level(self) -> Level:
        """What never falls."""
        return self.releases, self.mu2, self.in_full


def text_of(place: int, now: Now) -> str:
    """Return the line of an account; which start of the machine it was written in stands in a line before it."""
    may, told = (now.may_mu2, now.may_in_full), (now.told.releases, now.told.mu2, now.told.in_full)
    kept = now.kept.releases, now.kept.mu2, now.kept.in_full
    parts = [
        place,
        *now.level,
        0 if may == (now.mu2, now.in_full) else may,
        round(now.at, 3),
        0 if told == now.level else told,
        0 if kept == told else kept,
        *([[now.doubts]] if now.doubts else []),
        *([1] if now.settled else []),
    ]
    return json_text(parts).replace(", ", ",")


def level_in(body: bytes) -> tuple[int, Level, bool]:
    """Return which account a line is of, what never falls, and whether it has become certain; asked of each line."""
    place, releases, mu2, in_full, _ = body[1:].split(b",", 4)
    return int(place), (int(releases), float(mu2), float(in_full)), body.endswith(_CERTAIN)


def now_in(body: bytes, boot: str) -> Now:
    """Return all that a line says."""
    _, releases, mu2, in_full, may, at, told, kept, *marks = json.loads(body)
    certain = marks[-1:] == [1]
    ((doubts,),) = marks[: len(marks) - certain] or [[0]]
    if not (isinstance(doubts, int) and doubts >= 0):
        raise ValueError("what follows is of another version")
    may_mu2, may_in_full = may or (mu2, in_full)
    known = told or (releases, mu2, in_full)
    return Now(
        at=float(at),
        releases=int(releases),
        mu2=float(mu2),
        in_full=float(in_full),
        may_mu2=float(may_mu2),
        may_in_full=float(may_in_full),
        told=_spent(known),
        kept=_spent(kept or known),
        boot=boot,
        settled=certain,
        doubts=doubts,
    )


def _spent(parts: tuple[int, float, float]) -> Spent:
    releases, mu2, in_full = parts
    return Spent(int(releases), float(mu2), float(in_full))
