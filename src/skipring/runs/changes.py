"""TOML that comes in: whole files, and single values that are changed on the way."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from ..errors import InvalidInput
from ..schedules import RIVALS, Laps

#: Two keys of which one may be given.
EITHER = (
    ("delay.timeout", "delay.skip"),
    ("delay.timeout", "laps.deadline"),
    ("delay.skip", "laps.deadline"),
    ("gossip.slots", "gossip.access"),
    ("model.classes", "model.label_bound"),
    ("privacy.noise_multiplier", "privacy.epsilon"),
)


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


def parse_change(change: str) -> tuple[str, Any]:
    """Return the key and the value of ``section.key=value``.

    The file of a schema is one where the command runs, if there is such a file; else it lies beside the run file.
    """
    key, separator, text = change.partition("=")
    if not separator or "." not in key:
        raise InvalidInput("set", change, "of the form section.key=value")
    name = key.strip()
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a word without quotes
    if name == "data.schema_file" and isinstance(value, str) and Path(value).is_file():
        value = str(Path(value).absolute())
    return name, value


def change_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Set ``section.key`` among a run file's values; of two values that exclude each other, the new one counts."""
    section, _, name = key.partition(".")
    table = values.setdefault(section, {})
    if not isinstance(table, dict):
        raise InvalidInput("set", f"{key}={value}", "about a section of the run file")
    for pair in EITHER:
        if key in pair:
            other, _, its = pair[1 - pair.index(key)].partition(".")
            if isinstance(values.get(other), dict):
                values[other].pop(its, None)
    table[name] = value


def change_schedule(values: dict[str, Any], name: object) -> None:
    """Leave out what only another schedule than this one reads: a file may be about several that are compared."""
    for section in RIVALS:
        if section != name:
            values.pop(section, None)
    if name == Laps.name and isinstance(values.get("schedule"), dict):
        for key in ("steps", "closing", "search"):
            values["schedule"].pop(key, None)
