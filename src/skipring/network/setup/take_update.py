"""A node's folder takes what the authority tells all: another run, other members, new certificates."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ...runs import RunFile, parse_run, read_run_file
from ..node import NodeConfig, read_node_config
from ..transport import Roster, node_uri, read_roster, require_cryptography, roster_of_text
from .checks import is_node_folder
from .local import running_pid
from .new_run import require_stopped, take_up
from .update import UPDATE, Update, moment_of, read_update

_Values = Mapping[str, tuple[str, str]]


@dataclass(frozen=True, kw_only=True)
class Taken:
    """What an update has changed in a node's folder.

    Parameters
    ----------
    node, made : whose folder it is, and when the update was made.
    known : whether the folder had this very update already, so that nothing was changed.
    new_run : whether it is another run; `put_away` is where the last one is now.
    joined, left : who takes part from now on, and who does not any more.
    changed : keys of the run file whose values are others, each with the value before and after.
    renewed : certificates that are new (node.crt, ca.crt).
    restart : whether the node runs, and uses them only after it was stopped and started again.
    """

    node: str
    made: str
    known: bool = False
    new_run: bool = False
    put_away: str | None = None
    joined: tuple[str, ...] = ()
    left: tuple[str, ...] = ()
    changed: _Values
    renewed: tuple[str, ...] = ()
    restart: bool = False


def update_node(folder: str | Path, file: str | Path) -> Taken:
    """Take what the authority tells all nodes into a node's folder, if it is newer than what is there.

    The person who signed it with the authority's key may change the run and its members. The update never has this
    node's key in it, and does not touch its settings, budget or ledger. A node that runs may be given new certificates,
    and no other run.
    """
    require_cryptography()
    folder, file = Path(folder), Path(file)
    if not is_node_folder(folder):
        raise InvalidInput.because("DIR", folder, "is not the folder of a node: there is no node.toml in it")
    config = read_node_config(folder / "node.toml")
    update = _admitted(folder, file)
    before = moment_of(folder / UPDATE)
    if before is not None and update.made < before:
        raise InvalidInput.because(
            "FILE", file, f"was made on {update.made}, and this node has one of {before}: it would be a step back"
        )
    if update.made == before:
        if (folder / UPDATE).read_bytes() != file.read_bytes():
            raise InvalidInput.because(
                "FILE", file, f"is another one than this node has, and of the same time, {before}"
            )
        return Taken(node=config.name, made=update.made, known=True, changed={})
    roster, own = roster_of_text(update.roster), read_roster(folder / "roster.toml")
    _require_own(folder, file, config, update, roster)
    run, last = _runs(config, update, file)
    new_run = roster != own or _identity(run) != _identity(last)
    if new_run:
        if update.run is None:
            raise InvalidInput.because("FILE", file, "has other nodes, and no run for them")
        require_stopped(folder, [config])
    certificates = {"ca.crt": update.authority, "node.crt": update.certificates.get(config.name)}
    public = {name: text.encode() for name, text in certificates.items() if text is not None}
    renewed = tuple(name for name, text in public.items() if _bytes(folder / name) != text)
    kept = None
    with writing("DIR", folder, within=True):
        if new_run:
            assert update.run is not None
            both = {"run.toml": update.run.encode(), "roster.toml": update.roster.encode()}
            kept = take_up(config, folder, public | both)
        else:
            for name in renewed:
                write_file(folder / name, public[name], mode=0o644)
        write_file(folder / UPDATE, file.read_bytes(), mode=0o644)  # last: what was interrupted can be done again
    return Taken(
        node=config.name,
        made=update.made,
        new_run=new_run,
        put_away=None if kept is None else str(kept),
        joined=tuple(name for name in roster.names if name not in own.names),
        left=tuple(name for name in own.names if name not in roster.names),
        changed=_differing(last, run) if new_run else {},
        renewed=renewed,
        restart=bool(renewed) and running_pid(config) is not None,
    )


def _admitted(folder: Path, file: Path) -> Update:
    """Return an update if the authority that this node knows has signed it."""
    from ..transport import certificates as known  # an extra

    authority = known.certificate(_bytes(folder / "ca.crt") or b"")
    if authority is None:
        raise InvalidInput.because("DIR", folder, "its ca.crt cannot be read, or is not a certificate")
    return read_update(file, authority)


def _require_own(folder: Path, file: Path, config: NodeConfig, update: Update, roster: Roster) -> None:
    """Refuse an update without this node, or with another key or certificate for it."""
    from ..transport import certificates as known  # an extra

    if config.name not in roster.names:
        reason = f"{config.name} is not among the nodes any more: {', '.join(roster.names)}; nothing was changed"
        raise InvalidInput.because("FILE", file, reason)
    key = known.private_key(_bytes(folder / "node.key") or b"")
    expected = roster.keys[roster.index(config.name)]
    if key is None or known.public_key_of(key) != expected:
        raise InvalidInput.because("FILE", file, f"has another key for {config.name} than node.key")
    if (text := update.certificates.get(config.name)) is None:
        return
    own, authority = known.certificate(text.encode()), known.certificate(update.authority.encode())
    bound = own is not None and known.uris_of(own) == [node_uri(config.name)] and known.key_of(own) == expected
    if own is None or authority is None or not bound or not known.signed_by(own, authority):
        raise InvalidInput.because("FILE", file, f"has a certificate for {config.name} that is not its own")


def _runs(config: NodeConfig, update: Update, file: Path) -> tuple[RunFile | None, RunFile | None]:
    """Return the run of an update and the one that the node has."""
    last = None if config.run is None or not config.run.is_file() else read_run_file(config.run)
    if update.run is None:
        return last, last
    try:
        return parse_run(tomllib.loads(update.run)), last
    except tomllib.TOMLDecodeError:
        raise InvalidInput.because("FILE", file, "has a run that is not TOML") from None


def _identity(run: RunFile | None) -> str | None:
    return None if run is None else run.network.identity


def _differing(before: RunFile | None, after: RunFile | None) -> _Values:
    """Return the keys of two runs whose values differ, each with both as texts."""

    def values(run: RunFile | None) -> dict[str, Any]:
        found = {} if run is None else run.model_dump(mode="json", exclude_unset=True)
        return {
            f"{section}.{key}" if isinstance(keys, dict) else section: value
            for section, keys in found.items()
            for key, value in (keys.items() if isinstance(keys, dict) else [("", keys)])
        }

    one, two = values(before), values(after)
    return {
        key: (str(one.get(key)), str(two.get(key)))
        for key in sorted({*one, *two})
        if one.get(key) != two.get(key) and key != "network.identity"
    }


def _bytes(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
