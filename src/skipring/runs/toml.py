"""TOML: a file read with one line about what is wrong, and values as TOML writes them."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

from ..errors import InvalidInput

__all__ = ["read_toml", "toml_value"]


def read_toml(path: str | Path, *, if_missing: str) -> dict[str, Any]:
    """Read a TOML file; one line says what is wrong with it."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput.because("FILE", path, if_missing) from None
    except IsADirectoryError:
        inside = sorted(each.name for each in Path(path).glob("*.toml"))
        hint = f"; it has {', '.join(inside[:5])} in it" if inside else ""
        raise InvalidInput.because("FILE", path, f"is a folder, and not a file{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.because("FILE", path, f"cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and brackets in brackets
        raise InvalidInput.because("FILE", path, f"is not TOML: {error}") from None


def toml_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items()) + "}"
    return repr(value)
