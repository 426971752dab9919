"""What the columns of a table mean: agreed on beforehand, the same at every node, and read off nobody's rows.

A number has a range that it is clipped to, and becomes one number from -1 to 1. A word has categories, and becomes a
number for each of them (two categories: -1 and 1). All rows are divided by one constant, the largest norm that the
schema allows, so that no row is longer than 1 whatever it says.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, quoted_list

Role = Literal["feature", "label", "person", "node", "ignore"]

#: Texts that stand for a value that is not there, in any case, unless they are one of the column's categories.
MISSING_WORDS = ("", "na", "n/a", "nan", "null", "none", "?", "-")
#: A missing value becomes 0, and a column of its own says so.
INDICATOR = "indicator"
#: Any two categories are then 2 apart, as -1 and 1 are.
_APART = math.sqrt(2.0)
#: Rows are kept in single precision, whose rounding must not make one longer than 1.
_ROUNDED = 1.0 + 2.0**-20
_ROLES: tuple[Role, ...] = ("label", "person", "node", "ignore")
_KEYS = ("name", "range", "categories", "missing", *_ROLES)


@dataclass(frozen=True)
class Column:
    """One column: what it is for, and which values it has.

    `range` is (low, high) for numbers; `categories` are names, each with the texts that mean it. `missing` is None (a
    missing value is refused), INDICATOR, or the number or category that stands for it.
    """

    name: str
    role: Role = "feature"
    range: tuple[float, float] | None = None
    categories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    missing: str | float | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the categories."""
        return tuple(name for name, _ in self.categories)

    @cached_property
    def meanings(self) -> dict[str, int]:
        """The number of the category that each text means."""
        return {text: number for number, (_, texts) in enumerate(self.categories) for text in texts}

    @property
    def square(self) -> float:
        """The most that it adds to the square of a row's norm, before rows are divided by a constant."""
        return 2.0 if len(self.categories) > 2 else 1.0

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What it becomes, number by number."""
        own = tuple(f"{self.name}={name}" for name in self.names) if len(self.categories) > 2 else (self.name,)
        return (*own, f"{self.name} is missing") if self.missing == INDICATOR else own

    def encode(self, values: NDArray[Any], out: NDArray[Any]) -> None:
        """Write what values become into columns of `out`: numbers (NaN: missing), or categories (-1: missing)."""
        if self.range is not None:
            low, high = self.range
            gone = np.isnan(values)
            within = (2.0 * np.clip(values, low, high) - low - high) / (high - low)
            # Of a range that is narrow for the size of its numbers, rounding alone would lead out of -1 to 1.
            out[:, 0] = np.where(gone, 0.0, np.clip(within, -1.0, 1.0))
        elif len(self.categories) > 2:
            gone = values < 0
            for number in range(len(self.categories)):
                out[:, number] = np.where(values == number, _APART, 0.0)
        else:
            gone = values < 0
            out[:, 0] = np.where(gone, 0.0, 2.0 * values - 1.0)
        if self.missing == INDICATOR:
            out[:, -1] = np.where(gone, math.sqrt(self.square), 0.0)

    def to_values(self) -> dict[str, Any]:
        """Return it as a table of a run file says it."""
        values: dict[str, Any] = {"name": self.name}
        if self.role != "feature":
            values[self.role] = True
        if self.range is not None:
            values["range"] = list(self.range)
        if self.categories:
            simple = all(texts == (name,) for name, texts in self.categories)
            values["categories"] = list(self.names) if simple else {name: list(t) for name, t in self.categories}
        if self.missing is not None:
            values["missing"] = self.missing
        return values


@dataclass(frozen=True)
class Schema:
    """All columns of a table, in the order in which a model sees them.

    >>> ill = {"name": "ill", "label": True, "categories": ["no", "yes"]}
    >>> schema = Schema.of([{"name": "age", "range": [20, 80]}, ill])
    >>> schema.feature_names, schema.classes
    (('age',), ('no', 'yes'))
    """

    columns: tuple[Column, ...]
    #: What refusals call it, and what they advise.
    called: ClassVar[str] = "schema"
    remedy: ClassVar[str] = "say ignore = true if it is not used"

    @classmethod
    def of(cls, entries: Sequence[Mapping[str, Any]]) -> Schema:
        """Return the schema that `[[column]]` entries describe; one line names the first that is wrong."""
        columns = tuple(_column(number, entry) for number, entry in enumerate(entries, start=1))
        seen: set[str] = set()
        for column in columns:
            if column.name in seen:
                raise InvalidInput.because("[[column]]", column.name, "stands in the schema twice")
            seen.add(column.name)
        for role in ("label", "person", "node"):
            if len(found := [column.name for column in columns if column.role == role]) > 1:
                raise InvalidInput.because("[[column]]", found[1], f"is the second {role}; {found[0]} is one already")
        schema = cls(columns)
        if schema.label is None:
            raise InvalidInput.because("[[column]]", "without a label", "say which column is the label: label = true")
        if not schema.features:
            raise InvalidInput.because(
                "[[column]]", schema.label.name, "is the only one; there is nothing to learn from"
            )
        return schema

    def _with(self, role: Role) -> Column | None:
        return next((column for column in self.columns if column.role == role), None)

    @property
    def label(self) -> Column | None:
        """The column that is to be predicted."""
        return self._with("label")

    @property
    def person(self) -> Column | None:
        """The column that says whose a row is."""
        return self._with("person")

    @property
    def node(self) -> Column | None:
        """The column that says which node a row belongs to."""
        return self._with("node")

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns that a model sees."""
        return tuple(column for column in self.columns if column.role == "feature")

    @property
    def feature_names(self) -> tuple[str, ...]:
        """What a model sees, number by number."""
        return tuple(name for column in self.features for name in column.feature_names)

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty if the label is a number."""
        return () if self.label is None else self.label.names

    @property
    def label_bound(self) -> float | None:
        """The most that a label is away from the middle of its range; None where there are classes."""
        if self.label is None or self.label.range is None:
            return None
        low, high = self.label.range
        return 0.5 * (high - low)

    @property
    def label_middle(self) -> float:
        """What is taken off every label that is a number: the middle of its range."""
        return 0.0 if self.label is None or self.label.range is None else 0.5 * sum(self.label.range)

    @property
    def longest(self) -> float:
        """The constant that rows are divided by: no row can be longer, whatever it says."""
        return math.sqrt(sum(column.square for column in self.features))

    def encode(self, values: Mapping[str, NDArray[Any]], rows: int) -> NDArray[np.floating[Any]]:
        """Return what a model sees of rows, given the numbers or categories of each feature column."""
        found = self.exact(values, rows)
        found /= _ROUNDED
        return found.astype(np.float32)

    def exact(self, values: Mapping[str, NDArray[Any]], rows: int) -> NDArray[np.float64]:
        """Return the same in double precision."""
        found = np.empty((rows, len(self.feature_names)))
        first = 0
        for column in self.features:
            last = first + len(column.feature_names)
            column.encode(values[column.name], found[:, first:last])
            first = last
        found /= self.longest
        return found

    def require_columns(self, there: Iterable[str], file: str, *, labelled: bool = True) -> None:
        """Refuse a table that has a column which the schema does not know, or lacks one that it needs."""
        found = list(there)
        if twice := sorted({name for name in found if found.count(name) > 1}):
            raise InvalidInput.because("path", file, f"two columns are called {twice[0]!r}")
        known = [column.name for column in self.columns]
        needed = [column.name for column in self.columns if column.role in ("feature", *(["label"] * labelled))]
        lacking, unknown = [name for name in needed if name not in found], [n for n in found if n not in known]
        if lacking:
            perhaps = f"; it has {near!r}" if (near := nearest(lacking[0], unknown)) else ""
            reason = f"has no column {quoted_list(lacking, 5)}, which the {self.called} has{perhaps}"
            raise InvalidInput.because("path", file, reason)
        if unknown:
            reason = f"has a column {quoted_list(unknown, 5)}, which the {self.called} does not have; {self.remedy}"
            raise InvalidInput.because("path", file, reason)

    def to_values(self) -> list[dict[str, Any]]:
        """Return it as the `[[column]]` entries of a run file."""
        return [column.to_values() for column in self.columns]


@dataclass(frozen=True)
class PlainColumns(Schema):
    """Columns of numbers that are found by name and stay as they are: of a model that was trained without a schema."""

    called: ClassVar[str] = "model"
    remedy: ClassVar[str] = "leave it out"

    @property
    def label_middle(self) -> float:
        """Nothing: labels have no range."""
        return 0.0

    def encode(self, values: Mapping[str, NDArray[Any]], rows: int) -> NDArray[np.floating[Any]]:
        """Return the numbers themselves."""
        return np.column_stack([values[column.name] for column in self.features]).reshape(rows, -1)


def nearest(asked: str, known: Iterable[str]) -> str:
    """Return the text that is probably meant by another one; empty if none is near."""
    plain = {" ".join(text.split()).casefold(): text for text in known}
    near = difflib.get_close_matches(" ".join(asked.split()).casefold(), plain, n=1, cutoff=0.75)
    return plain[near[0]] if near else ""


def cell_text(value: Any) -> str:
    """Return a value as a text of a table: whole numbers without a point."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(round(value))
    return str(value).strip()


