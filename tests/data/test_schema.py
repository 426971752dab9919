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


@settings(max_examples=200, deadline=None)
@given(st.floats(-1e300, 1e300), st.integers(1, 9), st.lists(st.floats(allow_nan=False), max_size=9))
def test_a_narrow_range_is_not_left_by_rounding(low: float, steps: int, values: list[float]) -> None:
    high = low
    for _ in range(steps):
        high = math.nextafter(high, math.inf)
    schema = Schema.of([{"name": "x", "range": [low, high]}, ENTRIES[-1]])
    found = schema.encode({"x": np.array([low, high, *values])}, len(values) + 2)
    assert (np.abs(found) <= 1.0).all()


def test_rounding_leads_out_of_no_range() -> None:
    schema = Schema.of([{"name": "x", "range": [2**53 - 3, 2**53]}, ENTRIES[-1]])  # (2 high - low - high) / 3 is 4/3
    assert schema.encode({"x": np.array([2.0**53])}, 1)[0, 0] == pytest.approx(1.0, abs=2e-6)


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


def test_rounding_leads_no_label_out_of_its_bound(tmp_path: Path) -> None:
    low, high = 51.837566, 235.23756600000002  # high - (low + high) / 2 is above (high - low) / 2
    schema = Schema.of([ENTRIES[0], {"name": "days", "label": True, "range": [low, high]}])
    path = written(tmp_path / "r.csv", [["30", repr(low)], ["30", repr(high)]], head=["age", "days"])
    assert np.abs(read_with_schema(path, schema).labels).max() == schema.label_bound


def changed(row: int, column: str, text: str) -> list[list[str]]:
    cells = [list(each) for each in CELLS]
    cells[row][HEAD.index(column)] = text
    return cells


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        # Python reads these two as numbers, and Arrow does not.
        (changed(1, "age", "\u0663\u0660"), "column 'age', row 2: '\u0663\u0660' is not a number"),
        (changed(1, "age", "1_000"), "column 'age', row 2: '1_000' is not a number"),
        (changed(0, "pain", "1,000"), "column 'pain', row 1: '1,000' is not one of the categories"),
        (changed(1, "age", "old"), "column 'age', row 2: 'old' is not a number"),
        (changed(2, "age", ""), "column 'age', row 3: there is no value; say missing = \"indicator\""),
        (changed(2, "age", "inf"), "column 'age', row 3: 'inf' is not a finite number"),
        (
            changed(1, "age", "9,5"),
            "column 'sugar', row 1: '5.0' has a decimal point, and '9,5' in column 'age', row 2,",
        ),
        (changed(3, "smoker", "Yes"), "column 'smoker', row 4: 'Yes' is not one of the categories; 'yes' is"),
        (
            changed(3, "pain", "7"),
            "column 'pain', row 4: '7' is not one of the categories; they are '1', '2', '3', '4'",
        ),
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
    (tmp_path / "rows.doc").write_bytes(b"")
    (tmp_path / "folder.csv").mkdir()
    for name, said in (
        ("latin.csv", "is not text in UTF-8; save it as UTF-8"),
        ("empty.csv", "is empty; its first line must name the columns"),
        ("rows.parquet", "is not a readable Parquet file"),
        ("rows.xls", r"is a spreadsheet; save it as CSV \(UTF-8\), and name that file"),
        ("rows.doc", "a file that ends in .csv, .tsv, .txt, .parquet"),
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
        ([{"name": "a", "range": [-1.7e308, 1.7e308]}], "column.a.range = [-1.7e+308, 1.7e+308]: must be two numbers"),
        ([{"name": "a", "range": [0, 10**400]}], "column.a.range"),
        ([{"name": "a", "range": [2**53, 2**53 + 1]}], "the first below the second"),  # the same double
        ([{"name": "a", "range": [0, 1], "missing": 10**400}], "or the number that stands for it"),
        ([{"name": " a", "range": [0, 1]}], "[[column]] = ' a': names of columns have no blanks around them"),
        ([{"name": "a", "categories": [["x"], ["y"]]}], "column.a.categories = [['x'], ['y']]: must be a list of"),
        ([{"name": "a", "categories": {"x": [["y"]], "z": "z"}}], "must be a list of at least two texts, or a table"),
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
        ([{"name": "a", "categories": ["x", "y"], "missing": "z"}], "must be refuse, indicator, or one of 'x', 'y'"),
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


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Jos\u00e9", "Jose\u0301"),  # two ways to write an accent
        ("p1", "p1\u200b"),  # a blank of no width
        ("p 1", "p\u00a01"),
        ("p 1", "p  1"),
        ("P1", "\uff301"),
        ("7", "7,0"),
    ],
)
def test_ids_that_look_alike_are_refused(tmp_path: Path, one: str, other: str) -> None:
    cells = [[*row[:5], name, *row[6:]] for row, name in zip(CELLS, (one, "q", other, "r"), strict=True)]
    with pytest.raises(InvalidInput, match=r"person = patient: .* (look alike|are the same number), but ids"):
        read_with_schema(written(tmp_path / "rows.csv", cells), SCHEMA)


