"""TLS 1.3 with a certificate at both ends, and what went wrong with it in plain words."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import NamedTuple

from ...errors import InvalidInput

#: Seconds in which TLS must stand, and a caller must have said what it wants.
HANDSHAKE = 10.0
#: OpenSSL's words in ours.
_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "has no certificate",
    "NO_SHARED_CIPHER": "does not know TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "does not know TLS 1.3",
    "HTTP_REQUEST": "does not speak TLS",
    "WRONG_VERSION_NUMBER": "does not speak TLS",
    "BAD_PACKET": "does not speak TLS",
    "RECORD_LAYER_FAILURE": "does not speak TLS",
    "certificate has expired": "has a certificate that has expired",
    "certificate is not yet valid": "has a certificate that is not yet valid",
    "unable to get local issuer certificate": "has a certificate of another authority",
    "certificate signature failure": "has a forged certificate",
}


class Keys(NamedTuple):
    """What a node proves itself with, and the authority it believes: three files of its folder."""

    key: Path
    certificate: Path
    authority: Path

    @classmethod
    def read(cls, folder: Path) -> Keys:
        """Find them in a node's folder, and see that they fit together."""
        found = cls(*(folder / name for name in ("node.key", "node.crt", "ca.crt")))
        found.calling()
        return found

    def calling(self) -> ssl.SSLContext:
        """Return how this node calls others."""
        return self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))

    def listening(self) -> ssl.SSLContext:
        """Return how this node is called."""
        context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))
        context.verify_mode = ssl.CERT_REQUIRED
        context.num_tickets = 0  # a connection lasts; nobody resumes one
        return context

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        try:
            for path in self:
                path.read_bytes()  # OpenSSL would not say which of them cannot be read
            context.load_cert_chain(self.certificate, self.key, password="")
            context.load_verify_locations(self.authority)
        except ssl.SSLError:
            reason = "node.key, node.crt and ca.crt do not fit together; `skipring network check` tells more"
            raise InvalidInput.because("FILE", self.key.parent, reason) from None
        except OSError as error:
            raise InvalidInput.because("FILE", error.filename, f"cannot be read: {error.strerror}") from None
        return context


def reason_of(error: ssl.SSLError) -> str:
    """Say why TLS does not stand.

    >>> reason_of(ssl.SSLError(1, "[SSL: HTTP_REQUEST] http request (_ssl.c:1006)"))
    'http request'
    """
    if isinstance(error, ssl.SSLCertVerificationError):
        detail = error.verify_message
    else:
        detail = getattr(error, "reason", None) or str(error).partition("] ")[2].partition(" (")[0]
    return _WORDS.get(detail) or detail[:80].lower().replace("_", " ") or "cannot be talked to"


def is_turned_away(error: ssl.SSLError) -> bool:
    """Say whether the other end has ended TLS, because of the certificate at this end, for instance."""
    return "ALERT" in (getattr(error, "reason", None) or "")
