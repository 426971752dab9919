"""The folders of a new network: an authority, and for each node its key, its certificate and its settings."""

from __future__ import annotations

import os
import shutil
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ..node import NODE_KEY, RELAY, NewNode, NodeBudget, NodeRelay, node_config_text
from ..transport import Address, Roster, node_uri, require_cryptography, server_name
from .authority import CLOCKS
from .ports import metrics_ports
from .relay import HOST_KEY, Via, node_host, node_relay_files, relay_files

#: The run as it was asked for, before it was made into one for these nodes.
ASKED = "asked.toml"


@dataclass(frozen=True, kw_only=True)
class NewSettings:
    """What the settings of new nodes begin with, whose owners may change all of it.

    Nodes are late on purpose by the law `delay`; `budget` is that of each; `data` are their own files, by their names.
    """

    delay: str | None = None
    budget: NodeBudget | None = None
    data: Mapping[str, Path] = field(default_factory=dict)

    def of(self, name: str, address: Address | None, metrics: int, relay: NodeRelay | None = None) -> NewNode:
        """Return what one node starts with."""
        return NewNode(
            name=name,
            address=address,
            metrics=metrics,
            delay=self.delay,
            budget=self.budget,
            data=self.data.get(name),
            relay=relay,
        )


def make_network(
    folder: str | Path,
    names: Sequence[str],
    addresses: Sequence[Address | None],
    *,
    days: int = 365,
    run: bytes | None = None,
    asked: bytes | None = None,
    settings: NewSettings | None = None,
    via: Via | None = None,
) -> Roster:
    """Make an authority and one folder per node; the folder is there with everything in it, or not at all.

    The holder of `ca/ca.key` can make any node's certificate: keep it offline, or delete it once all nodes have theirs.
    It is not encrypted. With `via`, nodes reach each other by way of a relay, whose folder is made as well; `addresses`
    are those that the relay lends to them (`relay_addresses`). `asked` is kept in the network's folder: what it leaves
    open is chosen anew when others join or leave.
    """
    require_days(days)
    given, folder = folder, Path(os.path.abspath(folder))
    if os.path.lexists(folder):
        raise InvalidInput.because("DIR", given, "exists already; a network is never overwritten")
    require_cryptography()
    with writing("DIR", given):
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    try:
        roster = _fill(draft, names, addresses, days=days, run=run, settings=settings or NewSettings(), via=via)
        if asked is not None:
            write_file(draft / ASKED, asked, mode=0o644, synced=False)
        draft.rename(folder)
    except OSError as error:
        raise InvalidInput.because("DIR", given, f"cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # after the rename there is nothing left to remove
    return roster


def require_days(days: int) -> None:
    """Refuse certificates that last less than a day, or longer than dates can say."""
    if not 1 <= days <= 36500:
        raise InvalidInput("days", days, "from 1 to 36500")


def _fill(
    folder: Path,
    names: Sequence[str],
    addresses: Sequence[Address | None],
    *,
    days: int,
    run: bytes | None,
    settings: NewSettings,
    via: Via | None,
) -> Roster:
    from ..transport import certificates as made  # an extra

    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = now - CLOCKS, now + timedelta(days=days)
    authority = made.new_authority(begin, end)
    issued = [
        made.issue(
            authority,
            name,
            (server_name(name), *(() if address is None else (address.host,))),
            node_uri(name),
            begin,
            end,
        )
        for name, address in zip(names, addresses, strict=True)
    ]
    roster = Roster(
        tuple(names),
        tuple(addresses),
        tuple(made.fingerprint_of(one) for _, one in issued),
        tuple(made.public_key_of(key) for key, _ in issued),
    )
    public = {"ca.crt": made.certificate_pem(authority.certificate), "roster.toml": roster.to_toml().encode()}
    if run is not None:
        public["run.toml"] = run
    _write_folder(folder, {name: text for name, text in public.items() if name != "ca.crt"}, {})
    _write_folder(folder / "ca", {"ca.crt": public["ca.crt"]}, {"ca.key": made.key_pem(authority.key)})
    metrics = metrics_ports(dict(zip(names, addresses, strict=True)))
    for node, (name, address, (key, certificate)) in enumerate(zip(names, addresses, issued, strict=True)):
        relay = None if via is None else _relay_settings(via, node)
        own = public | {"node.crt": made.certificate_pem(certificate)}
        start = settings.of(name, address, metrics[name], relay)
        write_node_folder(folder / name, start, own, {"node.key": made.key_pem(key)})
    if via is not None:
        _write_relay(folder, via, roster)
    return roster


def _relay_settings(via: Via, node: int) -> NodeRelay:
    return NodeRelay(host=via.host, port=via.port, user=via.user, local=node_host(node))


def _write_relay(folder: Path, via: Via, roster: Roster) -> None:
    """Write the relay's folder, and into each node's what it reaches the relay with."""
    from .ssh_keys import new_ssh_key  # an extra

    host_key, host_line = new_ssh_key()
    keys = [new_ssh_key() for _ in roster.names]
    _write_folder(folder / RELAY, relay_files(via, roster, [line for _, line in keys]), {HOST_KEY: host_key})
    for name, (key, _) in zip(roster.names, keys, strict=True):
        _write_folder(folder / name / RELAY, node_relay_files(host_line), {NODE_KEY: key})


def write_node_folder(folder: Path, node: NewNode, public: dict[str, bytes], secret: dict[str, bytes]) -> None:
    """Write what a new node starts with: its settings, what everyone may read, and what its owner alone may."""
    run = public.get("run.toml")
    has_schema = run is not None and "column" in tomllib.loads(run.decode())
    config = node_config_text(node, with_run=run is not None, with_schema=has_schema)
    _write_folder(folder, public | {"node.toml": config.encode()}, secret)


def _write_folder(folder: Path, public: dict[str, bytes], secret: dict[str, bytes]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in public.items():
        write_file(folder / name, content, mode=0o755 if name == "start" else 0o644, synced=False)
    for name, content in secret.items():
        write_file(folder / name, content, mode=0o600, synced=False)
