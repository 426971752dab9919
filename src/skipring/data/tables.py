"""A user's own table: CSV, Parquet or NPZ, checked value by value."""

from __future__ import annotations

import csv
import re
from array import array
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._arrays import Floats, Ints
from .._numbers import is_number
from ..errors import InvalidInput
from .ids import require_one_spelling
from .sources import Dataset, first_not_finite, not_a_table, read_arrays

Values = NDArray[Any]
_MOST_CLASSES = 100  # whole numbers with more different values than this are amounts, not classes
_MISSING = {"", "na", "n/a", "nan", "null", "none", "?", "-"}
_WHOLE = re.compile(r"0|-?[1-9]\d{0,17}")


class _Source(NamedTuple):
    """The file, and the columns that the user asked for."""

    path: Path
    label: str
    node: str | None
    person: str | None = None
    parameter: str = "path"

    def refuse(self, reason: str) -> NoReturn:
        raise InvalidInput.because(self.parameter, self.path, reason)

    def refuse_value(self, column: str, where: str, value: object, reason: str) -> NoReturn:
        shown = repr(value.item() if isinstance(value, np.generic) else value)
        shown = shown if len(shown) <= 40 else shown[:37] + "..."
        self.refuse(f"column {column!r}, {where}: {shown} {reason}")

    def feature_columns(self, columns: list[str], words: str = "column") -> list[int]:
        """Return the positions of the features, once every column can be told from the others."""
        for option, wanted in (("label", self.label), ("node", self.node), ("person", self.person)):
            if wanted is not None and wanted not in columns:
                there = ", ".join(columns[:20]) + (", ..." if len(columns) > 20 else "")
                raise InvalidInput.because(option, wanted, f"{self.path.name} has no such {words}; it has {there}")
        if self.label == self.node:
            raise InvalidInput("node", self.node, "another column than the label's")
        if self.person is not None and self.person in (self.label, self.node):
            raise InvalidInput("person", self.person, "another column than the label's and the node's")
        if "" in columns:
            self.refuse(f"column {columns.index('') + 1} has no name; leave a row index out of the file")
        if twice := [name for name, count in Counter(columns).items() if count > 1]:
            self.refuse(f"two columns are called {twice[0]!r}")
        features = [at for at, name in enumerate(columns) if name not in (self.label, self.node, self.person)]
        if not features:
            self.refuse("it has no feature columns beside the label")
        return features


class _Table(NamedTuple):
    features: Floats
    names: list[str]
    label: Values  # numbers or text
    node: Values | None
    where: Callable[[int], str]  # what a row is called in messages
    person: Values | None = None


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
    source = _Source(Path(path), label, node, person)
    readers = {".csv": _read_csv, ".parquet": _read_parquet, ".npz": _read_npz}
    reader = readers.get(source.path.suffix.lower())
    if reader is None:
        raise not_a_table("path", source.path, readers)
    if not source.path.is_file():
        source.refuse("there is no such file")
    return _dataset(source, reader(source))


def from_arrays(
    X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, persons: ArrayLike | None = None
) -> Dataset:
    """Return rows, labels and, if known, the node and the person of each row as a data set.

    `read_table` says what becomes of labels.

    >>> from_arrays([[1.0], [2.0], [3.0]], ["ill", "well", "ill"], groups=["a", "a", "b"]).classes
    ('ill', 'well')
    """
    source = _Source(Path("arrays"), "y", None if groups is None else "groups", parameter="X")
    features, labels = np.asarray(X), np.asarray(y)
    nodes, whose = (None if given is None else np.asarray(given) for given in (groups, persons))
    if features.ndim != 2 or features.dtype.kind not in "biuf":
        source.refuse(f"must be rows of numbers, not {features.dtype} of shape {features.shape}")
    for name, values in (("y", labels), ("groups", nodes), ("persons", whose)):
        if values is not None and (values.shape != features.shape[:1] or values.dtype.kind not in "biufU"):
            source.refuse(f"{name} must be {len(features)} numbers or texts, not {values.dtype} of {values.shape}")
    names = [f"X[{column}]" for column in range(features.shape[1])]
    return _dataset(source, _Table(features.astype(np.float64), names, labels, nodes, _row, whose))


