"""The commands: thin layers over the rooms above; every one takes --json."""

from __future__ import annotations

from ._main import app, main

__all__ = ["app", "main"]