def _column(number: int, entry: Mapping[str, Any]) -> Column:
    """Return a column from one `[[column]]` entry."""
    name = entry.get("name")
    if not isinstance(name, str) or not name:
        raise InvalidInput.because("[[column]]", f"number {number}", "has no name; each [[column]] has a name")
    if name != name.strip():
        raise InvalidInput.because("[[column]]", repr(name), "names of columns have no blanks around them")
    key = f"column.{name}"
    if unknown := [each for each in entry if each not in _KEYS]:
        near = nearest(unknown[0], _KEYS)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(_KEYS)}"
        raise InvalidInput.because(f"{key}.{unknown[0]}", entry[unknown[0]], f"is not a key of a column; {hint}")
    for each in _ROLES:
        if not isinstance(entry.get(each, False), bool):
            raise InvalidInput(f"{key}.{each}", entry[each], "true or false")
    roles = [role for role in _ROLES if entry.get(role)]
    if len(roles) > 1:
        raise InvalidInput.because(f"{key}.{roles[1]}", True, f"a column is either {roles[0]} or {roles[1]}")
    role: Role = roles[0] if roles else "feature"
    valued = role in ("feature", "label")
    given = [each for each in ("range", "categories", "missing") if each in entry]
    if not valued and given:
        raise InvalidInput.because(f"{key}.{given[0]}", entry[given[0]], f"a column that is {role} has none")
    if valued and ("range" in entry) == ("categories" in entry):
        said = "both" if "range" in entry else "neither"
        raise InvalidInput.because(key, said, "give either range = [low, high] or categories = [...]")
    limits = _range(key, entry["range"]) if "range" in entry else None
    categories = _categories(key, entry["categories"]) if "categories" in entry else ()
    column = Column(name, role, limits, categories)
    if "missing" not in entry or entry["missing"] == "refuse":
        return column
    if role == "label":
        raise InvalidInput.because(f"{key}.missing", entry["missing"], "a row without a label cannot be learnt from")
    return Column(name, role, limits, categories, _missing(key, column, entry["missing"]))


