"""Tables that a schema describes: CSV with any delimiter, Parquet, or a frame, read a block of rows at a time."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, given_as
from .ids import require_one_spelling
from .schema import Column, Schema
from .sources import Dataset, not_a_table

DELIMITERS = (",", ";", "\t", "|")
#: How the names of files with tables end.
TABLES = (".csv", ".tsv", ".txt", ".parquet")
_BLOCK = 1 << 24
_ROWS = 1 << 16


class SchemaRows(NamedTuple):
    """Some rows as a model sees them, and what is known of each: label, person and node, where the table says so.

    `blank_label`: the table has a column for the label, in which it says nothing.
    """

    features: NDArray[np.floating[Any]]
    labels: NDArray[Any] | None
    persons: NDArray[np.str_] | None
    nodes: NDArray[np.str_] | None
    blank_label: bool = False


def read_with_schema(path: str | Path, schema: Schema, *, name: str | None = None) -> Dataset:
    """Return the rows of a CSV or Parquet file as a data set: columns by name, in any order, as the schema says."""
    parts = list(rows_of_file(path, schema))
    if (rows := sum(len(part.features) for part in parts)) < 2:
        raise InvalidInput.because("path", path, f"at least 2 rows are needed, not {rows}")
    return dataset_of_parts(Path(path).stem if name is None else name, parts, schema)


def dataset_of_parts(name: str, parts: Sequence[SchemaRows], schema: Schema) -> Dataset:
    """Return rows that a schema has encoded as a data set."""
    nodes = _codes("node", schema.node, [part.nodes for part in parts])
    persons = _codes("person", schema.person, [part.persons for part in parts])
    return Dataset(
        name,
        np.concatenate([part.features for part in parts]),
        np.concatenate([part.labels for part in parts if part.labels is not None]),
        schema.classes,
        schema.feature_names,
        *nodes,
        persons=persons[0],
        person_names=persons[1],
    )


def _codes(
    role: str, column: Column | None, parts: Sequence[NDArray[np.str_] | None]
) -> tuple[NDArray[np.int64] | None, tuple[str, ...]]:
    given = [part for part in parts if part is not None]
    if not given or column is None:
        return None, ()
    names, codes = np.unique(np.concatenate(given), return_inverse=True)
    require_one_spelling(role, column.name, names.tolist())
    return codes.astype(np.int64), tuple(map(str, names))


def rows_of_file(path: str | Path, schema: Schema, *, labelled: bool = True) -> Iterator[SchemaRows]:
    """Yield the rows of a CSV or Parquet file, block after block, so that a large file does not fill the memory.

    Without `labelled`, a file may lack the label: it has no such column, or one without any value in it.
    """
    delimiter = delimiter_of(Path(path), [column.name for column in schema.columns])

    def check(names: Sequence[str]) -> None:
        schema.require_columns(names, str(path), labelled=labelled)

    with closing(table_blocks(Path(path), delimiter, check)) as found:
        yield from _rows(found, schema, str(path), semicolons=delimiter == ";", labelled=labelled)


def rows_of_frame(frame: Any, schema: Schema) -> SchemaRows:
    """Return the rows of a frame (of pandas, polars or Arrow), or of a mapping from columns to values."""
    pa = arrow()
    try:
        if hasattr(frame, "to_arrow"):  # polars
            table = frame.to_arrow()
        elif isinstance(frame, Mapping):
            table = pa.table({str(name): pa.array(values, from_pandas=True) for name, values in frame.items()})
        elif isinstance(frame, pa.Table):
            table = frame
        else:
            table = pa.Table.from_pandas(frame, preserve_index=False)
    except (AttributeError, TypeError, ValueError, OverflowError, pa.ArrowException) as error:
        said = str(error).splitlines()[0]
        if isinstance(frame, Mapping):
            reason = f"columns that are lists of values, one for each row ({said})"
            raise InvalidInput("X", "a mapping", reason) from None
        raise InvalidInput("X", type(frame).__name__, f"a frame whose columns the schema names ({said})") from None
    with given_as("X", instead_of="path"):
        schema.require_columns([name.strip() for name in table.column_names], "frame", labelled=False)
        return next(_rows(iter([(table.column_names, table)]), schema, "frame", labelled=False))


def arrow() -> Any:
    """Return pyarrow, or say how to install it."""
    try:
        import pyarrow  # an optional extra: it reads tables far faster, and better, than we would
    except ImportError:
        reason = "is missing; tables with a schema are read by it: pip install skipring[tables]"
        raise InvalidInput.because("FEATURE", "pyarrow", reason) from None
    return pyarrow


Block = tuple[Sequence[str], Any]
#: Refuses a table by the names of its columns.
Check = Callable[[Sequence[str]], None]


def _rows(
    blocks: Iterator[Block], schema: Schema, file: str, *, labelled: bool, semicolons: bool = False
) -> Iterator[SchemaRows]:
    from ._cells import Cells  # needs pyarrow

    cells, first = Cells(file, semicolons=semicolons), 1
    kinds: dict[bool, int] = {}  # whether blocks have labels, and the first row of the first such block
    for names, block in blocks:
        at = {name.strip(): place for place, name in enumerate(names)}

        def column_of(name: str, at: dict[str, int] = at, block: Any = block) -> Any:
            found = block.column(at[name])
            return found.combine_chunks() if hasattr(found, "combine_chunks") else found

        def read(column: Column, column_of: Callable[[str], Any] = column_of, first: int = first) -> NDArray[Any]:
            kind = cells.numbers if column.range is not None else cells.categories
            return kind(column, column_of(column.name), first)

        values = {column.name: read(column) for column in schema.features}
        labels: NDArray[Any] | None = None
        label, blank = schema.label, False
        if label is not None and label.name in at:
            blank = not labelled and cells.are_blank(label, column_of(label.name))
            if block.num_rows:
                kinds.setdefault(blank, first)
            if len(kinds) > 1:  # who fills in a part of the labels has forgotten the others
                raise cells.no_label(label, kinds[True])
            labels = None if blank else read(label)
            if labels is not None and label.range is not None:
                bound = schema.label_bound or math.inf
                # Twice: rounding may lead the ends of a range out of the bound that the model has for labels.
                labels = np.clip(np.clip(labels, *label.range) - schema.label_middle, -bound, bound)
        persons, nodes = (
            None if who is None or who.name not in at else cells.names(who, column_of(who.name), first)
            for who in (schema.person, schema.node)
        )
        cells.end_block()
        yield SchemaRows(schema.encode(values, block.num_rows), labels, persons, nodes, blank)
        first += block.num_rows


def delimiter_of(path: Path, known: Sequence[str] = ()) -> str:
    """Return what separates the columns of a file: in CSV, what finds most (known) columns in its first line.

    Nothing does in a Parquet file. What is no table is refused.
    """
    if not path.is_file():
        reason = "is a folder, and not a file" if path.is_dir() else "there is no such file"
        raise InvalidInput.because("path", path, reason)
    if path.suffix.lower() not in TABLES:
        raise not_a_table("path", path, TABLES)
    if path.suffix.lower() == ".parquet":
        return ""
    heads = {}
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for mark in DELIMITERS:
                file.seek(0)
                heads[mark] = next(csv.reader(file, delimiter=mark), [])
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except (OSError, csv.Error) as error:
        raise InvalidInput.because("path", path, f"cannot be read: {error}") from None
    wanted = set(known)
    return max(DELIMITERS, key=lambda mark: (len(wanted & {cell.strip() for cell in heads[mark]}), len(heads[mark])))


def _not_utf8(path: Path) -> InvalidInput:
    return InvalidInput.because("path", path, "is not text in UTF-8; save it as UTF-8 (Excel: CSV UTF-8)")


def table_blocks(path: Path, delimiter: str, check: Check) -> Generator[Block, None, None]:
    """Return the blocks of a file, once its columns are checked."""
    return csv_blocks(path, delimiter, check) if delimiter else _parquet_blocks(path, check)


def csv_blocks(path: Path, delimiter: str, check: Check | None = None) -> Generator[Block, None, None]:
    """Yield the blocks of a CSV file, all cells as texts.

    Columns are checked before Arrow begins to read: a program that ends while it reads ahead is aborted.
    """
    pa = arrow()
    from pyarrow import csv as arrow_csv

    with path.open(newline="", encoding="utf-8-sig") as file:
        names = [cell.strip() for cell in next(csv.reader(file, delimiter=delimiter), [])]
    if not names or not any(names):
        raise InvalidInput.because("path", path, "is empty; its first line must name the columns")
    if check is not None:
        check(names)
    # By place: names may have blanks around them, and a name that stands there twice is refused by who knows why.
    places = [f"{place}" for place in range(len(names))]
    wrong: list[Any] = []

    def keep(row: Any) -> str:
        wrong.append(row)
        return "error"

    try:
        with arrow_csv.open_csv(
            path,
            read_options=arrow_csv.ReadOptions(block_size=_BLOCK, column_names=places, skip_rows_after_names=1),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter,
                newlines_in_values=True,
                invalid_row_handler=keep,
                ignore_empty_lines=len(names) > 1,  # of one column, an empty line is a row without a value
            ),
            convert_options=arrow_csv.ConvertOptions(
                column_types={place: pa.string() for place in places}, strings_can_be_null=False
            ),
        ) as reader:
            looked = False
            for block in reader:
                if not looked and _has_line_breaks(block):
                    looked = True
                    _require_closed_quotes(path, delimiter)
                yield names, block
    except pa.ArrowInvalid as error:
        if wrong:
            row = wrong[0]
            reason = f"a row has {row.actual_columns} values for {row.expected_columns} columns: {row.text[:60]!r}"
            raise InvalidInput.because("path", path, reason) from None
        if "UTF8" in str(error):
            raise _not_utf8(path) from None
        if "straddling" in str(error):  # one line without an end, or no text at all
            raise InvalidInput.because("path", path, "has no rows below its first line") from None
        raise InvalidInput.because("path", path, f"is not a proper CSV file: {error}") from None


def _has_line_breaks(block: Any) -> bool:
    """Say whether a text in a block has a line break in it."""
    texts = (bytes(column.buffers()[-1] or b"") for column in block.columns)
    return any(b"\n" in text or b"\r" in text for text in texts)


def _require_closed_quotes(path: Path, delimiter: str) -> None:
    """Refuse a file with a quote that nothing closes: Arrow would take all rows up to the next one for one cell."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            for _ in csv.reader(file, delimiter=delimiter, strict=True):
                pass
    except UnicodeDecodeError:
        raise _not_utf8(path) from None
    except csv.Error as error:
        reason = f"is not a proper CSV file: it has a cell with line breaks whose quotes are not closed ({error})"
        raise InvalidInput.because("path", path, reason) from None


def _parquet_blocks(path: Path, check: Check) -> Generator[Block, None, None]:
    pa = arrow()
    from pyarrow import parquet

    try:
        file = parquet.ParquetFile(path)
        # What pandas adds for a frame's index is no column of the user's.
        names = [name for name in file.schema_arrow.names if not name.startswith("__index_level_")]
        check([name.strip() for name in names])
        for batch in file.iter_batches(batch_size=_ROWS, columns=names):
            yield names, batch
    except (OSError, pa.ArrowException) as error:
        raise InvalidInput.because("path", path, f"is not a readable Parquet file: {error}") from None
