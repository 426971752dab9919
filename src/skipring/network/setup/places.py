"""Where a node writes and listens, and whether it can: tried before a start, in the same places.

What only a service's own rules forbid (a read-only file system of systemd, a container's) is seen by who is under
them, and by nobody else. So it is also said where a node writes.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from ..._writing import write_file
from ...errors import InvalidInput
from ..node import NodeConfig, read_node_config
from ..transport import AddressInUse, listening_sockets, read_roster
from .hooks import Hook, hooks_of
from .local import running_pid


@dataclass(frozen=True, kw_only=True)
class Around:
    """What a node has to do with its machine: functions of its owner's that it calls, folders that it writes to.

    `process` is its own, if it runs.
    """

    hooks: tuple[Hook, ...] = ()
    writes: tuple[str, ...] = ()
    process: int | None = None


def around_node(folder: str | Path) -> Around:
    """Return what a node has to do with its machine; nothing where its settings cannot be read."""
    folder = Path(folder)
    try:
        config = read_node_config(folder / "node.toml")
    except InvalidInput:  # which is said elsewhere
        return Around()
    writes = tuple(str(place) for place in written_folders(config, folder))
    return Around(hooks=hooks_of(folder), writes=writes, process=running_pid(config))


def written_folders(config: NodeConfig, folder: Path) -> tuple[Path, ...]:
    """Return the folders that a node writes to: its own, that of its journal and models, and that of its ledger."""
    places = [folder.absolute(), config.journal.parent]
    models = Path(f"{config.journal}-models")
    places += [models] if models.exists() else []
    places += [] if config.budget.ledger is None else [config.budget.ledger.parent]
    return tuple(dict.fromkeys(place.resolve() for place in places))


def is_here(folder: Path) -> bool:
    """Say of a node in a network's folder whether it will run on this machine: others cannot call it elsewhere."""
    try:
        config, roster = read_node_config(folder / "node.toml"), read_roster(folder / "roster.toml")
        address = roster.addresses[roster.index(config.name)]
    except InvalidInput:  # which is said elsewhere
        return False
    return config.relay is None and address is not None and address.is_loopback


def place_problems(folder: str | Path) -> tuple[str, ...]:
    """Return where a node cannot write, and on what it cannot listen; of one that runs, nothing is in its way."""
    folder = Path(folder)
    config = read_node_config(folder / "node.toml")
    problems = [problem for place in written_folders(config, folder) for problem in _not_written(place, config)]
    for key, path in (("journal", config.journal), ("budget.ledger", config.budget.ledger)):
        if path is not None and path.exists() and not os.access(path, os.W_OK):
            problems.append(f"{key} = {path}: may not be written to")
    if running_pid(config) is None:
        problems += _not_listened(config, folder)
    return tuple(problems)


def _not_written(place: Path, config: NodeConfig) -> list[str]:
    """Write a small file, see to it that it is on the disk, and take it away again."""
    probe = place / f".skipring-check-{secrets.token_hex(4)}"
    try:
        write_file(probe, "skipring network check\n", mode=0o600)
        probe.unlink()
    except OSError as error:
        ledger = config.budget.ledger
        key, given = ("journal", config.journal)
        if ledger is not None and ledger.parent.resolve() == place:
            key, given = "budget.ledger", ledger
        hint = "; make it first" if isinstance(error, FileNotFoundError) else ""
        return [f"{key} = {given}: a node writes to the folder {place}, and cannot: {error.strerror}{hint}"]
    return []


def _not_listened(config: NodeConfig, folder: Path) -> list[str]:
    wanted = [("listen", config.listen), ("metrics", config.metrics)]
    if config.relay is not None:
        roster = read_roster(folder / "roster.toml")
        others = (port for name, port in zip(roster.names, roster.ports, strict=True) if name != config.name)
        wanted += [("relay.local", f"{config.relay.local}:{port}") for port in others]
    problems, opened = [], []
    try:
        for key, address in wanted:
            try:
                opened += [] if address is None else listening_sockets(address)
            except AddressInUse as problem:
                problems.append(f"{key} = {address}: {problem.reason}")
    finally:
        for one in opened:
            one.close()
    return problems
