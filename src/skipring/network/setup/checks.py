"""Whether the folders of a network are as they should be: keys, certificates, names, dates and who may read them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.x509 import Certificate

from ...errors import InvalidInput
from ..node import NODE_KEY, RELAY, read_node_config
from ..transport import Expiry, Roster, node_uri, read_roster, renewed_in
from ..transport import certificates as known
from .ports import shared_ports
from .relay_checks import check_node_relay, check_relay, mode_problem

_SMALL = 1 << 20  # no key is longer


@dataclass(frozen=True)
class Checked:
    """What was found in one folder: whose it is, how long its certificate lasts, what is wrong, what soon will be."""

    name: str
    days_left: int | None
    problems: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def is_node_folder(folder: Path) -> bool:
    """Whether this is the folder of one node, and not that of a network."""
    return any((folder / file).exists() for file in ("node.toml", "node.key", "node.crt"))


def check_network(folder: str | Path, *, now: datetime | None = None) -> tuple[Checked, ...]:
    """Check the authority and every node of a network; the first entry is the network itself."""
    folder = Path(folder)
    roster = read_roster(folder / "roster.toml")
    text = (folder / "roster.toml").read_bytes()
    top = _with_folder(_check_authority(folder / "ca", now), folder)
    nodes = []
    for name in roster.names:
        if not (folder / name).is_dir():
            nodes.append(Checked(name, None, ("has no folder",)))
            continue
        found = check_node(folder / name, expected=name, now=now)
        more = []
        if _read(folder / name / "roster.toml") not in (text, None):
            more.append("roster.toml differs from the network's")
        if (
            None not in (ours := _read(folder / "ca" / "ca.crt"), its := _read(folder / name / "ca.crt"))
            and ours != its
        ):
            more.append("ca.crt differs from the network's")
        found = replace(found, problems=(*found.problems, *more))
        nodes.append(_with_folder(found, folder))
    relay = folder / RELAY
    # Once it is packed, the relay's folder is needed nowhere else.
    more_found = [Checked(RELAY, None, tuple(check_relay(relay, roster, folder)))] if relay.is_dir() else []
    shared = shared_ports(folder, roster)
    checked = (replace(one, problems=(*one.problems, *shared.get(one.name, ()))) for one in nodes)
    return (top, *checked, *more_found)


def _with_folder(found: Checked, folder: Path) -> Checked:
    """Let what renews certificates name the network's folder, where it is known."""
    problems, warnings = ([renewed_in(folder, said) for said in all_] for all_ in (found.problems, found.warnings))
    return replace(found, problems=tuple(problems), warnings=tuple(warnings))


def check_node(folder: str | Path, *, expected: str | None = None, now: datetime | None = None) -> Checked:
    """Check a node's folder: whether it can prove that it is who it says, and keeps its key to itself."""
    folder = Path(folder)
    problems: list[str] = []
    missing = [
        file for file in ("node.key", "node.crt", "ca.crt", "roster.toml", "node.toml") if _read(folder / file) is None
    ]
    problems += [f"{file} cannot be read" if (folder / file).exists() else f"{file} is missing" for file in missing]
    name, config_problem = _configured_name(folder, missing)
    problems += config_problem
    if expected is not None and name is not None and name != expected:
        problems.append(f"node.toml is that of node {name}")
    key = known.private_key(_read(folder / "node.key") or b"")
    own = known.certificate(_read(folder / "node.crt") or b"")
    # Its folder may be called anything. Where its settings cannot be read, its certificate says whose it is.
    certified = [] if own is None else known.common_names_of(own)
    name = expected or name or (certified[0] if certified else folder.absolute().name)
    authority = known.certificate(_read(folder / "ca.crt") or b"")
    for file, content in (("node.key", key), ("node.crt", own), ("ca.crt", authority)):
        if content is None and file not in missing:
            problems.append(f"{file} is not a {'key' if file == 'node.key' else 'certificate'}")
    if key is not None and own is not None and not known.same_key(key, own):
        problems.append("node.key does not belong to node.crt")
    if own is not None and authority is not None and not known.signed_by(own, authority):
        problems.append("node.crt is not signed by ca.crt")
    warnings: list[str] = []
    if own is not None:
        problems += _check_names(own, name)
        problems += _check_dates(Expiry("node.crt", name, own.not_valid_after_utc), own, now, warnings)
    if authority is not None:
        problems += _check_dates(Expiry("ca.crt", None, authority.not_valid_after_utc), authority, now, warnings)
    if "roster.toml" not in missing:
        problems += _check_roster(folder / "roster.toml", name, own, key)
    problems += mode_problem(folder / "node.key", "node.key")
    problems += _check_way(folder, missing)
    problems += _strange_keys(folder, authority)
    return Checked(name, None if own is None else _days_left(own, now), tuple(problems), tuple(warnings))


