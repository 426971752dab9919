"""Sweep files: a run file and a grid of changes to it, in TOML. Every combination becomes one simulation, a cell."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .._digest import digest
from .._version import RESULTS, __version__
from ..errors import InvalidInput
from ..runs import RunFile, change_value, parse_change, parse_run, read_toml

#: What results depend on beside a run file: another code version may give other numbers for the same seed.
CODE_VERSION = f"{__version__}+{RESULTS}"
_KINDS = {
    "name": (str, "a text in quotes"),
    "title": (str, "a text in quotes"),
    "base": (Mapping, "a table of sections, such as [base.data]"),
    "figure": (Mapping, "a table"),
}
_MOST_CELLS = 10_000
#: Longer values are cut in labels, which are for tables and file names.
_LABEL_LENGTH = 24


@dataclass(frozen=True, eq=False)
class Cell:
    """One simulation of a sweep: what the grid changed, the complete run file, and the key that its result is kept by.

    The same run file, data and version of skipring have the same key, in any sweep.
    """

    key: str
    label: str
    changes: Mapping[str, Any]
    run: RunFile

    def value(self, key: str) -> Any:
        """Return the value of ``section.key`` in this cell's run file."""
        section, _, name = key.partition(".")
        # Of a schema's file, the run keeps the columns and not the name.
        return getattr(getattr(self.run, section), name, self.changes.get(key))


@dataclass(frozen=True, eq=False)
class Sweep:
    """A grid of simulations. `figure` is whatever the file says about drawing them."""

    name: str
    title: str
    cells: tuple[Cell, ...]
    figure: Mapping[str, Any]

    @property
    def varied(self) -> tuple[str, ...]:
        """The keys of the grid that tell cells apart, in the order of the file."""
        keys = dict.fromkeys(key for cell in self.cells for key in cell.changes)
        return tuple(key for key in keys if len({json.dumps(cell.value(key)) for cell in self.cells}) > 1)

    @property
    def runs(self) -> int:
        """Number of runs of all cells together."""
        return sum(cell.run.simulation.runs for cell in self.cells)


def read_sweep(path: str | Path, *, changes: Sequence[str] = ()) -> Sweep:
    """Read a sweep file; `changes` (each ``section.key=value``) apply to every cell, whatever the grid says."""
    values = read_toml(path, if_missing="does not exist")
    try:
        return parse_sweep(values, name=Path(path).stem, changes=changes, folder=Path(path).parent)
    except InvalidInput as problem:
        if problem.parameter != "FILE":
            raise
        raise InvalidInput.because("FILE", path, problem.reason) from None


def parse_sweep(
    values: Mapping[str, Any], *, name: str, changes: Sequence[str] = (), folder: Path | None = None
) -> Sweep:
    """Check the values of a sweep file; `name` is used where they give none, files that they name lie in `folder`.

    >>> sweep = parse_sweep({"grid": {"delay.skip": [0.1, 0.5], "schedule.name": "ring"}}, name="skips")
    >>> [cell.label for cell in sweep.cells], sweep.varied
    (['skip-0.1_name-ring', 'skip-0.5_name-ring'], ('delay.skip',))
    """
    known = (*_KINDS, "grid")
    for key in values:
        if key not in known:
            hint = f"; a run file's sections go under base: [base.{key}]" if key in RunFile.model_fields else ""
            near = difflib.get_close_matches(key, known, n=1)
            meant = f"did you mean {near[0]}?" if near else f"a sweep file has {', '.join(known)}"
            raise InvalidInput.because("FILE", name, f"has the unknown key {key}; {meant}{hint}")
    for key, (kind, words) in _KINDS.items():
        if key in values and not isinstance(values[key], kind):
            raise InvalidInput.because("FILE", name, f"{key} must be {words}, not {values[key]}")
    found, base = values.get("name", name), values.get("base", {})
    if not re.fullmatch(r"[\w.-]*\w[\w.-]*", found):
        raise InvalidInput.because("FILE", name, f"the name {found!r} must be letters, digits, - _ and . only")
    if not all(isinstance(table, list if section == "column" else Mapping) for section, table in base.items()):
        raise InvalidInput.because("FILE", name, "base must hold the sections of a run file, such as [base.data]")
    combinations = _combinations(values.get("grid", {}), name)
    cells = _cells(base, combinations, [parse_change(change) for change in changes], folder)
    return Sweep(found, values.get("title", found), cells, values.get("figure", {}))