def _dataset(source: _Source, table: _Table) -> Dataset:
    rows = len(table.features)
    if rows < 2:
        source.refuse(f"at least 2 rows are needed, not {rows}")
    if bad := first_not_finite(table.features):
        source.refuse_value(table.names[bad[1]], table.where(bad[0]), table.features[bad], "is not a finite number")
    labels, classes = _labels(source, table)
    groups, group_names = _codes(source, "node", source.node, table.node, table.where)
    persons, person_names = _codes(source, "person", source.person, table.person, table.where)
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
    values = _complete(source, source.label, _as_numbers(table.label), table.where)
    kinds, codes = np.unique(values, return_inverse=True)
    rows, count = len(values), len(kinds)
    if count == 1:
        source.refuse(f"the label {source.label!r} is {_spell(kinds[0])} in every row; there is nothing to learn")
    if values.dtype.kind == "f":
        whole = bool((kinds == np.floor(kinds)).all())
        if count > (max(2, min(_MOST_CLASSES, rows // 2)) if whole else 2):
            return values, ()
    elif count > max(2, rows // 2):
        source.refuse(f"the label {source.label!r} has {count} different texts in {rows} rows; classes must repeat")
    return codes.astype(np.int64), tuple(_spell(kind) for kind in kinds)


def _codes(
    source: _Source, option: str, column: str | None, values: Values | None, where: Callable[[int], str]
) -> tuple[Ints | None, tuple[str, ...]]:
    """Number the nodes, or the persons, of a column (or of an array, which has its own name); None if there is none."""
    if values is None:
        return None, ()
    if column is None or source.parameter == "X":
        option, column = {"node": "groups", "person": "persons"}[option], ""
    values = _complete(source, column or option, values, where)
    # Only plain whole numbers are sorted as numbers: a code such as 007 is a text.
    if values.dtype.kind == "U" and all(_WHOLE.fullmatch(value) for value in values):
        values = values.astype(np.int64)
    names, codes = np.unique(values, return_inverse=True)
    if names.dtype.kind == "U":
        require_one_spelling(option, column, names.tolist())
    return codes.astype(np.int64), tuple(_spell(name) for name in names)


def _as_numbers(values: Values) -> Values:
    """Return text as numbers where all that is not missing reads as numbers; True and False stay text."""
    if values.dtype.kind in "biuf":
        return values.astype(str if values.dtype.kind == "b" else np.float64)
    texts = [value.strip() for value in values.tolist()]
    try:
        numbers = [float("nan") if text.lower() in _MISSING else float(text) for text in texts]
    except ValueError:
        return np.array(texts)
    # Words such as "none" alone are classes; among numbers they are holes.
    return np.array(numbers) if np.isfinite(numbers).any() else np.array(texts)


def _complete(source: _Source, column: str, values: Values, where: Callable[[int], str]) -> Values:
    bad = ~np.isfinite(values) if values.dtype.kind == "f" else values == "" if values.dtype.kind == "U" else []
    if np.any(bad):
        row = int(np.argmax(bad))
        source.refuse_value(column, where(row), values[row], "is not a value; every row needs one")
    return values


def _spell(value: Any) -> str:
    return str(value.item()).removesuffix(".0") if isinstance(value, np.generic) else str(value)


def _read_csv(source: _Source) -> _Table:
    try:
        with source.path.open(newline="", encoding="utf-8-sig") as file:
            return _csv_table(source, csv.reader(file, strict=True))
    except UnicodeDecodeError:
        source.refuse("it is not text in UTF-8")
    except csv.Error as error:
        source.refuse(f"it is not a proper CSV file: {error}")
    except OSError as error:
        source.refuse(f"it cannot be read: {error.strerror}")


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
    names = [columns[column] for column in at]
    label_at = columns.index(source.label)
    node_at = None if source.node is None else columns.index(source.node)
    person_at = None if source.person is None else columns.index(source.person)
    # Flat arrays of doubles: lists of cells would take ten times the file's size.
    values, numbers, labels = array("d"), array("q"), list[str]()
    nodes, persons = list[str](), list[str]()

    def where(row: int) -> str:
        return f"row {row + 1} (line {numbers[row]})"

    for cells in lines:
        numbers.append(reader.line_num)
        if len(cells) != len(columns):
            source.refuse(f"{where(len(labels))} has {len(cells)} values for {len(columns)} columns")
        try:
            values.extend([float(cells[column]) for column in at])
        except ValueError:
            column = next(column for column in at if not is_number(cells[column]))
            source.refuse_value(columns[column], where(len(labels)), cells[column], "is not a number")
        labels.append(cells[label_at].strip())
        if node_at is not None:
            nodes.append(cells[node_at].strip())
        if person_at is not None:
            persons.append(cells[person_at].strip())
    features = np.array(values).reshape(-1, len(at))
    node = None if node_at is None else np.array(nodes, dtype=str)
    person = None if person_at is None else np.array(persons, dtype=str)
    return _Table(features, names, np.array(labels, dtype=str), node, where, person)


def _row(row: int) -> str:
    return f"row {row + 1}"


def _read_parquet(source: _Source) -> _Table:
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
    at = source.feature_columns(table.column_names)
    names = [table.column_names[column] for column in at]
    features = np.empty((table.num_rows, len(at)))
    for position, name in enumerate(names):
        values = _parquet_column(source, table, name)
        if len(values) and values.dtype.kind not in "biuf":
            source.refuse_value(name, _row(0), values[0], "is text, not a number")
        features[:, position] = values
    node, person = (
        None if name is None else _parquet_column(source, table, name) for name in (source.node, source.person)
    )
    return _Table(features, names, _parquet_column(source, table, source.label), node, _row, person)


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


def _read_npz(source: _Source) -> _Table:
    try:
        arrays = read_arrays(source.path)
    except ValueError as error:
        source.refuse("its arrays must be numbers or text" if "pickle" in str(error) else str(error))

    def called(*names: str) -> str | None:
        return next((name for name in names if name in arrays), None)

    x = called("X", "features")
    label = called(source.label, *(("y", "labels") if source.label in ("y", "labels") else ()))
    node = called("groups", "node") if source.node is None else source.node
    if x is None:
        source.refuse(f"it has no array X or features; it has {', '.join(arrays)}")
    source._replace(label=label or source.label, node=node).feature_columns(list(arrays), "array")
    assert label is not None
    features, labels, nodes = arrays[x], arrays[label], None if node is None else arrays[node]
    persons = None if source.person is None else arrays[source.person]
    if features.ndim < 2 or features.dtype.kind not in "biuf":
        source.refuse(f"{x} must be rows of numbers, not {features.dtype} of shape {features.shape}")
    for name, values in ((label, labels), (node, nodes), (source.person, persons)):
        if values is not None and (values.shape != features.shape[:1] or values.dtype.kind not in "biufU"):
            source.refuse(f"{name} must be {len(features)} numbers or texts, not {values.dtype} of {values.shape}")
    features = features.reshape(len(features), -1).astype(np.float64)
    names = [str(name) for name in arrays.get("feature_names", np.empty(0)).ravel()]
    if len(names) != features.shape[1]:
        names = [f"{x}[{column}]" for column in range(features.shape[1])]
    return _Table(features, names, labels, nodes, _row, persons)
