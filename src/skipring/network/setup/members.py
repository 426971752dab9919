"""Who takes part in the next run: some leave for good, others join, and those who stay keep what they have."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ..._writing import write_file, writing
from ...errors import InvalidInput, given_as
from ...runs import read_run_file
from ..node import NewNode, NodeConfig, read_node_config
from ..transport import Address, Roster, node_uri, read_roster, server_name
from .authority import CLOCKS, lasting_authority, read_authority
from .folders import ASKED, NewSettings, require_days, write_node_folder
from .new_run import require_stopped, take_up
from .ports import metrics_ports
from .update import write_update

#: Where the folders of those who have left are.
LEFT = "left"


@dataclass(frozen=True)
class NextMembers:
    """The nodes of the next run: names of those who stay and join, in the order of the roster, and who leaves."""

    names: tuple[str, ...]
    joining: Mapping[str, Address | None]  # None: nobody can call it
    leaving: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether a member joins or leaves."""
        return bool(self.joining or self.leaving)


def members_of(folder: Path, joining: Mapping[str, Address | None], leaving: Sequence[str]) -> NextMembers:
    """Return who takes part next; refuse who cannot join or leave, before anything is changed."""
    roster = read_roster(folder / "roster.toml")
    for name in leaving:
        if name not in roster.names:
            raise InvalidInput.because("remove", name, f"is none of the nodes: {', '.join(roster.names)}")
    staying = [name for name in roster.names if name not in leaving]
    places = [*(roster.addresses[roster.index(name)] for name in staying), *joining.values()]
    names = (*staying, *joining)
    blank = len(names)
    if blank < 2:
        reason = f"leaves {', '.join(names) or 'nobody'}; a network has at least 2 nodes"
        raise InvalidInput.because("remove", ", ".join(leaving), reason)
    # A roster refuses what no network can have: a name or an address twice, a name that is none. Those before had none.
    marks = tuple(f"{i:064x}" for i in range(blank)), tuple(f"02{i:064x}" for i in range(blank))
    with given_as("add", instead_of="nodes"):
        Roster(names, tuple(places), *marks)
    for name in joining:
        if (folder / LEFT / name).exists():
            reason = "has left with a certificate of this name, which still holds; choose another name"
            raise InvalidInput.because("add", name, reason)
        if (folder / name).exists() or name in (LEFT, "runs"):
            raise InvalidInput.because("add", name, f"{folder / name} exists already; choose another name")
    if joining or leaving:
        read_authority(folder)
    return NextMembers(names, joining, tuple(dict.fromkeys(leaving)))


def all_have_files(folder: Path, members: NextMembers) -> bool:
    """Say whether those who stay have files of their own, by their settings; or by their last run, if none are here."""
    here = [folder / name / "node.toml" for name in members.names if name not in members.joining]
    configs = [read_node_config(path) for path in here if path.is_file()]
    if configs:
        return all(config.data.path is not None for config in configs)
    last = read_run_file(folder / "run.toml")
    return last.data.path is None and "name" not in last.data.model_fields_set


def begin_with_others(
    folder: str | Path,
    text: str,
    members: NextMembers,
    *,
    asked: str,
    days: int = 365,
    settings: NewSettings | None = None,
) -> tuple[Path, ...]:
    """Give the nodes of a network's folder another run (`text`) with other members; return where the last one is now.

    Who joins gets a key, a certificate and settings; who stays gets the new roster and run, and keeps key, certificate,
    settings, budget and ledger. The folder of who leaves is moved to `left`. What the owners of the others need is
    written to update.json.
    """
    from ..transport import certificates as made  # an extra

    folder = Path(folder)
    require_days(days)
    roster = read_roster(folder / "roster.toml")
    here = [
        path for name in roster.names if (path := folder / name / "node.toml").is_file()
    ]  # others: at their owners'
    configs = [read_node_config(path) for path in here]
    require_stopped(folder, configs)
    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = now - CLOCKS, now + timedelta(days=days)
    authority, _ = lasting_authority(folder, begin, end)
    issued = {
        name: made.issue(authority, name, _hosts_of(name, address), node_uri(name), begin, end)
        for name, address in members.joining.items()
    }

    after = _roster_after(roster, members, folder, issued)
    metrics = _metrics_of(after, configs)
    public = {
        "ca.crt": made.certificate_pem(authority.certificate),
        "roster.toml": after.to_toml().encode(),
        "run.toml": text.encode(),
    }
    with writing("DIR", folder, within=True):
        for name, (key, certificate) in issued.items():
            own = public | {"node.crt": made.certificate_pem(certificate)}
            start = (settings or NewSettings()).of(name, members.joining[name], metrics[name])
            _new_folder(folder, start, own, made.key_pem(key))
        staying = [config for config in configs if config.name in members.names]
        kept = tuple(
            place for config in staying if (place := take_up(config, folder / config.name, public)) is not None
        )
        _move_away(folder, members.leaving)
        write_file(folder / "run.toml", public["run.toml"], mode=0o644)
        write_file(folder / ASKED, asked.encode(), mode=0o644)
        write_file(folder / "roster.toml", public["roster.toml"], mode=0o644)
        write_update(folder, authority)
    return kept


def _roster_after(roster: Roster, members: NextMembers, folder: Path, issued: Mapping[str, tuple[Any, Any]]) -> Roster:
    """Return the roster of the next run; `issued` are the keys and certificates of the nodes that join."""
    from ..transport import certificates as made  # an extra

    def marks(name: str) -> tuple[Address | None, str, str]:
        if name in issued:
            key, certificate = issued[name]
            return members.joining[name], made.fingerprint_of(certificate), made.public_key_of(key)
        place = roster.index(name)
        return roster.addresses[place], _fingerprint(folder / name) or roster.fingerprints[place], roster.keys[place]

    return Roster(members.names, *zip(*map(marks, members.names), strict=True))


def _move_away(folder: Path, leaving: Sequence[str]) -> None:
    """Move the folders of nodes that leave to `left`."""
    for name in leaving:
        (folder / LEFT).mkdir(mode=0o700, exist_ok=True)
        (folder / name).mkdir(mode=0o700, exist_ok=True)  # its owner may have taken it along
        (folder / name).rename(folder / LEFT / name)


def _fingerprint(folder: Path) -> str | None:
    """Return the fingerprint of the certificate that a node has now; None if it is not here."""
    from ..transport import certificates as known  # an extra

    with contextlib.suppress(OSError):
        own = known.certificate((folder / "node.crt").read_bytes())
        return None if own is None else known.fingerprint_of(own)
    return None


def _hosts_of(name: str, address: Address | None) -> tuple[str, ...]:
    return (server_name(name),) if address is None else (server_name(name), address.host)


def _metrics_of(roster: Roster, configs: Sequence[NodeConfig]) -> dict[str, int]:
    """Return the ports of all nodes' metrics, those of who stays as they are, where that is known."""
    kept = {
        config.name: Address.parse(config.metrics).port
        for config in configs
        if config.metrics is not None and config.name in roster.names
    }
    return metrics_ports(dict(zip(roster.names, roster.addresses, strict=True)), kept)


def _new_folder(folder: Path, node: NewNode, public: dict[str, bytes], key: bytes) -> None:
    """Make a node's folder: it is there with everything in it, or not at all."""
    draft = Path(tempfile.mkdtemp(prefix=f".{node.name}-", dir=folder))
    try:
        write_node_folder(draft, node, public, {"node.key": key})
        draft.rename(folder / node.name)
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # after the rename there is nothing left to remove
