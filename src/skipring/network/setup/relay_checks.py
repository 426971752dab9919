"""Whether the files for a relay are as they should be: at a node, and in the relay's own folder."""

from __future__ import annotations

from pathlib import Path

from ...errors import InvalidInput
from ..node import NODE_KEY, RELAY, RELAY_ALIAS, NodeConfig
from ..transport import Roster
from .relay import HOST_KEY, allowed_line
from .ssh_keys import public_line_of


def check_node_relay(config: NodeConfig, folder: Path) -> list[str]:
    """Check what a node reaches the relay with: its key, the relay's, and where the tunnel ends."""
    problems: list[str] = []
    for file in ("known_hosts", NODE_KEY):
        if _read(folder / file) is None:
            problems.append(f"{RELAY}/{file} is missing, or cannot be read")
    if problems:
        return problems
    if public_line_of(_read(folder / NODE_KEY) or b"") is None:
        problems.append(f"{RELAY}/{NODE_KEY} is not an ed25519 key of OpenSSH")
    problems += mode_problem(folder / NODE_KEY, f"{RELAY}/{NODE_KEY}")
    if not (_read(folder / "known_hosts") or b"").startswith(f"{RELAY_ALIAS} ".encode()):
        problems.append(f"{RELAY}/known_hosts does not say by which key the relay is known ({RELAY_ALIAS} ...)")
    if config.listen is None:
        problems.append("node.toml says no listen, and what comes from the relay has to end somewhere")
    return problems


def check_relay(folder: Path, roster: Roster, nodes: Path) -> list[str]:
    """Check the relay's own folder against the roster, and against the nodes whose folders are in `nodes`."""
    problems: list[str] = []
    for file in ("sshd_config", "authorized_keys", "start", HOST_KEY):
        if _read(folder / file) is None:
            problems.append(f"{file} is missing, or cannot be read")
    if problems:
        return problems
    host = public_line_of(_read(folder / HOST_KEY) or b"")
    if host is None:
        problems.append(f"{HOST_KEY} is not an ed25519 key of OpenSSH")
    problems += mode_problem(folder / HOST_KEY, HOST_KEY)
    if not (folder / "start").stat().st_mode & 0o100:
        problems.append("start cannot be executed")
    for path in sorted(folder.rglob("*")):
        if path.name != HOST_KEY and path.is_file() and b"PRIVATE KEY-----" in (_read(path) or b""):
            problems.append(f"{path.relative_to(folder)} is another key; it must not be here")
    allowed = (_read(folder / "authorized_keys") or b"").decode(errors="replace").splitlines()
    for node, name in enumerate(roster.names):
        own = nodes / name / RELAY
        key = public_line_of(_read(own / NODE_KEY) or b"")
        if key is not None and allowed_line(roster, node, key) not in allowed:
            problems.append(f"authorized_keys does not let {name} in with its key and its port")
        known = (_read(own / "known_hosts") or b"").decode(errors="replace").split()
        if host is not None and known and " ".join(known[1:3]) != host:
            problems.append(f"{name} knows the relay by another key (known_hosts)")
    return problems


def mode_problem(path: Path, name: str) -> list[str]:
    """Say that others may use a key."""
    try:
        mode = path.stat().st_mode & 0o777
    except OSError:
        return []
    return [f"{name} can be used by others: its mode is {mode:04o}, not 0600"] if mode & 0o077 else []


def require_good(problems: list[str]) -> None:
    """Refuse to pack what is not as it should be."""
    if problems:
        raise InvalidInput.because("NODE", RELAY, f"is not packed: {problems[0]}")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
