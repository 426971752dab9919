"""A node tells its owner in time that its certificate ends, or its authority's, and once a day until it is renewed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from ..transport import Expiry, Keys, expiries
from .events import CertificateEnds, Event

__all__ = ["ExpiryWatch"]

_DAY = 86400.0
_LEAST = 1.0  # seconds between two looks, also right before the end


class ExpiryWatch:
    """Says at the start, then once a day and at the very end, that certificates end within a month.

    Parameters
    ----------
    name : the node's.
    keys : what the process uses, for as long as it runs.
    folder : where the files are; if they were renewed meanwhile, that is said instead.
    note : is told.
    """

    def __init__(self, name: str, keys: Keys, folder: Path, note: Callable[[Event], None]) -> None:
        self._keys, self._folder, self._note = keys, folder, note
        # A node of a test, in virtual time, has no keys.
        self._expiries: tuple[Expiry, ...] = (
            expiries(name, keys.certificate, keys.authority) if keys.certificate else ()
        )

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
        files = (("node.crt", self._keys.certificate), ("ca.crt", self._keys.authority))
        try:
            return any((self._folder / name).read_bytes() != content for name, content in files)
        except OSError:
            return False

    async def keep(self) -> None:
        """Look, as long as the node runs."""
        while self._expiries:
            left = self.seconds_left or 0.0
            if (what := self.warning) is not None:
                self._note(CertificateEnds(what, round(left)))
            await asyncio.sleep(min(_DAY, left + _LEAST) if left > 0.0 else _DAY)
