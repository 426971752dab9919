"""A user's own table: CSV, Parquet or NPZ, checked value by value."""

from __future__ import annotations

import csv
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Floats, Ints
from .._numbers import is_number
from ..errors import InvalidInput
from .ids import require_one_spelling
from .schema import MISSING_WORDS
from .sources import Dataset, first_not_finite, not_a_table, read_arrays

Values = NDArray[Any]
_MOST_CLASSES = 100  # whole numbers with more different values than this are amounts, not classes
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


class _Source(NamedTuple):
    """The file, and the columns that the user asked for: "label", and possibly "node" and "person"."""

    path: Path
    asked: dict[str, str]
    parameter: str = "path"

    def refuse(self, reason: str) -> NoReturn:
        raise InvalidInput.because(self.parameter, self.path, reason)

    def refuse_value(self, column: str, where: str, value: object, reason: str) -> NoReturn:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        self.refuse(f"column {column!r}, {where}: {shown} {reason}")

    def feature_columns(self, columns: list[str], words: str = "column") -> list[int]:
        """Return the positions of the features, once every column can be told from the others."""
        earlier = dict[str, str]()  # which option has asked for a column
        for option, wanted in self.asked.items():
            if wanted not in columns:
                there = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
                raise InvalidInput.because(option, wanted, f"{self.path.name} has no such {words}; it has {there}")
            if wanted in earlier:
                raise InvalidInput(option, wanted, f"another column than the {earlier[wanted]}'s")
            earlier[wanted] = option
        if "" in columns:
            self.refuse(f"column {columns.index('') + 1} has no name; leave a row index out of the file")
        if twice := [name for name, count in Counter(columns).items() if count > 1]:
            self.refuse(f"two columns are called {twice[0]!r}")
        features = [at for at, name in enumerate(columns) if name not in earlier]
        if not features:
            self.refuse("it has no feature columns beside the label")
        return features


def _row(row: int) -> str:
    return f"row {row + 1}"


class _Table(NamedTuple):
    features: Floats
    names: list[str]
    asked: dict[str, Values]  # the label, the node and the person of each row: numbers or texts
    where: Callable[[int], str] = _row  # what a row is called in messages


def read_table(path: str | Path, *, label: str, node: str | None = None, person: str | None = None) -> Dataset:
    """Return the data set in a .csv, .parquet or .npz file: one row per example, one column for the label.

    `label` and `node` name the columns that hold the label and, if the rows belong to nodes already, the node;
    `person` names the one that says whose row it is. Names of nodes and persons are texts, compared exactly; two that
    differ but are the same number, such as 7 and 007, are refused. All other columns are features and must be numbers.
    An .npz file holds the arrays X (or features), y (or labels, or the one that `label` names) and possibly groups (or
    node).

    Text labels and whole numbers with few different values are classes, in sorted order; other numbers are amounts to
    predict, and `classes` stays empty. "Few" is two, or at most 100 as long as a class has two rows on average.
    """
    asked = {"label": label, "node": node, "person": person}
    source = _Source(Path(path), {option: column for option, column in asked.items() if column is not None})
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    reader = readers.get(source.path.suffix.lower())
    if reader is None:
        raise not_a_table("path", source.path, readers)
    if not source.path.is_file():
        source.refuse("there is no such file")
    return reader(source)


def from_arrays(
    X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, persons: ArrayLike | None = None
) -> Dataset:
    """Return rows, labels and, if known, the node and the person of each row as a data set.

    `read_table` says what becomes of labels.

    >>> from_arrays([[1.0], [2.0], [3.0]], ["ill", "well", "ill"], groups=["a", "a", "b"]).classes
    ('ill', 'well')
    """
    called = {"label": "y", "node": "groups", "person": "persons"}
    given = {name: np.asarray(v) for name, v in (("y", y), ("groups", groups), ("persons", persons)) if v is not None}
    source = _Source(Path("arrays"), {option: name for option, name in called.items() if name in given}, "X")
    return _dataset(source, _table_of_arrays(source, {"X": np.asarray(X), **given}, "X"))


