"""A first draft of a schema, from the rows of a table that is public or made up; a person edits it."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from .._numbers import is_number
from ..errors import InvalidInput, given_as
from .schema import INDICATOR, MISSING_WORDS, Column, Schema
from .schema_tables import delimiter_of, rows_of_file, table_blocks

#: A column with more different texts is nothing that a model could learn from.
_MOST_CATEGORIES = 30
#: Whole numbers with at most this many different values are taken for categories.
_FEW = 6
_ID = re.compile(r"(^|[ _.-])(id|nr|no|number|key|code|uuid|mrn|ssn)$|^(patient|person|subject|case)s?$", re.IGNORECASE)


_WHOLE = re.compile(r"^(-?\d+)[.,](?:0{1,2}|0{4,})$")


@dataclass(frozen=True)
class SchemaDraft:
    """A schema, and for each column a remark about what was guessed; `rows` is how many were looked at."""

    schema: Schema
    remarks: dict[str, str]
    rows: int


@dataclass
class _Seen:
    """What was seen of one column so far."""

    texts: dict[str, int] = field(default_factory=dict)  # the first ones, in their order, and how often
    missing: int = 0
    numbers: bool = True
    low: float = math.inf
    high: float = -math.inf


def draft_schema(
    path: str | Path, *, label: str | None, person: str | None = None, node: str | None = None
) -> SchemaDraft:
    """Return a draft from a table; its ranges and categories come from the rows, which nobody's epsilon then covers."""
    file = Path(path)
    with given_as("FILE", instead_of="path"):
        seen, rows = _seen(file)
    if not rows:
        raise InvalidInput.because("FILE", path, "has no rows")
    there = ", ".join(seen)
    if label is None:
        raise InvalidInput.because("label", "missing", f"say which column is to be predicted; {file.name} has {there}")
    for option, asked in (("label", label), ("person", person), ("node", node)):
        if asked is not None and asked not in seen:
            raise InvalidInput.because(option, asked, f"{file.name} has no such column; it has {there}")
    columns, remarks = [], {}
    for name, each in seen.items():
        role = {label: "label", person: "person", node: "node"}.get(name, "feature")
        column, remarks[name] = _drafted(name, role, each, rows)
        columns.append(column)
    if not any(column.role == "feature" for column in columns):
        why = "; ".join(f"{column.name}: {remarks[column.name]}" for column in columns if column.role == "ignore")
        raise InvalidInput.because("FILE", path, f"no column is left to learn from{f' ({why})' if why else ''}")
    schema = Schema.of([column.to_values() for column in columns])
    with given_as("FILE", instead_of="path"):
        for _ in rows_of_file(path, schema):  # one that cannot be read with its draft is refused now
            pass
    return SchemaDraft(schema, {name: remark for name, remark in remarks.items() if remark}, rows)


def _seen(file: Path) -> tuple[dict[str, _Seen], int]:
    """Return what was seen of each column of a file, and how many rows it has."""

    def check(names: Sequence[str]) -> None:
        if "" in names:
            reason = f"column {names.index('') + 1} has no name; leave a row index out of the file"
            raise InvalidInput.because("FILE", file, reason)
        if twice := [name for name in names if names.count(name) > 1]:
            raise InvalidInput.because("FILE", file, f"two columns are called {twice[0]!r}")

    seen: dict[str, _Seen] = {}
    rows = 0
    for names, block in table_blocks(file, delimiter_of(file), check):
        for place, name in enumerate(names):
            _look(seen.setdefault(name.strip(), _Seen()), block.column(place))
        rows += block.num_rows
    return seen, rows


def _look(seen: _Seen, cells: Any) -> None:
    for value in cells.to_pylist():
        said = None if value is None else str(value).strip()
        if said is None or said.lower() in MISSING_WORDS:
            seen.missing += 1
            continue
        text = _WHOLE.sub(r"\1", said)  # a table may have 1 and 1.0
        if text in seen.texts:
            seen.texts[text] += 1
        elif len(seen.texts) <= _MOST_CATEGORIES:
            seen.texts[text] = 1
        if seen.numbers:
            point = text.replace(",", ".") if text.count(",") == 1 and "." not in text else text
            if is_number(point) and math.isfinite(float(point)):
                number = float(point)
                seen.low, seen.high = min(seen.low, number), max(seen.high, number)
            else:
                seen.numbers = False


def _drafted(name: str, role: Any, seen: _Seen, rows: int) -> tuple[Column, str]:
    if role in ("person", "node"):
        return Column(name, role), ""
    missing = INDICATOR if seen.missing and role == "feature" else None
    gone = f"{seen.missing} of {rows} values are missing" if seen.missing else ""
    if role == "label" and seen.missing:
        raise InvalidInput.because("label", name, f"{gone}; every row needs a label: leave such rows out")

    def of_no_use(reason: str) -> tuple[Column, str]:
        if role == "label":
            raise InvalidInput.because("label", name, f"{reason}: nothing to learn")
        return Column(name, "ignore"), f"it {reason}"

    if not seen.texts:
        return of_no_use("is empty")
    everywhere = "wherever it says something" if seen.missing else "in every row"
    whole = seen.numbers and all(float(text.replace(",", ".")).is_integer() for text in seen.texts)
    few = len(seen.texts) <= _MOST_CATEGORIES
    if seen.numbers and not (whole and len(seen.texts) <= _FEW):
        if _ID.search(name) and role == "feature":
            return of_no_use("looks like an id; say person = true if it tells whose a row is")
        if seen.low == seen.high:
            return of_no_use(f"is {seen.low:g} {everywhere}")
        found = f"from {seen.low:g} to {seen.high:g} here"
        return Column(name, role, _around(seen.low, seen.high), (), missing), _joined(found, gone)
    if role == "label" and not few:
        reason = f"has more than {_MOST_CATEGORIES} different texts; a label has classes that repeat, or is a number"
        raise InvalidInput.because("label", name, reason)
    if not few or (role == "feature" and len(seen.texts) == rows > 2):
        return of_no_use("has too many different texts; say person = true if it tells whose a row is")
    # In the order of numbers or of the alphabet: that of the rows would tell something about them.
    texts = sorted(seen.texts, key=(lambda text: float(text.replace(",", "."))) if whole else str.casefold)
    if whole:
        texts = [f"{float(text.replace(',', '.')):.0f}" for text in texts]
    names = _one_meaning({text: seen.texts.get(text, 0) for text in texts})
    if len(names) < 2:
        return of_no_use(f"is {names[0][0]!r} {everywhere}" + (", but for capitals" if len(texts) > 1 else ""))
    several = "texts that differ in capitals only were taken for one" if len(names) < len(texts) else ""
    return Column(name, role, None, names, missing), _joined("those of this table; others may have more", several, gone)


def _one_meaning(texts: Mapping[str, int]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return categories, those that differ in capitals only as one, with the name that was seen most often."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(text.casefold(), []).append(text)
    return tuple((max(each, key=lambda text: texts[text]), tuple(each)) for each in alike.values())


def _joined(*parts: str) -> str:
    return "; ".join(part for part in parts if part)


def _around(low: float, high: float) -> tuple[float, float]:
    """Return round numbers around two others: of two digits, relative to what lies between them."""
    step = 10.0 ** math.floor(math.log10(high - low)) / 2.0
    wide = (math.floor(low / step) * step, math.ceil(high / step) * step)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return float(np.round(wide[0], digits)), float(np.round(wide[1], digits))
