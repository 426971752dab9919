"""How long hops take at one node, as its owner sees it; medians over the newest of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from statistics import median

_RECENT = 200  # hops that medians are taken over


class HopTimes:
    """What became of a node's hops, in seconds. It has no clock: its callers say when something happened."""

    def __init__(self) -> None:
        self._held_since: float | None = None
        self._offered_at = 0.0
        self._waited = 0.0
        self._passed_at = 0.0
        self._hops: deque[float] = deque(maxlen=_RECENT)
        self._overheads: deque[float] = deque(maxlen=_RECENT)
        self._pass_rates: deque[float] = deque(maxlen=_RECENT)  # bytes per second, until it is on the other's disk
        self._prepared: deque[float] = deque(maxlen=_RECENT)
        #: How long each of the newest offers waited.
        self.waits: deque[float] = deque(maxlen=10 * _RECENT)

    def accepted(self, now: float) -> None:
        """Take note that the token is here."""
        self._held_since, self._waited = now, 0.0

    def offered(self, now: float) -> None:
        """Take note that the token is on offer to the node that is next."""
        self._offered_at = now

    def wait_ended(self, now: float) -> float:
        """Take note that an offer was answered, or given up; return how long it waited."""
        waited = now - self._offered_at
        self._waited += waited
        self.waits.append(waited)
        return waited

    def passing(self, now: float) -> None:
        """Take note that the token is on its way."""
        self._passed_at = now

    def passed(self, now: float, size: int) -> None:
        """Take note that a token has arrived, and its bytes; what the hop took beyond waiting is its overhead."""
        if self._held_since is None:
            return
        taken = now - self._held_since
        self._hops.append(taken)
        self._overheads.append(max(0.0, taken - self._waited))
        self._held_since = None
        self._pass_rates.append(size / max(1e-9, now - self._passed_at))

    def prepared(self, seconds: float) -> None:
        """Take note of how long it took to get the rows of an update ready."""
        self._prepared.append(seconds)

    @property
    def prepare_time(self) -> float | None:
        """Median seconds that it took to get the rows of an update ready."""
        return _median(self._prepared)

    @property
    def hop_time(self) -> float | None:
        """Median seconds from getting the token to having passed it on."""
        return _median(self._hops)

    @property
    def overhead(self) -> float | None:
        """The same without the wait for the next node."""
        return _median(self._overheads)

    @property
    def pass_rate(self) -> float | None:
        """Median bytes per second of a token that is passed on."""
        return _median(self._pass_rates)


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