def _table_of_arrays(source: _Source, arrays: Mapping[str, Values], x: str) -> _Table:
    features, asked = arrays[x], {option: arrays[name] for option, name in source.asked.items()}
    if features.ndim < 2 or (source.parameter == "X" and features.ndim > 2) or features.dtype.kind not in "biuf":
        source.refuse(f"{x} must be rows of numbers, not {features.dtype} of shape {features.shape}")
    for option, values in asked.items():
        if values.shape != features.shape[:1] or values.dtype.kind not in "biufU":
            wanted = f"{source.asked[option]} must be {len(features)} numbers or texts"
            source.refuse(f"{wanted}, not {values.dtype} of {values.shape}")
    features = features.reshape(len(features), -1).astype(np.float64)
    names = [str(name) for name in arrays.get("feature_names", np.empty(0)).ravel()]
    if len(names) != features.shape[1]:
        names = [f"{x}[{column}]" for column in range(features.shape[1])]
    return _Table(features, names, asked)


def _dataset(source: _Source, table: _Table) -> Dataset:
    rows = len(table.features)
    if rows < 2:
        source.refuse(f"at least 2 rows are needed, not {rows}")
    if bad := first_not_finite(table.features):
        source.refuse_value(table.names[bad[1]], table.where(bad[0]), table.features[bad], "is not a finite number")
    labels, classes = _labels(source, table)
    groups, group_names = _codes(source, table, "node")
    persons, person_names = _codes(source, table, "person")
    return Dataset(
        source.path.stem,
        table.features,
        labels,
        classes,
        tuple(table.names),
        groups,
        group_names,
        persons=persons,
        person_names=person_names,
    )


