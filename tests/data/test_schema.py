"""Schemas: the same numbers for the same rows, however a table is written, and one line for what it may not say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import parquet

from skipring.data import Schema, read_with_schema, rows_of_file, rows_of_frame
from skipring.errors import InvalidInput

ENTRIES: list[dict[str, Any]] = [
    {"name": "age", "range": [20, 80]},
    {"name": "smoker", "categories": ["no", "yes"], "missing": "indicator"},
    {"name": "pain", "categories": {"none": [1], "some": [2, 3], "much": [4]}},
    {"name": "sugar", "range": [0.0, 10.0], "missing": "indicator"},
    {"name": "weight", "range": [40, 140], "missing": 70},
    {"name": "patient", "person": True},
    {"name": "ward", "node": True},
    {"name": "remarks", "ignore": True},
    {"name": "ill", "label": True, "categories": ["no", "yes"]},
]
SCHEMA = Schema.of(ENTRIES)
HEAD = ["age", "smoker", "pain", "sugar", "weight", "patient", "ward", "remarks", "ill"]
CELLS = [
    ["20", "no", "1", "5.0", "140", "p1", "a", "well", "no"],
    ["95", "yes", "2", "", "", "p2", "a", "says: a lot", "yes"],
    ["50", "NA", "3.0", "12.5", "90", "p1", "b", "", "yes"],
    ["-3", " no ", "4", "0", "40", "p3", "b", "two\nlines", "no"],
]


def written(path: Path, cells: list[list[str]] = CELLS, *, head: list[str] = HEAD, mark: str = ",", **how: Any) -> Path:
    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if any(c in text for c in (mark, "\n", '"')) else text

    end = how.get("end", "\n")
    text = end.join(mark.join(map(cell, row)) for row in [head, *cells]) + end
    path.write_bytes((how.get("bom", "") + text).encode())
    return path


def plain() -> np.ndarray[Any, Any]:
    """What the rows above become, by hand."""
    root = math.sqrt(2.0)
    rows = [
        [-1.0, -1.0, 0.0, root, 0.0, 0.0, 0.0, 0.0, 1.0],
        [1.0, 1.0, 0.0, 0.0, root, 0.0, 0.0, 1.0, -0.4],
        [0.0, 0.0, 1.0, 0.0, root, 0.0, 1.0, 0.0, 0.0],
        [-1.0, -1.0, 0.0, 0.0, 0.0, root, -1.0, 0.0, -1.0],
    ]
    return np.array(rows) / math.sqrt(6.0)


def test_rows_become_what_the_schema_says(tmp_path: Path) -> None:
    found = read_with_schema(written(tmp_path / "rows.csv"), SCHEMA)
    assert found.feature_names == (
        *("age", "smoker", "smoker is missing", "pain=none", "pain=some", "pain=much"),
        *("sugar", "sugar is missing", "weight"),
    )
    np.testing.assert_allclose(found.features, plain(), atol=2e-6)
    assert found.classes == ("no", "yes")
    assert found.labels.tolist() == [0, 1, 1, 0]
    assert found.groups is not None
    assert found.persons is not None
    assert (found.groups.tolist(), found.group_names) == ([0, 0, 1, 1], ("a", "b"))
    assert (found.persons.tolist(), found.person_names) == ([0, 1, 0, 2], ("p1", "p2", "p3"))


@pytest.mark.parametrize("mark", [",", ";", "\t", "|"])
@pytest.mark.parametrize("how", [{}, {"bom": "\ufeff"}, {"end": "\r\n"}, {"bom": "\ufeff", "end": "\r\n"}])
def test_however_a_file_is_written_the_rows_are_the_same(tmp_path: Path, mark: str, how: dict[str, str]) -> None:
    order = [8, 3, 0, 7, 2, 5, 1, 6, 4]
    cells = [[row[place] for place in order] for row in CELLS]
    if mark != ",":
        cells = [[c.replace(".", ",") if c in ("5.0", "12.5", "3.0") else c for c in row] for row in cells]
    path = written(tmp_path / "rows.csv", cells, head=[f" {HEAD[place]}" for place in order], mark=mark, **how)
    found, usual = read_with_schema(path, SCHEMA), read_with_schema(written(tmp_path / "usual.csv"), SCHEMA)
    np.testing.assert_array_equal(found.features, usual.features)
    np.testing.assert_array_equal(found.labels, usual.labels)
    assert found.person_names == usual.person_names


def test_parquet_and_frames_give_the_same(tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "ill": ["no", "yes", "yes", "no"],
        "age": [20, 95, 50, -3],
        "smoker": pa.array(["no", "yes", None, "no"]).dictionary_encode(),
        "pain": [1.0, 2.0, 3.0, 4.0],
        "sugar": [5.0, None, 12.5, 0.0],
        "weight": [140.0, None, 90.0, 40.0],
    }
    table = pa.table(columns)
    parquet.write_table(table, tmp_path / "rows.parquet")
    for features in (
        read_with_schema(tmp_path / "rows.parquet", SCHEMA).features,
        rows_of_frame(table, SCHEMA).features,
        rows_of_frame(table.to_pandas(), SCHEMA).features,
        rows_of_frame({name: table.column(name).to_pylist() for name in columns}, SCHEMA).features,
    ):
        np.testing.assert_allclose(features, plain(), atol=2e-6)


def test_no_row_is_longer_than_one_and_the_longest_is_nearly(tmp_path: Path) -> None:
    cells = [["80", "yes", "4", "10", "140", "p", "a", "", "yes"], ["-1e300", "?", "1", "-", "-99", "q", "a", "", "no"]]
    lengths = np.linalg.norm(
        read_with_schema(written(tmp_path / "r.csv", cells), SCHEMA).features.astype(float), axis=1
    )
    assert (lengths <= 1.0).all()
    assert (lengths > 1.0 - 1e-5).all()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40))
def test_numbers_are_read_as_python_reads_them(tmp_path_factory: pytest.TempPathFactory, values: list[float]) -> None:
    schema = Schema.of([{"name": "x", "range": [-1000, 1000]}, ENTRIES[-1]])
    path = tmp_path_factory.mktemp("numbers") / "rows.csv"
    written(path, [[repr(value), "no" if row else "yes"] for row, value in enumerate(values)], head=["x", "ill"])
    wanted = np.clip(values, -1000, 1000) / 1000.0
    np.testing.assert_allclose(read_with_schema(path, schema).features[:, 0], wanted, atol=3e-6)


def test_labels_that_are_numbers_are_clipped_and_centred(tmp_path: Path) -> None:
    schema = Schema.of([ENTRIES[0], {"name": "days", "label": True, "range": [0, 10]}])
    path = written(tmp_path / "r.csv", [["30", "4"], ["30", "99"], ["30", "-1"]], head=["age", "days"])
    assert read_with_schema(path, schema).labels.tolist() == [-1.0, 5.0, -5.0]
    assert (schema.label_bound, schema.label_middle, schema.classes) == (5.0, 5.0, ())


def changed(row: int, column: str, text: str) -> list[list[str]]:
    cells = [list(each) for each in CELLS]
    cells[row][HEAD.index(column)] = text
    return cells


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        (changed(1, "age", "old"), "column 'age', row 2: 'old' is not a number"),
        (changed(2, "age", ""), "column 'age', row 3: there is no value; say missing = \"indicator\""),
        (changed(2, "age", "inf"), "column 'age', row 3: 'inf' is not a finite number"),
        (
            changed(1, "age", "9,5"),
            "column 'sugar', row 1: '5.0' has a decimal point, and '9,5' in column 'age', row 2,",
        ),
        (changed(3, "smoker", "Yes"), "column 'smoker', row 4: 'Yes' is not one of the categories; 'yes' is"),
        (changed(3, "pain", "7"), "column 'pain', row 4: '7' is not one of the categories; they are 1, 2, 3, 4"),
        (changed(0, "pain", ""), "column 'pain', row 1: there is no value"),
        (changed(0, "ill", "YES "), "column 'ill', row 1: 'YES ' is not one of the categories; 'yes' is"),
        (changed(0, "ill", "?"), "column 'ill', row 1: every row needs a label"),
        (changed(1, "patient", ""), "column 'patient', row 2: there is no value; every row belongs to a person"),
        ([*CELLS, ["1", "2"]], "a row has 2 values for 9 columns: '1,2'"),
        ([], "at least 2 rows are needed, not 0"),
    ],
)
def test_what_a_table_may_not_say_is_named(tmp_path: Path, cells: list[list[str]], said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_with_schema(written(tmp_path / "rows.csv", cells), SCHEMA)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("head", "said"),
    [
        (["Age", *HEAD[1:]], "has no column 'age', which the schema has; it has 'Age'"),
        (["height", *HEAD[1:]], "has no column 'age', which the schema has"),
        ([*HEAD[:7], "comment", "ill"], "has a column 'comment', which the schema does not have; say ignore = true"),
        ([*HEAD[:7], "age", "ill"], "two columns are called 'age'"),
    ],
)
def test_columns_that_are_not_the_schemas_are_named(tmp_path: Path, head: list[str], said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        read_with_schema(written(tmp_path / "rows.csv", head=head), SCHEMA)
    assert said in str(refusal.value)


def test_files_that_are_no_tables_get_one_line(tmp_path: Path) -> None:
    (tmp_path / "latin.csv").write_bytes(",".join(HEAD).encode() + "\n20,no,1,5,70,Müller,a,,no\n".encode("latin-1"))
    (tmp_path / "empty.csv").write_bytes(b"")
    (tmp_path / "rows.parquet").write_bytes(b"no parquet")
    (tmp_path / "rows.xls").write_bytes(b"")
    (tmp_path / "folder.csv").mkdir()
    for name, said in (
        ("latin.csv", "is not text in UTF-8; save it as UTF-8"),
        ("empty.csv", "is empty; its first line must name the columns"),
        ("rows.parquet", "is not a readable Parquet file"),
        ("rows.xls", "a file that ends in .csv, .tsv, .txt, .parquet"),
        ("nowhere.csv", "there is no such file"),
        ("folder.csv", "is a folder, and not a file"),
    ):
        with pytest.raises(InvalidInput, match=said):
            read_with_schema(tmp_path / name, SCHEMA)


def test_columns_are_refused_before_anything_is_read_ahead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that ends while Arrow reads ahead is aborted now and then, in place of its exit code."""
    monkeypatch.setattr("pyarrow.csv.open_csv", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(InvalidInput, match="two columns are called 'ill'"):
        read_with_schema(written(tmp_path / "rows.csv", [], head=[*HEAD, "ill"]), SCHEMA)


def test_a_mapping_holds_a_list_for_each_column() -> None:
    with pytest.raises(InvalidInput, match="X = a mapping: must be columns that are lists of values"):
        rows_of_frame({"age": 61}, SCHEMA)
    with pytest.raises(InvalidInput, match=r"^X = frame: has no column"):
        rows_of_frame({"age": [61]}, SCHEMA)


def test_rows_to_predict_need_no_label(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", [row[:-1] for row in CELLS], head=HEAD[:-1])
    (block,) = rows_of_file(path, SCHEMA, labelled=False)
    assert block.labels is None
    np.testing.assert_allclose(block.features, plain(), atol=2e-6)
    with pytest.raises(InvalidInput, match="has no column 'ill'"):
        read_with_schema(path, SCHEMA)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([{"range": [0, 1]}], "each [[column]] has a name"),
        ([{"name": "a", "rnge": [0, 1]}], "column.a.rnge = [0, 1]: is not a key of a column; did you mean range?"),
        ([{"name": "a", "range": [1, 0]}], "column.a.range = [1, 0]: must be two numbers, [low, high]"),
        ([{"name": "a", "range": [0, math.inf]}], "column.a.range"),
        ([{"name": "a"}], "column.a = neither: give either range = [low, high] or categories = [...]"),
        ([{"name": "a", "range": [0, 1], "categories": ["x", "y"]}], "column.a = both"),
        ([{"name": "a", "categories": ["x"]}], "column.a.categories = ['x']: must be a list of at least two texts"),
        ([{"name": "a", "categories": ["x", "x"]}], "column.a.categories = x: stands there twice"),
        ([{"name": "a", "label": True, "person": True}], "a column is either label or person"),
        ([{"name": "a", "person": True, "range": [0, 1]}], "a column that is person has none"),
        ([{"name": "a", "label": "yes", "range": [0, 1]}], "column.a.label = yes: must be true or false"),
        (
            [{"name": "a", "range": [0, 1], "missing": "x"}],
            "column.a.missing = x: must be refuse, indicator, or the number",
        ),
        ([{"name": "a", "categories": ["x", "y"], "missing": "z"}], "must be refuse, indicator, or one of x, y"),
        ([{"name": "a", "label": True, "range": [0, 1], "missing": 0}], "a row without a label cannot be learnt from"),
        ([ENTRIES[0]], "say which column is the label: label = true"),
        ([ENTRIES[-1]], "is the only one; there is nothing to learn from"),
        ([ENTRIES[0], ENTRIES[0], ENTRIES[-1]], "[[column]] = age: stands in the schema twice"),
        (
            [ENTRIES[0], ENTRIES[-1], ENTRIES[-1] | {"name": "b"}],
            "[[column]] = b: is the second label; ill is one already",
        ),
    ],
)
def test_a_schema_that_cannot_be_meant_gets_one_line(entries: list[dict[str, Any]], said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        Schema.of(entries)
    assert said in str(refusal.value)


def test_a_schema_says_itself_again() -> None:
    assert Schema.of(SCHEMA.to_values()) == SCHEMA


@pytest.mark.parametrize(("place", "said"), [(5, "person = patient"), (6, "node = ward")])
def test_one_id_in_two_spellings_is_refused(tmp_path: Path, place: int, said: str) -> None:
    cells = [[*row[:place], name, *row[place + 1 :]] for row, name in zip(CELLS, ("7", "8", "007", "9"), strict=True)]
    with pytest.raises(InvalidInput, match=f"{said}: '007' and '7' are the same number"):
        read_with_schema(written(tmp_path / "rows.csv", cells), SCHEMA)
