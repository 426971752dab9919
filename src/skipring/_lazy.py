"""Names of a room that are loaded when they are first used: a small command must not wait for large libraries."""

from __future__ import annotations

import ast
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def lazily(room: str, door: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a room; what its file `door` imports for type checkers is loaded lazily.

    So each name stands once: which module it lives in is read from that import.
    """
    homes = names_in(door)

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        module = import_module(f".{homes[name] or name}", room)
        return getattr(module, name) if homes[name] else module

    return load, lambda: sorted(homes)


def names_in(door: str | Path) -> dict[str, str]:
    """Return the names that the file of a room imports from its own modules, each with its module; "" for a module."""
    body = ast.parse(Path(door).read_text(encoding="utf-8")).body
    body += [line for node in body if isinstance(node, ast.If) for line in node.body]
    imports = [node for node in body if isinstance(node, ast.ImportFrom) and node.level == 1]
    return {name.asname or name.name: node.module or "" for node in imports for name in node.names}