def _configured_name(folder: Path, missing: list[str]) -> tuple[str | None, list[str]]:
    if "node.toml" in missing:
        return None, []
    try:
        return read_node_config(folder / "node.toml").name, []
    except InvalidInput as problem:
        return None, [f"node.toml: {problem.reason}"]


def _check_authority(folder: Path, now: datetime | None) -> Checked:
    own = known.certificate(_read(folder / "ca.crt") or b"")
    if own is None:
        there = folder.is_dir()
        return Checked("ca", None, ("ca.crt is missing, or is not a certificate",) if there else ())
    warnings: list[str] = []
    problems = _check_dates(Expiry("ca.crt", None, own.not_valid_after_utc), own, now, warnings)
    text = _read(folder / "ca.key")
    if text is not None:  # kept elsewhere, as it should be, otherwise
        key = known.private_key(text)
        if key is None or not known.same_key(key, own):
            problems.append("ca.key does not belong to ca.crt")
        problems += mode_problem(folder / "ca.key", "ca.key")
    return Checked("ca", _days_left(own, now), tuple(problems), tuple(warnings))


def _check_names(own: Certificate, name: str) -> list[str]:
    bound = known.uris_of(own) == [node_uri(name)] and known.common_names_of(own) == [name]
    return [] if bound else [f"node.crt is not bound to the name {name}"]


def _check_dates(expiry: Expiry, own: Certificate, now: datetime | None, warnings: list[str]) -> list[str]:
    """Return what is wrong with the dates of a certificate, and add to the warnings that it will not last."""
    begin, moment = own.not_valid_before_utc, now if now is not None else datetime.now(UTC)
    said = expiry.warning(moment)
    if said is not None and moment > expiry.at:
        return [said]
    warnings += [] if said is None else [said]
    return [f"{expiry.file} is not valid before {begin:%Y-%m-%d %H:%M} UTC"] if moment < begin else []


def _days_left(own: Certificate, now: datetime | None) -> int:
    moment = now if now is not None else datetime.now(UTC)
    return int((own.not_valid_after_utc - moment) / timedelta(days=1))  # whole days: also of those since it ended


def _check_roster(path: Path, name: str, own: Certificate | None, key: EllipticCurvePrivateKey | None) -> list[str]:
    try:
        roster: Roster = read_roster(path)
    except InvalidInput as problem:
        return [f"roster.toml: {problem.reason}"]
    if name not in roster.names:
        return [f"roster.toml has no node {name}"]
    if own is not None and roster.keys[roster.index(name)] != known.key_of(own):
        return [f"roster.toml has another key for {name} than node.crt"]
    if key is not None and roster.keys[roster.index(name)] != known.public_key_of(key):
        return [f"roster.toml has another key for {name} than node.key"]
    return []


def _check_way(folder: Path, missing: list[str]) -> list[str]:
    """Check what the node reaches the relay with, if it has one."""
    if missing:
        return []
    try:
        config, roster = read_node_config(folder / "node.toml"), read_roster(folder / "roster.toml")
    except InvalidInput:  # which has been said
        return []
    return [] if config.relay is None or config.name not in roster.names else check_node_relay(config, folder / RELAY)


def _strange_keys(folder: Path, authority: Certificate | None) -> list[str]:
    """Look for keys that do not belong into a node's folder, whatever they are called."""
    problems = []
    for path in sorted(folder.rglob("*")):
        if (
            path in (folder / "node.key", folder / RELAY / NODE_KEY)
            or not path.is_file()
            or path.stat().st_size > _SMALL
        ):
            continue
        content = _read(path) or b""
        if b"PRIVATE KEY-----" not in content and path.name != "ca.key":
            continue
        key = known.private_key(content)
        whose = "the authority's key" if key and authority and known.same_key(key, authority) else "another key"
        problems.append(f"{path.relative_to(folder)} is {whose}; it must not be here")
    return problems


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None