def _labels(source: _Source, table: _Table) -> tuple[Values, tuple[str, ...]]:
    values = _complete(source, table, "label", _as_numbers(table.asked["label"]))
    kinds, codes = np.unique(values, return_inverse=True)
    rows, count, called = len(values), len(kinds), f"the label {source.asked['label']!r}"
    if count == 1:
        source.refuse(f"{called} is {_spell(kinds[0])} in every row; there is nothing to learn")
    if values.dtype.kind == "f":
        whole = bool((kinds == np.floor(kinds)).all())
        if count > (max(2, min(_MOST_CLASSES, rows // 2)) if whole else 2):
            return values, ()
    elif count > max(2, rows // 2):
        source.refuse(f"{called} has {count} different texts in {rows} rows; classes must repeat")
    return codes.astype(np.int64), tuple(_spell(kind) for kind in kinds)


def _codes(source: _Source, table: _Table, option: str) -> tuple[Ints | None, tuple[str, ...]]:
    """Number the nodes, or the persons; None if there are none."""
    if option not in table.asked:
        return None, ()
    values = _complete(source, table, option, table.asked[option])
    # Only plain whole numbers are sorted as numbers: a code such as 007 is a text.
    if values.dtype.kind == "U" and all(_WHOLE.fullmatch(value) for value in values):
        values = values.astype(np.int64)
    names, codes = np.unique(values, return_inverse=True)
    if names.dtype.kind == "U":
        column = source.asked[option]  # an array is known by its own name
        parameter, shown = (column, "") if source.parameter == "X" else (option, column)
        require_one_spelling(parameter, shown, names.tolist())
    return codes.astype(np.int64), tuple(_spell(name) for name in names)


def _as_numbers(values: Values) -> Values:
    """Return text as numbers where all that is not missing reads as numbers; True and False stay text."""
    if values.dtype.kind in "biuf":
        return values.astype(str if values.dtype.kind == "b" else np.float64)
    texts = [value.strip() for value in values.tolist()]
    try:
        numbers = [float("nan") if text.lower() in MISSING_WORDS else float(text) for text in texts]
    except ValueError:
        return np.array(texts)
    # Words such as "none" alone are classes; among numbers they are holes.
    return np.array(numbers) if np.isfinite(numbers).any() else np.array(texts)


def _complete(source: _Source, table: _Table, option: str, values: Values) -> Values:
    bad = ~np.isfinite(values) if values.dtype.kind == "f" else values == "" if values.dtype.kind == "U" else []
    if np.any(bad):
        row = int(np.argmax(bad))
        source.refuse_value(source.asked[option], table.where(row), values[row], "is not a value; every row needs one")
    return values


def _spell(value: Any) -> str:
    return str(value.item()).removesuffix(".0") if isinstance(value, np.generic) else str(value)


def _read_csv(source: _Source) -> Dataset:
    try:
        with source.path.open(newline="", encoding="utf-8-sig") as file:
            table = _csv_table(source, csv.reader(file, strict=True))
    except UnicodeDecodeError:
        source.refuse("it is not text in UTF-8")
    except csv.Error as error:
        source.refuse(f"it is not a proper CSV file: {error}")
    except OSError as error:
        source.refuse(f"it cannot be read: {error.strerror}")
    return _dataset(source, table)


def _csv_table(source: _Source, reader: Any) -> _Table:
    lines: Iterator[list[str]] = (cells for cells in reader if any(cell.strip() for cell in cells))
    columns = [cell.strip() for cell in next(lines, [])]
    if not columns:
        source.refuse("it is empty")
    if all(is_number(cell) for cell in columns):
        source.refuse("its first line must name the columns")
    if len(columns) == 1 and re.search(r"[;\t|]", columns[0]):
        source.refuse(f"its columns must be separated by commas; the first line is {columns[0][:40]!r}")
    at = source.feature_columns(columns)
    asked = {option: columns.index(name) for option, name in source.asked.items()}
    # Flat arrays of doubles: lists of cells would take ten times the file's size.
    values, numbers = array("d"), array("q")
    texts = {option: list[str]() for option in asked}

    def where(row: int) -> str:
        return f"row {row + 1} (line {numbers[row]})"

    for cells in lines:
        numbers.append(reader.line_num)
        if len(cells) != len(columns):
            source.refuse(f"{where(len(numbers) - 1)} has {len(cells)} values for {len(columns)} columns")
        try:
            values.extend([float(cells[column]) for column in at])
        except ValueError:
            column = next(column for column in at if not is_number(cells[column]))
            source.refuse_value(columns[column], where(len(numbers) - 1), cells[column], "is not a number")
        for option, column in asked.items():
            texts[option].append(cells[column].strip())
    found = {option: np.array(each, dtype=str) for option, each in texts.items()}
    return _Table(np.array(values).reshape(-1, len(at)), [columns[column] for column in at], found, where)


def _read_parquet(source: _Source) -> Dataset:
    try:
        import pyarrow  # an optional extra
        from pyarrow import parquet
    except ImportError:
        source.refuse("Parquet files need pyarrow: pip install skipring[parquet]")
    try:
        table = parquet.ParquetFile(source.path).read()
    except (OSError, ValueError, pyarrow.ArrowException):
        source.refuse("it is not a readable Parquet file")
    # What pandas adds for a frame's index is no column of the user's.
    table = table.drop_columns([name for name in table.column_names if name.startswith("__index_level_")])
    names = [table.column_names[column] for column in source.feature_columns(table.column_names)]
    features = np.empty((table.num_rows, len(names)))
    for position, name in enumerate(names):
        values = _parquet_column(source, table, name)
        if len(values) and values.dtype.kind not in "biuf":
            source.refuse_value(name, _row(0), values[0], "is text, not a number")
        features[:, position] = values
    asked = {option: _parquet_column(source, table, name) for option, name in source.asked.items()}
    return _dataset(source, _Table(features, names, asked))


def _parquet_column(source: _Source, table: Any, name: str) -> Values:
    from pyarrow import float64, types  # an optional extra

    column = table.column(name)
    if column.null_count:
        row = int(np.argmax(column.is_null().to_numpy()))
        source.refuse_value(name, _row(row), None, "is not a value; every row needs one")
    if types.is_decimal(column.type):
        column = column.cast(float64())
    if types.is_integer(column.type) or types.is_floating(column.type) or types.is_boolean(column.type):
        return np.asarray(column.to_numpy())
    return np.array([str(value).strip() for value in column.to_pylist()], dtype=str)


def _read_npz(source: _Source) -> Dataset:
    try:
        arrays = read_arrays(source.path)
    except ValueError as error:
        source.refuse("its arrays must be numbers or text" if "pickle" in str(error) else str(error))
    usual = {"label": ("y", "labels"), "node": ("groups", "node")}
    asked = dict(source.asked)
    if asked["label"] in usual["label"] and asked["label"] not in arrays:
        asked["label"] = next((name for name in usual["label"] if name in arrays), asked["label"])
    if "node" not in asked and (found := [name for name in usual["node"] if name in arrays]):
        asked["node"] = found[0]
    x = "X" if "X" in arrays else "features"
    if x not in arrays:
        source.refuse(f"it has no array X or features; it has {', '.join(arrays)}")
    source = source._replace(asked=asked)
    source.feature_columns(list(arrays), "array")
    return _dataset(source, _table_of_arrays(source, arrays, x))
