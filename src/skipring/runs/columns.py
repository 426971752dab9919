"""What the schema of a run file says to its other sections: label, node, person, classes, and that rows are scaled.

All of it is written into the values before they are checked, so that nodes agree on the schema and on what follows.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..data import Schema
from ..errors import InvalidInput

#: Which keys may name a file, and what such a value begins with.
_FILES = (
    ("data", "path", ""),
    ("delay", "law", "trace:"),
    ("compute", "law", "trace:"),
    ("network", "latency", "trace:"),
    ("stragglers", "availability", "trace:"),
)


def with_files_beside(values: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Return the values of a run file with the paths of files that lie beside it, and not where the command runs."""
    changed = dict(values)
    for section, key, mark in _FILES:
        table = changed.get(section)
        given = table.get(key) if isinstance(table, Mapping) else None
        if not isinstance(table, Mapping) or not isinstance(given, str) or not given.startswith(mark):
            continue
        path = given.removeprefix(mark).strip()
        if not Path(path).exists() and (folder / path).is_file():
            changed[section] = dict(table) | {key: f"{mark}{folder / path}"}
    return changed


def with_schema_file(values: dict[str, Any], folder: Path, read: Any) -> dict[str, Any]:
    """Return the values of a run file with the columns of the file that `data.schema_file` names, beside it."""
    data = values.get("data")
    if not isinstance(data, Mapping) or "schema_file" not in data:
        return values
    if "column" in values:
        reason = "the run file has [[column]] entries of its own; keep one of the two"
        raise InvalidInput.because("data.schema_file", data["schema_file"], reason)
    path = folder / str(data["schema_file"])
    try:
        found = read(path, if_missing="does not exist; `skipring schema` drafts one")
    except InvalidInput as problem:
        raise InvalidInput.because("data.schema_file", path, problem.reason) from None
    if set(found) != {"column"}:
        raise InvalidInput.because("data.schema_file", path, "holds [[column]] entries, and nothing else")
    kept = {key: value for key, value in data.items() if key != "schema_file"}
    return values | {"data": kept, "column": found["column"]}


def with_columns(values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the values of a run file with what its columns say; refuse what contradicts them."""
    entries = values.get("column")
    if entries is None:
        return values
    if not isinstance(entries, list) or not all(isinstance(entry, Mapping) for entry in entries):
        raise InvalidInput("column", type(entries).__name__, "tables: [[column]], then name = ... and what it means")
    schema = Schema.of(entries)
    said: dict[str, dict[str, Any]] = {
        "data": {"standardise": False, "unit_rows": False},
        "model": {"columns": len(schema.feature_names)},
    }
    for key, column in (("label", schema.label), ("node", schema.node), ("person", schema.person)):
        if column is not None:
            said["data"][key] = column.name
    if schema.classes:
        said["model"]["classes"] = list(schema.classes)
    else:
        said["model"]["label_bound"] = schema.label_bound
    changed = dict(values) | {"column": schema.to_values()}
    for section, keys in said.items():
        given = values.get(section, {})
        if not isinstance(given, Mapping):
            return values  # what is wrong with it is said elsewhere
        for key, value in keys.items():
            if key in given and given[key] is not None and given[key] != value:
                raise InvalidInput.because(f"{section}.{key}", given[key], f"the schema says {value}; leave it out")
        changed[section] = dict(given) | keys
    return changed