def test_ids_in_small_and_large_letters_are_two(tmp_path: Path) -> None:
    cells = [[*row[:5], name, *row[6:]] for row, name in zip(CELLS, ("aB", "Ab", "x", "y"), strict=True)]
    assert len(read_with_schema(written(tmp_path / "rows.csv", cells), SCHEMA).person_names) == 4


LAST = Schema.of([{"name": "x", "range": [0, 10000]}, ENTRIES[-1], {"name": "note", "ignore": True}])


@pytest.mark.parametrize(
    "notes",
    [
        ["fine", '"open', "lost", "lost"],  # up to the end of the file
        ["fine", '"open', "lost", '"open again'],  # up to the next quote
        ["fine", '"open', "lost", '""'],
    ],
)
def test_no_rows_are_lost_in_quotes_that_are_not_closed(tmp_path: Path, notes: list[str]) -> None:
    lines = [f"{row},{'yes' if row % 2 else 'no'},{note}" for row, note in enumerate(notes)]
    (tmp_path / "rows.csv").write_text("\n".join(["x,ill,note", *lines, "9,yes,end"]) + "\n")
    with pytest.raises(InvalidInput, match="it has a cell with line breaks whose quotes are not closed") as no:
        read_with_schema(tmp_path / "rows.csv", LAST)
    assert "\n" not in str(no.value)


def test_an_empty_line_of_one_column_is_a_row_without_a_value(tmp_path: Path) -> None:
    """A line of predictions for each row: were it left out, all that follow would be somebody else's."""
    schema = Schema.of([{"name": "x", "range": [0, 1], "missing": "indicator"}, ENTRIES[-1]])
    (tmp_path / "rows.csv").write_text("x\n0\n\n1\n")
    (block,) = rows_of_file(tmp_path / "rows.csv", schema, labelled=False)
    np.testing.assert_allclose(block.features, [[-1, 0], [0, 1], [1, 0]], atol=2e-6)


NUMBERS = Schema.of([{"name": "x", "range": [0, 10000]}, {"name": "z", "range": [0, 5]}, ENTRIES[-1]])


@pytest.mark.parametrize(("mark", "value"), [(",", "1,234"), (";", "1,234"), ("\t", "-1,234"), (";", "1.234")])
def test_what_may_be_thousands_is_refused(tmp_path: Path, mark: str, value: str) -> None:
    head, cells = ["x", "z", "ill"], [[value, "1", "no"], ["7", "2", "yes"], [value, "", "no"]]
    path = written(tmp_path / "rows.csv", cells[:2], head=head, mark=mark)
    with pytest.raises(InvalidInput, match=r"column 'x', row 1: '.+' may be -?1\.234 or -?1234, and no other number"):
        read_with_schema(path, NUMBERS)