def _range(key: str, given: Any) -> tuple[float, float]:
    numbers = [_number(x) for x in given] if isinstance(given, list | tuple) else []
    low, high = numbers if len(numbers) == 2 else (math.nan, math.nan)
    # As doubles: whole numbers may be so large that two of them become the same one.
    if not low < high:
        raise InvalidInput(f"{key}.range", given, "two numbers, [low, high], the first below the second")
    if not math.isfinite(2.0 * (abs(low) + abs(high))):
        raise InvalidInput(f"{key}.range", given, "two numbers, [low, high], whose distance does not overflow")
    return low, high


def _number(given: Any) -> float:
    """Return a number as a double, infinity if it is too large for one; NaN for anything else."""
    if isinstance(given, bool) or not isinstance(given, int | float):
        return math.nan
    try:
        return float(given)
    except OverflowError:
        return math.inf if given > 0 else -math.inf


def _categories(key: str, given: Any) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return categories from a list of texts, or from a table of names with the texts that mean each."""
    if isinstance(given, Mapping):
        listed = [(str(name), v if isinstance(v, list | tuple) else [v]) for name, v in given.items()]
    else:
        listed = [(cell_text(each), [each]) for each in given] if isinstance(given, list | tuple) else []
    nested = any(isinstance(x, list | tuple | Mapping) for _, each in listed for x in each)
    if nested or len(listed) < 2 or not all(each for _, each in listed):
        allowed = 'a list of at least two texts, or a table such as {no = ["0"], yes = ["1", "2"]}'
        raise InvalidInput(f"{key}.categories", given, allowed)
    pairs = [(name, tuple(map(cell_text, each))) for name, each in listed]
    texts = [text for _, each in pairs for text in each]
    if twice := sorted({text for text in texts if texts.count(text) > 1}):
        raise InvalidInput.because(f"{key}.categories", twice[0], "stands there twice")
    return tuple(pairs)


def _missing(key: str, column: Column, given: Any) -> str | float:
    if given == INDICATOR:
        return INDICATOR
    if column.range is not None:
        if not math.isfinite(number := _number(given)):
            raise InvalidInput(f"{key}.missing", given, "refuse, indicator, or the number that stands for it")
        return number
    if (text := cell_text(given)) not in column.meanings:
        raise InvalidInput(f"{key}.missing", given, f"refuse, indicator, or one of {quoted_list(column.meanings)}")
    return text
