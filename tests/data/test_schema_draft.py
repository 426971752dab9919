"""Drafts of schemas: what is guessed of a public table, and that the table can then be read."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from skipring.data import Schema, draft_schema, read_with_schema
from skipring.data.hospitals import hospitals_file
from skipring.errors import InvalidInput

Command = Callable[[str], Any]

TABLE = """patient;sex;weight;height;grade;remark;empty;same;ill
17;f;61,5;1,60;1;one;;x;no
18;m;80,1;1,85;2;two;;x;yes
19;f;;1,71;1.0;three;;x;no
20;f;99,0;1,79;3;four;NA;x;yes
"""


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "public.csv"
    path.write_text(TABLE.replace("1.0", "1,0"))
    return path


def test_a_draft_names_ranges_categories_and_what_is_of_no_use(table: Path) -> None:
    draft = draft_schema(table, label="ill", person="patient")
    found = {column.name: column.to_values() for column in draft.schema.columns}
    assert found == {
        "patient": {"name": "patient", "person": True},
        "sex": {"name": "sex", "categories": ["f", "m"]},
        "weight": {"name": "weight", "range": [60.0, 100.0], "missing": "indicator"},
        "height": {"name": "height", "range": [1.6, 1.85]},
        "grade": {"name": "grade", "categories": ["1", "2", "3"]},
        "remark": {"name": "remark", "ignore": True},
        "empty": {"name": "empty", "ignore": True},
        "same": {"name": "same", "ignore": True},
        "ill": {"name": "ill", "label": True, "categories": ["no", "yes"]},
    }
    assert draft.rows == 4
    assert draft.remarks["weight"] == "from 61.5 to 99 here; 1 of 4 values are missing"
    assert read_with_schema(table, draft.schema).labels.tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (
            ["'1,5'|2", "1.5|3"],
            "column 'a', row 2: '1.5' has a decimal point, and '1,5' in column 'a', row 1, does not",
        ),
        (["1.5|2", "2.5|'3,25'"], "column 'b', row 2: '3,25' has a decimal comma, and '1.5' in column 'a', row 1,"),
        (["1.0|2", "'2,5'|3"], "column 'a', row 2: '2,5' has a decimal comma, and '1.0' in column 'a', row 1,"),
    ],
)
def test_a_draft_refuses_both_decimal_marks_as_the_reader_does(tmp_path: Path, rows: list[str], said: str) -> None:
    path = tmp_path / "rows.csv"
    more = [f"{row + 11}|{row + 20}" for row in range(8)]
    lines = [f"{row}|{'no' if row in rows else 'yes'}" for row in [*rows, *more]]
    path.write_text("a,b,ill\n" + "".join(line.replace("|", ",").replace("'", '"') + "\n" for line in lines))
    with pytest.raises(InvalidInput) as refusal:
        draft_schema(path, label="ill")
    assert said in str(refusal.value)
    columns = [{"name": name, "range": [0, 30]} for name in "ab"]
    schema = Schema.of([*columns, {"name": "ill", "label": True, "categories": ["no", "yes"]}])
    with pytest.raises(InvalidInput, match="has a decimal"):
        read_with_schema(path, schema)


def test_categories_and_unused_columns_may_have_both_decimal_marks(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(
        'a,b,c,ill\n5,1.0,"7,5 mg",no\n11,"2,0",7.5 mg,yes\n' + "".join(f"{n}.5,1,x{n},no\n" for n in range(8))
    )
    draft = draft_schema(path, label="ill")
    assert [column.role for column in draft.schema.columns] == ["feature", "feature", "ignore", "label"]
    assert len(read_with_schema(path, draft.schema).labels) == 10


def test_an_id_is_not_learnt_from(table: Path) -> None:
    table.write_text(TABLE.replace("patient", "case_id"))
    draft = draft_schema(table, label="ill")
    assert draft.schema.columns[0].role == "ignore"
    assert "person = true if it tells whose a row is" in draft.remarks["case_id"]


def test_the_draft_of_a_real_table_reads_all_of_it() -> None:
    path = hospitals_file()
    draft = draft_schema(path, label="num", node="hospital")
    dataset = read_with_schema(path, draft.schema)
    assert (len(dataset.features), dataset.group_names) == (920, ("budapest", "cleveland", "long-beach", "zurich"))
    assert np.linalg.norm(dataset.features.astype(float), axis=1).max() <= 1.0


def test_the_command_writes_a_file_to_edit(skipring: Command, table: Path) -> None:
    answer = skipring(f"schema {table} --label ill --person patient")
    assert answer.code == 0, answer.err
    assert "public or made up: no epsilon covers" in answer.out
    assert "Not used: remark, empty, same." in answer.out
    written = Path("schema.toml").read_text()
    assert Schema.of(tomllib.loads(written)["column"]) == draft_schema(table, label="ill", person="patient").schema
    assert skipring(f"schema {table} --label ill").code == 2  # it is there already
    again = skipring(f"schema {table} --label ill --force --json")
    assert again.data["rows"] == 4


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("", "--label missing: say which column is to be predicted; public.csv has patient, sex, weight"),
        ("--label age", "--label age: public.csv has no such column; it has patient, sex"),
        ("--label ill --node ward", "--node ward: public.csv has no such column"),
        ("--label same", "--label same: is 'x' in every row: nothing to learn"),
    ],
)
def test_what_cannot_be_drafted_gets_one_line(skipring: Command, table: Path, options: str, said: str) -> None:
    answer = skipring(f"schema {table} {options}")
    assert answer.code == 2
    assert said in answer.err
    assert not Path("schema.toml").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.csv", "", "FILE a.csv: is empty; its first line must name the columns"),
        ("a.csv", "age,ill\n", "FILE a.csv: has no rows"),
        ("a.csv", "age,ill", "FILE a.csv: has no rows"),
        ("a.csv", "age,ill\n1,yes,2\n", "FILE a.csv: a row has 3 values for 2 columns"),
        ("a.csv", "age,age,ill\n1,2,yes\n2,3,no\n", "FILE a.csv: two columns are called 'age'"),
        ("a.csv", ",age,ill\n0,1,yes\n1,2,no\n", "FILE a.csv: column 1 has no name; leave a row index out"),
        ("a.csv", "age,ill\n1,yes\n2,\n3,no\n", "--label ill: 1 of 3 values are missing; every row needs a label"),
        ("a.csv", "age,ill\n1,Yes\n2,yes\n", "--label ill: is 'Yes' in every row, but for capitals: nothing to learn"),
        (
            "a.csv",
            "age,ill\n5,yes\n5,no\n",
            "FILE a.csv: no column is left to learn from (age: it is '5' in every row)",
        ),
        ("a.doc", "PK", "FILE a.doc: must be a file that ends in .csv, .tsv, .txt, .parquet"),
        ("a.xlsx", "PK", "FILE a.xlsx: is a spreadsheet; save it as CSV (UTF-8), and name that file"),
        ("a.parquet", "age,ill\n1,yes\n", "FILE a.parquet: is not a readable Parquet file"),
    ],
)
def test_a_table_that_is_none_gets_one_line(skipring: Command, name: str, text: str, said: str) -> None:
    Path(name).write_text(text)
    answer = skipring(f"schema {name} --label ill")
    assert (answer.code, answer.out) == (2, "")
    assert said in answer.err
    assert not Path("schema.toml").exists()


def test_texts_that_differ_in_capitals_only_are_one_category(skipring: Command) -> None:
    path = Path("rows.csv")
    said = ("Yes", "yes ", "YES", "no")
    path.write_text("age,ward,ill\n" + "".join(f"{row},{'aB'[row % 2]},{said[row % 4]}\n" for row in range(40)))
    assert skipring(f"schema {path} --label ill").code == 0
    text = Path("schema.toml").read_text()
    assert "texts that differ in capitals only were taken for one" in text
    schema = Schema.of(tomllib.loads(text)["column"])
    assert schema.classes == ("no", "Yes")
    assert read_with_schema(path, schema).labels.tolist() == [1, 1, 1, 0] * 10


def test_a_remark_counts_what_is_missing(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age,note,ill\n1.5,seen,yes\n2.5,,no\n3.5,,no\n")
    assert draft_schema(path, label="ill").remarks["note"] == "it is 'seen' wherever it says something"


def test_a_label_of_many_texts_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age,name\n" + "".join(f"{row},name{row}\n" for row in range(40)))
    with pytest.raises(InvalidInput, match="name: has more than 30 different texts; a label has classes"):
        draft_schema(path, label="name")


def test_a_draft_of_a_parquet_file_reads_that_file(tmp_path: Path) -> None:
    days = [datetime(2020, 1, day) for day in (1, 2, 2, 1)]
    columns = {"smoker": [True, False, None, True], "day": [day.date() for day in days], "since": days}
    parquet.write_table(pa.table(columns | {"ill": ["no", "yes", "yes", "no"]}), tmp_path / "rows.parquet")
    schema = draft_schema(tmp_path / "rows.parquet", label="ill").schema
    assert len(schema.features) == 3
    assert len(read_with_schema(tmp_path / "rows.parquet", schema).features) == 4
