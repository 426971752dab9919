"""What is sent to a node's owner: the files of that node alone, in one archive."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from pathlib import Path

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ..node import NODE_KEY, RELAY
from ..transport import read_roster, require_cryptography
from .relay import HOST_KEY
from .update import UPDATE

#: All that ever leaves a network's folder.
_FILES = ("node.key", "node.crt", "ca.crt", "roster.toml", "node.toml", "run.toml", UPDATE)
_FILES_FOR_RELAY = tuple(f"{RELAY}/{file}" for file in ("known_hosts", NODE_KEY))
_FILES_OF_RELAY = ("README", "authorized_keys", "skipring-relay.service", HOST_KEY, "sshd_config", "start")
_MODES = {"node.key": 0o600, f"{RELAY}/{NODE_KEY}": 0o600, HOST_KEY: 0o600, "start": 0o755}


def pack_node(folder: str | Path, name: str, out: str | Path) -> tuple[str, ...]:
    """Write what a node's owner needs into one archive, and return the names of the files in it.

    Only that node's own files are packed, never the authority's key or another node's, and only if nothing is wrong
    with them. The same files give the same bytes.
    """
    require_cryptography()
    from .checks import check_node  # an extra

    node = Path(folder) / name
    out = Path(out)
    roster = read_roster(Path(folder) / "roster.toml")
    roster.index(name)
    problems = list(check_node(node, expected=name).problems)
    if not problems and read_roster(node / "roster.toml") != roster:
        problems = ["its roster.toml is not that of the network"]
    if problems:
        raise InvalidInput.because("NODE", name, f"is not packed: {problems[0]}")
    files = (*_FILES, *_FILES_FOR_RELAY)
    return _write(out, name, {file: (node / file).read_bytes() for file in files if (node / file).is_file()})


def pack_relay(folder: str | Path, out: str | Path) -> tuple[str, ...]:
    """Write what the relay's administrator needs into one archive, with no node's key in it; return its files."""
    require_cryptography()
    from .relay_checks import check_relay, require_good  # an extra

    folder, relay = Path(folder), Path(folder) / RELAY
    if not relay.is_dir():
        reason = "this network has none; `skipring network init --via HOST` makes one"
        raise InvalidInput.because("NODE", RELAY, reason)
    require_good(check_relay(relay, read_roster(folder / "roster.toml"), folder))
    return _write(Path(out), RELAY, {file: (relay / file).read_bytes() for file in _FILES_OF_RELAY})


def _write(out: Path, name: str, contents: dict[str, bytes]) -> tuple[str, ...]:
    if os.path.lexists(out):
        raise InvalidInput.because("out", out, "exists already")
    with writing("out", out):
        write_file(out, _archive(name, contents), mode=0o600, new=True)
    return tuple(contents)


def _archive(name: str, contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for directory in [name, *sorted({f"{name}/{file.rpartition('/')[0]}" for file in contents if "/" in file})]:
            top = tarfile.TarInfo(directory)
            top.type, top.mode = tarfile.DIRTYPE, 0o700
            archive.addfile(top)
        for file, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mode = len(content), _MODES.get(file, 0o644)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