@pytest.mark.parametrize(
    "cells",
    [
        [["1,234", "1", "no"], ["0,5", "2", "yes"]],  # a number of the same column tells
        [["1,234", "1", "no"], ["7", "2,5", "yes"]],  # one of another column
        [["1,234", "1,125", "no"], ["7", "2", "yes"]],  # the range does: nobody means 1125 where 5 is the most
    ],
)
def test_decimal_commas_are_told_from_thousands(tmp_path: Path, cells: list[list[str]]) -> None:
    for mark in (",", ";"):
        path = written(tmp_path / "rows.csv", cells, head=["x", "z", "ill"], mark=mark)
        found = read_with_schema(path, NUMBERS).features[0, 0] * NUMBERS.longest
        assert found == pytest.approx(2.0 * 1.234 / 10000 - 1.0, abs=3e-6)


def test_points_with_three_decimals_are_decimals_between_commas(tmp_path: Path) -> None:
    path = written(tmp_path / "rows.csv", [["1.234", "1", "no"], ["7", "2", "yes"]], head=["x", "z", "ill"])
    found = read_with_schema(path, NUMBERS).features[0, 0] * NUMBERS.longest
    assert found == pytest.approx(2.0 * 1.234 / 10000 - 1.0, abs=3e-6)


def test_a_category_that_is_a_word_for_missing_is_not_missing_in_other_letters(tmp_path: Path) -> None:
    pain = {"name": "pain", "categories": ["None", "some"], "missing": "indicator"}
    schema = Schema.of([pain, ENTRIES[-1]])
    path = written(tmp_path / "rows.csv", [["none", "no"], ["some", "yes"]], head=["pain", "ill"])
    with pytest.raises(InvalidInput, match="column 'pain', row 1: 'none' is not one of the categories; 'None' is"):
        read_with_schema(path, schema)


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("age", [[1], [2]], "column 'age' holds list"),
        ("smoker", pa.array([b"\xff", b"no"]), "column 'smoker' holds binary"),
        ("smoker", [math.inf, 1.0], "inf is not one of the categories"),
        ("age", pa.array([1, 2], pa.duration("s")), "holds duration\\[s\\], whose unit the schema does not say"),
        ("age", [1, "two"], "must be columns that are lists of values"),
    ],
)
def test_columns_of_frames_that_are_no_cells_get_one_line(column: str, values: Any, said: str) -> None:
    rest = {"age": [30, 40], "smoker": ["no", "yes"], "ill": ["no", "yes"]}
    schema = Schema.of([ENTRIES[0], ENTRIES[1], ENTRIES[-1]])
    with pytest.raises(InvalidInput, match=said) as refusal:
        rows_of_frame(rest | {column: values}, schema)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("words", [["no", "yes"], ["false", "true"], ["False", "True"], ["FALSE", "TRUE"]])
def test_booleans_have_no_letters(words: list[str]) -> None:
    schema = Schema.of([{"name": "x", "categories": words, "missing": "indicator"}, ENTRIES[-1]])
    frame = {"x": [True, None, False]}
    if words[0] == "no":
        with pytest.raises(InvalidInput, match="True is not one of the categories"):
            rows_of_frame(frame, schema)
    else:
        np.testing.assert_allclose(rows_of_frame(frame, schema).features, [[1, 0], [0, 1], [-1, 0]], atol=2e-6)


def test_a_value_that_pandas_calls_na_is_missing() -> None:
    pandas = pytest.importorskip("pandas")
    schema = Schema.of([{"name": "x", "range": [0, 1], "missing": "indicator"}, ENTRIES[-1]])
    assert rows_of_frame({"x": [0.5, pandas.NA]}, schema).features[1, 1] > 0.9


def test_whole_numbers_too_large_for_doubles_are_rounded_as_texts_are() -> None:
    schema = Schema.of([{"name": "x", "range": [0, 2**61]}, ENTRIES[-1]])
    one, other = (rows_of_frame({"x": [made(2**60 + 1)]}, schema).features for made in (int, str))
    np.testing.assert_array_equal(one, other)