def _combinations(given: Any, name: str) -> list[dict[str, Any]]:
    """Return what each combination of values of the grid's tables changes."""
    tables = given if isinstance(given, list) else [given]
    if not all(isinstance(table, Mapping) for table in tables):
        raise InvalidInput.because("FILE", name, "grid must be a table: [[grid]]")
    grids = []
    for table in tables:
        # `delay.skip = 0.5` and `"delay.skip" = 0.5` are different TOML, but mean the same to people.
        flat = {
            (f"{key}.{inner}" if inner else key): value
            for key, entry in table.items()
            for inner, value in (entry.items() if isinstance(entry, Mapping) else [("", entry)])
        }
        for key, value in flat.items():
            if "." not in key:
                raise InvalidInput.because("FILE", name, f"{key} in the grid must be of the form section.key")
            if value == []:
                raise InvalidInput.because(key, "[]", "has no values in the grid")
        grids.append({key: value if isinstance(value, list) else [value] for key, value in flat.items()})
    if not any(grids):
        raise InvalidInput.because("FILE", name, "has no [[grid]]: for a single run use `skipring simulate`")
    count = sum(math.prod(map(len, grid.values())) for grid in grids)
    if count > _MOST_CELLS:
        raise InvalidInput.because("FILE", name, f"has {count} combinations; at most {_MOST_CELLS} are run")
    return [dict(zip(grid, each, strict=True)) for grid in grids for each in itertools.product(*grid.values())]


def _cells(
    base: Mapping[str, Any],
    combinations: Sequence[Mapping[str, Any]],
    changes: Sequence[tuple[str, Any]],
    folder: Path | None,
) -> tuple[Cell, ...]:
    short, fixed = _short_names(combinations), {key for key, _ in changes}
    digests: dict[str, str] = {}
    cells: dict[str, Cell] = {}
    labels: Counter[str] = Counter()
    for chosen in combinations:
        values = _changed(base, chosen.items())
        for key in chosen:
            if not _has(values, key):
                raise InvalidInput.because(key, chosen[key], "excludes another key of the same [[grid]]")
        complete = _changed(values, changes)
        run = _parse(complete, base, values, folder)
        kept = {key: value for key, value in chosen.items() if key not in fixed and _has(complete, key)}
        key = _key(run, digests)
        if key in cells:  # the same simulation, reached in two ways
            continue
        label = "_".join(f"{short[name]}-{_spelled(value)}" for name, value in kept.items()) or "base"
        labels[label] += 1
        if labels[label] > 1:  # values that differ only in what labels leave out
            label = f"{label}_{labels[label]}"
        cells[key] = Cell(key, label, kept, run)
    return tuple(cells.values())


def _changed(values: Mapping[str, Any], changes: Any) -> dict[str, Any]:
    copy = {section: table if isinstance(table, list) else dict(table) for section, table in values.items()}
    for key, value in changes:
        change_value(copy, key, value)
    return copy


def _has(values: Mapping[str, Any], key: str) -> bool:
    section, _, name = key.partition(".")
    return name in values.get(section, {})


def _parse(
    complete: Mapping[str, Any], base: Mapping[str, Any], with_grid: Mapping[str, Any], folder: Path | None
) -> RunFile:
    """Check a cell's run file; if something is wrong, say where it was written."""
    try:
        return parse_run(complete, folder=folder)
    except InvalidInput as problem:
        place = "in --set"
        for values, where in ((with_grid, "in the grid"), (base, "in the base")):
            try:
                parse_run(values, folder=folder)
            except InvalidInput as earlier:
                if earlier.parameter == problem.parameter:
                    place = where
        raise InvalidInput.because(problem.parameter, problem.given, f"{place}, {problem.reason}") from None


def _key(run: RunFile, digests: dict[str, str]) -> str:
    content: dict[str, Any] = {"run": run.model_dump(), "code": CODE_VERSION}
    # A file of the user's own may change under the same name, and a result of what it held before must not be reused.
    files = [run.data.path or "", *re.findall(r"empirical:\s*([^|]*[^|\s])", run.delay.law or "")]
    for file in filter(None, files):
        if file not in digests:
            digests[file] = _digest(file)
        content.setdefault("files", []).append(digests[file])
    return digest(content).hex()[:16]


def _digest(file: str) -> str:
    try:
        with Path(file).open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""  # the simulation says what is wrong with it


def _short_names(combinations: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the last part of each key, or all of it where two keys share their last part."""
    keys = dict.fromkeys(key for chosen in combinations for key in chosen)
    shared = Counter(key.rpartition(".")[2] for key in keys)
    return {key: last if shared[last := key.rpartition(".")[2]] == 1 else key for key in keys}


def _spelled(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value).replace("Infinity", "inf").removesuffix(".0")
    text = re.sub(r"[^\w.,:+-]+", "-", text)
    return text if len(text) <= _LABEL_LENGTH else text[: _LABEL_LENGTH - 1] + "~"
