"""The order of a run that all nodes agree on: drawn from a seed, the same on every machine and with every library."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from ...errors import require_integer


def agreed_path(name: str, nodes: int, steps: int, seed: bytes) -> list[int]:
    """Return the node of each hop with the schedule of this name.

    Numbers are drawn from SHA-256 of the seed and a counter, not from a library whose streams may change: every node
    checks with it that a token came the agreed way.

    >>> agreed_path("ring", 3, 5, b"seed")
    [0, 1, 2, 0, 1]
    >>> sorted(agreed_path("random-ring", 4, 4, b"seed"))
    [0, 1, 2, 3]
    """
    require_integer("nodes", nodes, 2)
    require_integer("steps", steps, 1)
    from ...schedules import schedule  # numpy is loaded only where an order is drawn

    numbers = _numbers(seed)
    return schedule(name, nodes).agreed_path(steps, lambda bound: _below(bound, numbers))


def _numbers(seed: bytes) -> Iterator[int]:
    """Yield 64-bit numbers."""
    counter = 0
    while True:
        block = hashlib.sha256(seed + counter.to_bytes(8, "big")).digest()
        for place in range(0, 32, 8):
            yield int.from_bytes(block[place : place + 8], "big")
        counter += 1


def _below(bound: int, numbers: Iterator[int]) -> int:
    """Return a number below a bound, all with the same probability: those that would favour some are drawn again."""
    largest = 2**64 - 2**64 % bound
    return next(number for number in numbers if number < largest) % bound
