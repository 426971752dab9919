"""How long a node's certificates last, and what is said before they do not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

#: So long before a certificate expires its owner is told.
SOON = timedelta(days=30)
_RENEW = "renew it: skipring network renew"
_UNITS = (("day", 86400), ("hour", 3600), ("minute", 60))


def renewal(name: str | None = None) -> str:
    """Return what makes a new certificate for a node, or for all of them and the authority."""
    return f"{_RENEW} DIR{'' if name is None else f' --node {name}'}"


def renewed_in(folder: Path, said: str) -> str:
    """Return what is said of a certificate, with the network's folder in place of DIR; a node does not know it.

    >>> renewed_in(Path("net"), f"node.crt expired on 2026-03-09; {renewal('b')}")
    'node.crt expired on 2026-03-09; renew it: skipring network renew net --node b'
    """
    return said.replace(f"{_RENEW} DIR", f"{_RENEW} {folder}")


@dataclass(frozen=True)
class Expiry:
    """When a certificate ends: the file that it is in, whose it is (None: the authority's), and the moment."""

    file: str
    name: str | None
    at: datetime

    def seconds_left(self, now: datetime | None = None) -> float:
        """Return how long it lasts; below 0 once it has expired."""
        return (self.at - (datetime.now(UTC) if now is None else now)).total_seconds()

    def warning(self, now: datetime | None = None) -> str | None:
        """Say in one line that it expires within a month, or has expired; None if it lasts longer.

        >>> one = Expiry("node.crt", "b", datetime(2026, 3, 9, tzinfo=UTC))
        >>> one.warning(datetime(2026, 3, 1, tzinfo=UTC))
        'node.crt expires on 2026-03-09, in 8 days; renew it: skipring network renew DIR --node b'
        >>> one.warning(datetime(2026, 4, 1, tzinfo=UTC))
        'node.crt expired on 2026-03-09; renew it: skipring network renew DIR --node b'
        """
        left = self.seconds_left(now)
        if left > SOON.total_seconds():
            return None
        if left < 0.0:
            return f"{self.file} expired on {self.at:%Y-%m-%d}; {renewal(self.name)}"
        return f"{self.file} expires on {self.at:%Y-%m-%d}, in {_how_long(left)}; {renewal(self.name)}"


def _how_long(seconds: float) -> str:
    """Return a time in its largest unit, and never more than there is."""
    unit, length = next((one for one in _UNITS if seconds >= one[1]), ("second", 1))
    number = int(seconds // length)
    return f"{number} {unit}{'' if number == 1 else 's'}"


def expiries(name: str, certificate: bytes, authority: bytes) -> tuple[Expiry, ...]:
    """Return when a node's certificate and its authority's end; what is no certificate has no end."""
    from . import certificates as known  # an extra

    found = (("node.crt", name, known.certificate(certificate)), ("ca.crt", None, known.certificate(authority)))
    return tuple(Expiry(file, whose, one.not_valid_after_utc) for file, whose, one in found if one is not None)
