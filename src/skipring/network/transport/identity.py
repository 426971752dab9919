"""Who a node is: a certificate that is bound to its name, with a key that every other node knows from the roster.

`peer_name` tells who is at the other end of a connection. Install with ``pip install skipring[network]``.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime
from importlib import import_module

from ...errors import InvalidInput
from .expiry import renewal
from .roster import NODE_DOMAIN, Roster

_URI = "skipring://node/"


def require_cryptography() -> None:
    """Say how to install what certificates need, if it is not there."""
    try:
        import_module("cryptography")
    except ImportError:
        raise InvalidInput.because(
            "FEATURE", "certificates", "needs cryptography: pip install skipring[network]"
        ) from None


def node_uri(name: str) -> str:
    """Return the URI that a node's certificate is bound to.

    >>> node_uri("clinic-3")
    'skipring://node/clinic-3'
    """
    return _URI + name


def server_name(name: str) -> str:
    """Return the host name that TLS must find in a node's certificate, wherever the node is reached.

    A connection that only checks the address could end at another node of the same host.

    >>> server_name("clinic-3")
    'clinic-3.node.skipring'
    """
    return name + NODE_DOMAIN


def peer_name(certificate_der: bytes, roster: Roster, *, now: datetime | None = None) -> str:
    """Return the name of the node at the other end of a connection, or refuse it and say why.

    TLS has checked that the certificate is signed by the authority and that the peer has its key. Here, its name
    must be in the roster, with the key of this certificate, and today must be one of its days. A certificate that was
    renewed has the same key, so that nobody else needs another roster.
    """
    require_cryptography()
    from . import certificates as known  # an extra

    given = hashlib.sha256(certificate_der).hexdigest()
    found = known.certificate(certificate_der)
    if found is None:
        raise InvalidInput.because("certificate", given[:16], "is not a certificate")
    uris = known.uris_of(found)
    if len(uris) != 1 or not uris[0].startswith(_URI):
        raise InvalidInput.because("certificate", given[:16], "is bound to no node's name")
    name = uris[0].removeprefix(_URI)
    if name not in roster.names:
        raise InvalidInput.because("certificate", given[:16], f"unknown: {name[:63]!r} is no node of the roster")
    if roster.keys[roster.index(name)] != known.key_of(found):
        raise InvalidInput.because("certificate", given[:16], f"is not the one that the roster has for node {name}")
    if known.common_names_of(found) != [name]:
        raise InvalidInput.because("certificate", given[:16], f"wrong name: its subject is not node {name}")
    moment = now if now is not None else datetime.now(UTC)
    if moment > found.not_valid_after_utc:
        raise InvalidInput.because(
            "certificate", name, f"expired on {found.not_valid_after_utc:%Y-%m-%d}; {renewal(name)}"
        )
    if moment < found.not_valid_before_utc:
        raise InvalidInput.because("certificate", name, f"is not valid before {found.not_valid_before_utc:%Y-%m-%d}")
    return name
