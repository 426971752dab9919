"""A node tells its owner in time that its certificate ends, or its authority's, and once a day until it is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..transport import Expiry, Keys, expiries
from .events import CertificateEnds, Event

_DAY = 86400.0
_LEAST = 1.0  # seconds between two looks, also right before the end


class ExpiryWatch:
    """Says at the start, then once a day and at the very end, that certificates end within a month.

    Parameters
    ----------
    name : the node's.
    keys : the files that the process has read, and uses for as long as it runs; if they were renewed meanwhile, that
        is said instead.
    note : is told.
    """

    def __init__(self, name: str, keys: Keys, note: Callable[[Event], None]) -> None:
        self._files, self._note = (keys.certificate, keys.authority), note
        self._used = self._read()
        # A node of a test, in virtual time, has no keys.
        self._expiries: tuple[Expiry, ...] = () if self._used is None else expiries(name, *self._used)

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the first of the certificates that the process uses ends; None without any."""
        return min((one.seconds_left() for one in self._expiries), default=None)

    @property
    def warning(self) -> str | None:
        """What the owner has to do, in one line; None if nothing."""
        said = [line for one in self._expiries if (line := one.warning()) is not None]
        if not said:
            return None
        if self._renewed:
            return "certificates were renewed: stop the node and start it again, which loses nothing"
        return "; ".join(said)

    @property
    def _renewed(self) -> bool:
        return self._read() not in (self._used, None)

    def _read(self) -> tuple[bytes, bytes] | None:
        try:
            return self._files[0].read_bytes(), self._files[1].read_bytes()
        except OSError:
            return None

    async def keep(self) -> None:
        """Look, as long as the node runs."""
        while self._expiries:
            left = self.seconds_left or 0.0
            if (what := self.warning) is not None:
                self._note(CertificateEnds(what, round(left)))
            await asyncio.sleep(min(_DAY, left + _LEAST) if left > 0.0 else _DAY)
