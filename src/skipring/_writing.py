"""Writing files: each is there whole, or not at all, and what was there before stays until then."""

from __future__ import annotations

import csv
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from .errors import InvalidInput


@contextmanager
def whole_file(path: str | Path, *, mode: int = 0o666, synced: bool = True, new: bool = False) -> Iterator[BinaryIO]:
    """Write a file that takes its place once the block ends, on the disk itself; if the block fails, nothing changes.

    At no moment is more allowed with it than `mode` says. What can be computed again need not be `synced`: that
    takes milliseconds, and after a power cut the file may be empty. A `new` file takes the place of none: if there is
    one by then, that is a FileExistsError.
    """
    path = Path(path)
    if not new and path.exists() and not path.is_file():  # a terminal, a pipe, a folder
        with path.open("wb") as file:
            yield file
        return
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with open(draft, "xb", opener=lambda name, flags: os.open(name, flags, mode)) as file:
            yield file
        if synced:
            _sync(draft)
        if new:
            os.link(draft, path)
        else:
            draft.replace(path)
        if synced:
            sync_folder(path.parent)
    finally:
        draft.unlink(missing_ok=True)


def write_file(
    path: str | Path, content: bytes | str, *, mode: int = 0o666, synced: bool = True, new: bool = False
) -> None:
    """Write all of a file at once, as `whole_file` does."""
    with whole_file(path, mode=mode, synced=synced, new=new) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def write_output(path: Path, content: str, parameter: str = "out") -> None:
    """Write a text that the user has asked for; one line that names `parameter` says why it cannot be written."""
    with writing(parameter, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_file(path, content)


def write_csv(path: str | Path, rows: Iterable[Iterable[object]]) -> None:
    """Write a table that the user has asked for as ``out``, the names of its columns first."""
    with writing("out", path):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as whole, TextIOWrapper(whole, encoding="utf-8", newline="") as file:
            csv.writer(file).writerows(rows)


@contextmanager
def writing(parameter: str, path: str | Path, *, within: bool = False) -> Iterator[None]:
    """Refuse in one line a file that cannot be written, or a folder `within` which something cannot."""
    try:
        yield
    except OSError as error:
        what = f"{error.filename} " if within else ""
        raise InvalidInput.because(parameter, path, f"{what}cannot be written: {error.strerror}") from error


def sync_folder(path: Path) -> None:
    """See to it that the names in a folder are on the disk itself."""
    _sync(path)


def _sync(path: Path) -> None:
    place = os.open(path, os.O_RDONLY)
    try:
        os.fsync(place)
    finally:
        os.close(place)
