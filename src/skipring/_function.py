"""Functions of a user's own, named as ``module:function`` in a run file."""

from __future__ import annotations

import importlib
import re
import sys
from importlib.machinery import BuiltinImporter, FrozenImporter
from pathlib import Path
from typing import Any

from .errors import InvalidInput

#: What such a name looks like.
IS_FUNCTION = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*", re.ASCII)


def made_by(key: str, name: str, what: str) -> Any:
    """Return what a function without arguments returns; one line that names `key` says why there is no such `what`."""
    found = function_of(key, name)
    try:
        return found()
    except Exception as error:  # so may a user's function
        raise InvalidInput.because(key, name, f"made no {what}: {error_line(error)}") from error


def function_of(key: str, name: str) -> Any:
    """Return the function of a name; one line that names `key` says why there is none."""
    if not IS_FUNCTION.fullmatch(name):
        raise InvalidInput(key, name, "module:function")
    where, _, function = name.partition(":")
    try:
        found = getattr(importlib.import_module(where), function)
    except Exception as error:  # a user's module may raise anything
        hint = "; the module must be installed, or its folder be in PYTHONPATH"
        raise InvalidInput.because(key, name, f"cannot be imported: {error_line(error)}{hint}") from error
    if not callable(found):
        raise InvalidInput.because(key, name, f"is no function, but {type(found).__name__}")
    return found


def file_of(name: str) -> Path | None:
    """Return the file that a function would be loaded from, without importing anything; None if there is none.

    >>> file_of("skipring.errors:InvalidInput").name
    'errors.py'
    """
    # The interpreter's own modules have no file.
    finders: list[Any] = [each for each in sys.meta_path if each not in (BuiltinImporter, FrozenImporter)]
    places: list[str] | None = None
    words, found = name.partition(":")[0].split("."), None
    for count in range(1, len(words) + 1):
        if count > 1 and not places:
            return None
        specs = (each.find_spec(".".join(words[:count]), places) for each in finders if hasattr(each, "find_spec"))
        found = next((spec for spec in specs if spec is not None), None)
        if found is None:
            return None
        places = list(found.submodule_search_locations or ())
    return Path(found.origin).absolute() if found is not None and found.has_location and found.origin else None


def error_line(error: BaseException) -> str:
    """Return the first line of an error, with its type."""
    first = (str(error).splitlines() or [""])[0]
    return f"{type(error).__name__}: {first}" if first else type(error).__name__
