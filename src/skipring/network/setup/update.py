"""What all owners are told when people come and go, or certificates are renewed: one file without a secret in it.

It is signed with the authority's key, so that it may travel by mail or lie on a share. A node's folder takes it from
nobody else, and never one that is older than what it has.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from ..._writing import write_file
from ...errors import InvalidInput
from ..transport import read_roster

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

    from ..transport import certificates

#: The file, in a network's folder and in that of each node.
UPDATE = "update.json"
_TAG = b"skipring: what the authority tells the nodes of its network\n"
_LARGEST = 1 << 24
_FORM = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True)
class Update:
    """Who takes part in which run, and with which certificates, as the authority has it since a moment.

    Parameters
    ----------
    made : when, in UTC; of two the later one counts.
    roster, run : the texts of roster.toml and run.toml; no run if the network's folder has none.
    authority : its certificate.
    certificates : those of the nodes, by their names.
    """

    made: str
    roster: str
    run: str | None
    authority: str
    certificates: Mapping[str, str]

    @property
    def signed_bytes(self) -> bytes:
        """The bytes under the signature: one spelling for all writers."""
        return _TAG + json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


def write_update(folder: Path, authority: certificates.Authority) -> Update:
    """Sign what a network's folder has now, and write it there and into the folders of its nodes."""
    from ..transport import certificates as known  # an extra

    roster = read_roster(folder / "roster.toml")
    run = folder / "run.toml"
    found = Update(
        made=_next_moment(folder / UPDATE),
        roster=(folder / "roster.toml").read_text(encoding="utf-8"),
        run=run.read_text(encoding="utf-8") if run.is_file() else None,
        authority=known.certificate_pem(authority.certificate).decode(),
        certificates={
            name: (folder / name / "node.crt").read_text(encoding="utf-8")
            for name in roster.names
            if (folder / name / "node.crt").is_file()
        },
    )
    signature = known.sign(authority.key, found.signed_bytes).hex()
    text = json.dumps({"update": asdict(found), "signature": signature}, indent=1) + "\n"
    for place in (folder, *(folder / name for name in roster.names)):
        if place.is_dir():
            write_file(place / UPDATE, text.encode(), mode=0o644)
    return found


def _next_moment(path: Path) -> str:
    """Return this moment, or one after the last update's if the clock was set back since."""
    now = datetime.now(UTC).replace(microsecond=0)
    before = moment_of(path)
    if before is not None:
        now = max(now, datetime.strptime(before, _FORM).replace(tzinfo=UTC) + timedelta(seconds=1))
    return now.strftime(_FORM)


def moment_of(path: Path) -> str | None:
    """Return when the update was made that a folder has; None if it has none."""
    if not path.exists():
        return None
    return _parse(path)[0].made


def read_update(path: Path, authority: Certificate) -> Update:
    """Read an update that the authority of a certificate has signed; one line says what is wrong with it."""
    from ..transport import certificates as known  # an extra

    found, signature = _parse(path)
    key = known.key_of(authority)
    if key is None or not known.is_signature(key, signature, found.signed_bytes):
        raise InvalidInput.because("FILE", path, "is not signed by the authority of this network (ca.crt): not taken")
    told = known.certificate(found.authority.encode())
    if told is None or known.key_of(told) != key:
        raise InvalidInput.because("FILE", path, "has the certificate of another authority")
    return found


def _parse(path: Path) -> tuple[Update, bytes]:
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError
        found = json.loads(path.read_text(encoding="utf-8"))
        told = found["update"]
        update = Update(
            made=str(told["made"]),
            roster=str(told["roster"]),
            run=None if told["run"] is None else str(told["run"]),
            authority=str(told["authority"]),
            certificates={str(name): str(text) for name, text in told["certificates"].items()},
        )
        datetime.strptime(update.made, _FORM)  # what is compared as a text must be spelled in one way
        if len(update.made) != len("2026-03-01T00:00:00Z"):
            raise ValueError
        return update, bytes.fromhex(found["signature"])
    except OSError as error:
        raise InvalidInput.because("FILE", path, f"cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        reason = "is no update, which `skipring network new-run` and `skipring network renew` write"
        raise InvalidInput.because("FILE", path, reason) from None
