"""What is known of the calls and messages of one peer: which call is the newest, and how much it may still send."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Messages per second, and at once, that a peer may send; two nodes alone with hops of 1 ms send each other 2500.
_RATE, _BURST = 5000.0, 10000.0
_PENALTY = 10.0


@dataclass(frozen=True)
class Call:
    """A call that was let in: which one it is of which process at the other end."""

    process: str
    number: int

    @classmethod
    def of(cls, preface: Mapping[str, Any]) -> Call:
        """Return which call it is, by what the caller has said first."""
        process, number = preface.get("process"), preface.get("number")
        return cls(
            process[:64] if isinstance(process, str) else "",
            number if isinstance(number, int) and 0 <= number < 2**63 else 0,
        )

    def is_newer_than(self, other: Call) -> bool:
        """Say whether the same process has made this call after the other one."""
        return self.process == other.process and self.number > other.number


class Allowance:
    """How much a peer may still send: a bucket that fills with time."""

    def __init__(self) -> None:
        self._left, self._at = _BURST, time.monotonic()
        self._until = 0.0

    @property
    def spent(self) -> bool:
        """Whether the peer has sent too much, and has to wait."""
        return time.monotonic() < self._until

    def take(self) -> bool:
        """Take a message; say whether it was still allowed."""
        now = time.monotonic()
        self._left = min(_BURST, self._left + (now - self._at) * _RATE) - 1.0
        self._at = now
        if self._left < 0.0:
            self._until = now + _PENALTY
        return self._left >= 0.0
