"""Orders that took a while to find are kept in small files, where features are kept, too.

They are in the folder that SKIPRING_CACHE names (``off``: none are kept), or else in the user's folder for such files.
A file that is damaged is as good as none: it carries a digest, and is written under another name first.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from .._cache import cache_folder
from .._writing import write_file

_DIGEST = 32


def stored_order(key: str, length: int) -> list[int] | None:
    """Return the nodes that were kept under this key; None if there are none, or the file is damaged."""
    if (folder := cache_folder("orders")) is None:
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
    if (folder := cache_folder("orders")) is None:
        return
    body = np.array(nodes, dtype="<u2").tobytes()
    with suppress(OSError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_file(folder / key, body + hashlib.sha256(key.encode() + body).digest(), synced=False)
