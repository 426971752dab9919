"""Names of a room that are loaded when they are first used: a small command must not wait for large libraries."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazily"]


def lazily(room: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a room in which each of these names lives in the module beside it."""

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f".{homes[name]}", room), name)

    def names() -> list[str]:
        return sorted(sys.modules[room].__all__)

    return load, names
