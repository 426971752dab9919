"""Features that took a while are kept in files, which several processes read without a copy each.

They are in the folder that the environment variable SKIPRING_CACHE names, or else in the user's folder for such files;
``SKIPRING_CACHE=off`` keeps none. Only their owner may read them. A file is named by a digest of the rows and of how
they became features, and is written under another name first. So it is there as a whole or not at all. Its checksum is
looked at whenever it is read. The oldest are deleted where all of them together are larger than 16 GiB.
"""

from __future__ import annotations

import os
import shutil
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from ..._cache import cache_folder
from ..._writing import whole_file

Rows = NDArray[np.float32]
_MOST_BYTES = 16 << 30
_PIECE = 1 << 24
_CHECKSUM = 4
_FORGOTTEN = 86400.0  # seconds after which nobody is at work on a file any more


def kept_features(
    key: str, shape: tuple[int, int], parts: Callable[[], Iterator[Rows]], still_so: Callable[[Rows], bool]
) -> Rows | None:
    """Return the features under this key, mapped into memory, computed part by part if none are kept; None: nowhere to.

    What is kept counts only if it is `still_so`. Of several processes that want the same, one computes them, and the
    others wait for it.
    """
    if (folder := cache_folder("features")) is None:
        return None
    path = folder / f"{key}.npy"
    if (found := _read(path, shape)) is not None and still_so(found):
        return found
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if shutil.disk_usage(folder).free < 4 * shape[0] * shape[1] + (1 << 28):
            return None
        lock = path.with_suffix(".lock")
        with _alone(lock):
            if (found := _read(path, shape)) is not None and still_so(found):
                return found
            with whole_file(path, mode=0o600) as file:
                _write(file, shape, parts())
            _make_room(folder, key)
            with suppress(OSError):
                lock.unlink()
    except OSError:
        return None
    return _read(path, shape)


def _read(path: Path, shape: tuple[int, int]) -> Rows | None:
    """Return the features in a file, mapped into memory; None if there are none, or damaged ones."""
    try:
        rows: Rows = np.load(path, mmap_mode="r", allow_pickle=False)
        with path.open("rb") as file:
            file.seek(-_CHECKSUM, os.SEEK_END)
            expected = int.from_bytes(file.read(), "little")
        if rows.shape != shape or rows.dtype != np.dtype("<f4") or _checksum(rows) != expected:
            return None
        if path.stat().st_size != getattr(rows, "offset", 0) + rows.nbytes + _CHECKSUM:
            return None
        os.utime(path)  # it was of use
    except (OSError, ValueError, EOFError):
        return None
    return np.asarray(rows)


def _write(file: IO[bytes], shape: tuple[int, int], parts: Iterator[Rows]) -> None:
    checksum = 0
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(file, header)
    for part in parts:
        plain = np.ascontiguousarray(part, "<f4")
        checksum = zlib.crc32(plain.data, checksum)
        file.write(plain.data)
    file.write(checksum.to_bytes(_CHECKSUM, "little"))


def _checksum(rows: Rows) -> int:
    checksum, step = 0, max(1, _PIECE // (4 * rows.shape[1]))
    for low in range(0, len(rows), step):
        checksum = zlib.crc32(rows[low : low + step].data, checksum)
    return checksum


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Wait until no other process has locked a file, which only its owner may read."""
    with open(path, "ab", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        try:
            import fcntl
        except ImportError:  # without it, two processes may compute the same
            pass
        else:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _make_room(folder: Path, key: str) -> None:
    """Delete what was not of use for longest, until the rest is not too large, and what was never finished."""
    with suppress(OSError):
        for path in folder.glob("*.part"):
            if time.time() - path.stat().st_mtime > _FORGOTTEN:
                path.unlink()
        found = [(path.stat(), path) for path in folder.glob("*.npy")]
        total = 0
        for facts, path in sorted(found, key=lambda one: one[0].st_mtime, reverse=True):
            total += facts.st_size
            if total > _MOST_BYTES and path.stem != key:
                path.unlink()
