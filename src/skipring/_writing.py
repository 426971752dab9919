"""Writing files: each is there whole, or not at all, and what was there before stays until then."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: str | Path, *, mode: int = 0o666, synced: bool = True) -> Iterator[BinaryIO]:
    """Write a file that takes its place once the block ends, on the disk itself; if the block fails, nothing changes.

    At no moment has anybody more rights to it than `mode` gives. What can be computed again need not be `synced`: that
    takes milliseconds, and after a power cut the file may be empty.
    """
    path = Path(path)
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        if synced:
            _sync(draft)
        draft.replace(path)
        if synced:
            sync_folder(path.parent)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


def write_file(path: str | Path, content: bytes | str, *, mode: int = 0o666, synced: bool = True) -> None:
    """Write all of a file at once, as `whole_file` does."""
    with whole_file(path, mode=mode, synced=synced) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def sync_folder(path: Path) -> None:
    """See to it that the names in a folder are on the disk itself."""
    _sync(path)


def _sync(path: Path) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
