"""Where files are kept that took a while to compute, and can be computed again."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def cache_folder(what: str) -> Path | None:
    """Return the folder of such files of one kind, which need not exist yet; None if none are kept.

    It is in the folder that the environment variable SKIPRING_CACHE names (``off``: none), or else in the user's own.
    """
    if asked := os.environ.get("SKIPRING_CACHE", ""):
        return None if asked == "off" else Path(asked) / what
    try:
        home = Path.home()
    except RuntimeError:  # a user without a home has no such folder either
        return None
    usual = {"darwin": home / "Library" / "Caches", "win32": home / "AppData" / "Local"}.get(sys.platform)
    return (usual or Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")) / "skipring" / what
