"""The network's authority, kept by the person who prepared it: needed where people come and go, or certificates end."""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..._writing import write_file
from ...errors import InvalidInput
from ..transport import require_cryptography

if TYPE_CHECKING:
    from ..transport import certificates

CLOCKS = timedelta(hours=1)  # how far the clocks of two machines may be apart when a certificate is new


def has_authority(folder: Path) -> bool:
    """Whether the authority's key is in a network's folder, and not kept elsewhere."""
    return (folder / "ca" / "ca.key").is_file()


def read_authority(folder: Path) -> certificates.Authority:
    """Read the authority of a network's folder; one line says what is missing."""
    require_cryptography()
    from ..transport import certificates as known  # an extra

    place = folder / "ca"
    try:
        key = known.private_key((place / "ca.key").read_bytes())
        own = known.certificate((place / "ca.crt").read_bytes())
    except OSError as error:
        reason = "cannot be read; only the person who keeps the authority's key can do this: put it back for it"
        raise InvalidInput.because("FILE", error.filename, reason) from None
    if key is None or own is None or not known.same_key(key, own):
        raise InvalidInput.because("DIR", place, "ca.key and ca.crt do not belong together")
    return known.Authority(key, own)


def lasting_authority(folder: Path, begin: datetime, end: datetime) -> tuple[certificates.Authority, bool]:
    """Return an authority that lasts as long as what it is to sign, and whether it was renewed for that.

    It keeps its key and its name, so that certificates which it has signed before hold with the new one, and new
    certificates with the old one. So nobody is locked out, in whatever order they are told.
    """
    from ..transport import certificates as known  # an extra

    authority = read_authority(folder)
    if authority.certificate.not_valid_after_utc >= end:
        return authority, False
    renewed = known.new_authority(begin, end, authority.key)
    write_file(folder / "ca" / "ca.crt", known.certificate_pem(renewed.certificate), mode=0o644)
    return renewed, True
