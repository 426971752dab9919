"""What is known of the calls and messages of one peer: which call is the newest, and how much it may still send."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any

__all__ = ["Allowance", "Call"]

#: Messages per second, and at once, that a peer may send; two nodes alone with hops of 2 ms send each other 1250.
_RATE, _BURST = 2000.0, 4000.0
_PENALTY = 10.0


@dataclass(frozen=True, eq=False)
class Call:
    """A call that was let in: its task here, and which one it is of which process at the other end."""

    task: asyncio.Task[Any]
    process: str
    number: int

    @classmethod
    def of(cls, context: Any) -> Call:
        """Return the call that is being answered."""
        task = asyncio.current_task()
        assert task is not None
        given = dict(context.invocation_metadata() or ()).get("skipring-call", "")
        process, _, number = given.partition(" ")
        return cls(task, process, int(number) if number.isdecimal() and len(number) < 19 else 0)

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
