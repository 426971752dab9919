"""Names of a room that are loaded when they are first used: a small command must not wait for large libraries."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any


def offered(source: str) -> dict[str, str]:
    """Return what a room's `__init__.py` offers: each name, and the module that is its home.

    >>> offered("from .law import Law as Law\\nif TYPE_CHECKING:\\n    from .drawn import draw as draw")
    {'Law': '.law', 'draw': '.drawn'}
    """
    imports = re.finditer(r"^ *from (\.[\w.]*) import (\w+) as \2$", source, re.MULTILINE)
    return {name: home for home, name in (found.groups() for found in imports)}


def lazily(room: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a room.

    A name stands once: in an import under `if TYPE_CHECKING`, which editors and type checkers read. When the name is
    first used, its module is loaded.
    """
    homes = offered(Path(sys.modules[room].__file__ or "").read_text(encoding="utf-8"))

    def load(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return import_module(f".{name}", room) if homes[name] == "." else getattr(import_module(homes[name], room), name)

    return load, lambda: sorted(homes)
