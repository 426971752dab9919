"""Orders that took a while to find are kept in small files, where features are kept, too.

They are in the folder that SKIPRING_CACHE names (``off``: none are kept), or else in the user's folder for such files.
A file that is damaged is as good as none: it carries a digest, and is written under another name first.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from .._writing import write_file

_DIGEST = 32


def _folder() -> Path | None:
    if asked := os.environ.get("SKIPRING_CACHE", ""):
        return None if asked == "off" else Path(asked) / "orders"
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home has no such folder either
        return None
    usual = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}.get(sys.platform)
    return (usual or Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")) / "skipring" / "orders"


def stored_order(key: str, length: int) -> list[int] | None:
    """Return the nodes that were kept under this key; None if there are none, or the file is damaged."""
    if (folder := _folder()) is None:
        return None
    try:
        content = (folder / key).read_bytes()
    except OSError:
        return None
    body = content[:-_DIGEST]
    if len(body) != 2 * length or hashlib.sha256(key.encode() + body).digest() != content[-_DIGEST:]:
        return None
    return [int(node) for node in np.frombuffer(body, dtype="<u2")]


def store_order(key: str, nodes: Sequence[int]) -> None:
    """Keep nodes under a key, where that is possible."""
    if (folder := _folder()) is None:
        return
    body = np.array(nodes, dtype="<u2").tobytes()
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / key, body + hashlib.sha256(key.encode() + body).digest(), synced=False)
