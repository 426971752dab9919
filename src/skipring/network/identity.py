"""Who a node is: a certificate that is bound to its name, and that every other node knows by its fingerprint.

`make_network` makes an authority and the folders of all nodes, `pack_node` what is sent to a node's owner, and
`peer_name` tells who is at the other end of a connection. Install with ``pip install skipring[network]``.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

from ..errors import InvalidInput
from ._files import write_new
from .config import NodeBudget, node_config_text
from .roster import NODE_DOMAIN, Address, Roster, read_roster

__all__ = ["make_network", "node_uri", "pack_node", "peer_name", "server_name"]

NODE_FILES = ("node.key", "node.crt", "ca.crt", "roster.toml", "node.toml", "run.toml")  # all that ever leaves a DIR
_URI = "skipring://node/"
_CLOCKS = timedelta(hours=1)  # how far the clocks of two machines may be apart when a certificate is new


def require_cryptography() -> None:
    """Say how to install what certificates need, if it is not there."""
    try:
        import cryptography  # noqa: F401
    except ImportError:
        raise InvalidInput.because(
            "FEATURE", "certificates", "needs cryptography: pip install skipring[network]"
        ) from None


def node_uri(name: str) -> str:
    """Return the URI that a node's certificate is bound to.

    >>> node_uri("clinic-3")
    'skipring://node/clinic-3'
    """
    return _URI + name


def server_name(name: str) -> str:
    """Return the host name that TLS must find in a node's certificate, wherever the node is reached.

    A connection that only checks the address could end at another node of the same host.

    >>> server_name("clinic-3")
    'clinic-3.node.skipring'
    """
    return name + NODE_DOMAIN


def peer_name(certificate_der: bytes, roster: Roster, *, now: datetime | None = None) -> str:
    """Return the name of the node at the other end of a connection, or refuse it and say why.

    TLS has checked that the certificate is signed by the authority and that the peer has its key. Here, its name
    must be in the roster, with the fingerprint of this very certificate, and today must be one of its days.
    """
    require_cryptography()
    from . import _certificates as known  # an extra

    given = hashlib.sha256(certificate_der).hexdigest()
    found = known.certificate(certificate_der)
    if found is None:
        raise InvalidInput.because("certificate", given[:16], "is not a certificate")
    uris = known.uris_of(found)
    if len(uris) != 1 or not uris[0].startswith(_URI):
        raise InvalidInput.because("certificate", given[:16], "is bound to no node's name")
    name = uris[0].removeprefix(_URI)
    if name not in roster.names:
        raise InvalidInput.because("certificate", given[:16], f"unknown: {name[:63]!r} is no node of the roster")
    if roster.fingerprints[roster.index(name)] != given:
        raise InvalidInput.because("certificate", given[:16], f"is not the one that the roster has for node {name}")
    if known.common_names_of(found) != [name]:
        raise InvalidInput.because("certificate", given[:16], f"wrong name: its subject is not node {name}")
    moment = now if now is not None else datetime.now(UTC)
    if moment > found.not_valid_after_utc:
        raise InvalidInput.because("certificate", name, f"expired on {found.not_valid_after_utc:%Y-%m-%d}")
    if moment < found.not_valid_before_utc:
        raise InvalidInput.because("certificate", name, f"is not valid before {found.not_valid_before_utc:%Y-%m-%d}")
    return name


def make_network(
    folder: str | Path,
    names: Sequence[str],
    addresses: Sequence[Address],
    *,
    days: int = 365,
    run: bytes | None = None,
    delay: str | None = None,
    budget: NodeBudget | None = None,
    data: Mapping[str, Path] | None = None,
) -> Roster:
    """Make an authority and one folder per node; the folder is there with everything in it, or not at all.

    Whoever has `ca/ca.key` can make itself any node's certificate: keep it offline, or delete it once all nodes have
    theirs. It is not encrypted. With a `delay`, nodes are late on purpose, by this law. A `budget` is
    written into the settings of every node, whose owner may change it. `data` are the nodes' own files, by their names.
    """
    if not 1 <= days <= 36500:
        raise InvalidInput("days", days, "from 1 to 36500")
    given, folder = folder, Path(os.path.abspath(folder))
    if os.path.lexists(folder):
        raise InvalidInput.because("DIR", given, "exists already; a network is never overwritten")
    require_cryptography()
    try:
        draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    except OSError as error:
        raise InvalidInput.because("DIR", given, f"cannot be written: {error.strerror}") from error
    try:
        roster = _fill(draft, names, addresses, days=days, run=run, delay=delay, budget=budget, data=data or {})
        draft.rename(folder)
    except OSError as error:
        raise InvalidInput.because("DIR", given, f"cannot be written: {error.strerror}") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)  # after the rename there is nothing left to remove
    return roster


def _fill(
    folder: Path,
    names: Sequence[str],
    addresses: Sequence[Address],
    *,
    days: int,
    run: bytes | None,
    delay: str | None,
    budget: NodeBudget | None,
    data: Mapping[str, Path],
) -> Roster:
    from . import _certificates as made  # an extra

    now = datetime.now(UTC).replace(microsecond=0)
    begin, end = now - _CLOCKS, now + timedelta(days=days)
    authority = made.new_authority(begin, end)
    issued = [
        made.issue(authority, name, (server_name(name), address.host), node_uri(name), begin, end)
        for name, address in zip(names, addresses, strict=True)
    ]
    roster = Roster(tuple(names), tuple(addresses), tuple(made.fingerprint_of(one) for _, one in issued))
    public = {"ca.crt": made.certificate_pem(authority.certificate), "roster.toml": roster.to_toml().encode()}
    if run is not None:
        public["run.toml"] = run
    _write_folder(folder, {name: text for name, text in public.items() if name != "ca.crt"}, {})
    _write_folder(folder / "ca", {"ca.crt": public["ca.crt"]}, {"ca.key": made.key_pem(authority.key)})
    for name, address, (key, certificate) in zip(names, addresses, issued, strict=True):
        config = node_config_text(
            name, address, with_run=run is not None, delay=delay, budget=budget, data=data.get(name)
        ).encode()
        own = public | {"node.crt": made.certificate_pem(certificate), "node.toml": config}
        _write_folder(folder / name, own, {"node.key": made.key_pem(key)})
    return roster


def _write_folder(folder: Path, public: dict[str, bytes], secret: dict[str, bytes]) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    for name, content in public.items():
        write_new(folder / name, content, 0o644)
    for name, content in secret.items():
        write_new(folder / name, content, 0o600)


def pack_node(folder: str | Path, name: str, out: str | Path) -> tuple[str, ...]:
    """Write what a node's owner needs into one archive, and return the names of the files in it.

    Only that node's own files are packed, never the authority's key or another node's, and only if nothing is wrong
    with them. The same files give the same bytes.
    """
    require_cryptography()
    from .checks import check_node  # it needs this file, and the extra

    node = Path(folder) / name
    out = Path(out)
    roster = read_roster(Path(folder) / "roster.toml")
    roster.index(name)
    problems = list(check_node(node, expected=name).problems)
    if not problems and read_roster(node / "roster.toml") != roster:
        problems = ["its roster.toml is not that of the network"]
    if problems:
        raise InvalidInput.because("NODE", name, f"is not packed: {problems[0]}")
    contents = {file: (node / file).read_bytes() for file in NODE_FILES if (node / file).is_file()}
    try:
        write_new(out, _archive(name, contents), 0o600)
    except FileExistsError:
        raise InvalidInput.because("out", out, "exists already") from None
    except OSError as error:
        raise InvalidInput.because("out", out, f"cannot be written: {error.strerror}") from error
    return tuple(contents)


def _archive(name: str, contents: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with (
        gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as squeezed,
        tarfile.open(fileobj=squeezed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        top = tarfile.TarInfo(name)
        top.type, top.mode = tarfile.DIRTYPE, 0o700
        archive.addfile(top)
        for file, content in sorted(contents.items()):
            entry = tarfile.TarInfo(f"{name}/{file}")
            entry.size, entry.mode = len(content), 0o600 if file == "node.key" else 0o644
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()
