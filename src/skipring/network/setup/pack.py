"""What is sent to a node's owner: the files of that node alone, in one archive."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path

from ...errors import InvalidInput
from .._files import write_new
from ..transport import read_roster, require_cryptography
from .update import UPDATE

__all__ = ["pack_node"]

#: All that ever leaves a network's folder.
_FILES = ("node.key", "node.crt", "ca.crt", "roster.toml", "node.toml", "run.toml", UPDATE)


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
    contents = {file: (node / file).read_bytes() for file in _FILES if (node / file).is_file()}
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
