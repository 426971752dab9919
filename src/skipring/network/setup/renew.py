"""New certificates for the keys that nodes have: nobody's key is needed for it but the authority's."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ..node import read_node_config
from ..transport import node_uri, read_roster, server_name
from .authority import CLOCKS, lasting_authority
from .folders import require_days
from .local import running_pid
from .update import UPDATE, write_update


@dataclass(frozen=True, kw_only=True)
class Renewed:
    """Whose certificates are new, until when they hold, and which of these nodes run here with the old ones."""

    nodes: tuple[str, ...]
    until: str
    authority: bool
    running: tuple[str, ...]
    update: str


def renew_certificates(folder: str | Path, node: str | None = None, *, days: int = 365) -> Renewed:
    """Make new certificates for all nodes of a network's folder, or for one, and for the authority if it ends before.

    Keys stay, so that roster, run and all other certificates hold as before. What the owners of the nodes need is
    written to update.json.
    """
    folder = Path(folder)
    require_days(days)
    roster = read_roster(folder / "roster.toml")
    names = roster.names if node is None else (roster.names[roster.index(node)],)
    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = now - CLOCKS, now + timedelta(days=days)
    with writing("DIR", folder, within=True):
        authority, longer = lasting_authority(folder, begin, end)
        from ..transport import certificates as made  # an extra

        for name in names:
            place = roster.index(name)
            key = made.public_key_from(roster.keys[place])
            if key is None:
                raise InvalidInput.because("node", name, "roster.toml has no key for it that a certificate can have")
            address = roster.addresses[place]
            hosts = server_name(name), *(() if address is None else (address.host,))
            own = made.certify(authority, key, name, hosts, node_uri(name), begin, end)
            (folder / name).mkdir(mode=0o700, exist_ok=True)  # its owner may have taken the folder along
            write_file(folder / name / "node.crt", made.certificate_pem(own), mode=0o644)
        for name in roster.names:
            if (folder / name).is_dir():
                write_file(folder / name / "ca.crt", made.certificate_pem(authority.certificate), mode=0o644)
        write_update(folder, authority)
    running = tuple(
        name
        for name in (roster.names if longer else names)
        if (folder / name / "node.toml").is_file()
        and running_pid(read_node_config(folder / name / "node.toml")) is not None
    )
    return Renewed(nodes=names, until=f"{end:%Y-%m-%d}", authority=longer, running=running, update=str(folder / UPDATE))
