"""Run files with a schema: what it says to the other sections, to simulations and to nodes."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.data import Schema
from skipring.errors import InvalidInput
from skipring.network.node import OwnData, make_learner
from skipring.network.setup import agreed_run, run_text
from skipring.runs import dealt_rows, parse_run, read_run_file, with_changes
from skipring.simulation import simulate

COLUMNS = """
[[column]]
name = "age"
range = [20, 80]
[[column]]
name = "pain"
categories = {none = ["1"], some = ["2", "3"], much = ["4"]}
missing = "indicator"
[[column]]
name = "patient"
person = true
[[column]]
name = "ward"
node = true
[[column]]
name = "ill"
label = true
categories = ["no", "yes"]
"""
RUN = """
[data]
path = "PATH"
rows_per_person = 2
[model]
intercept = true
[schedule]
name = "random-ring"
steps = 40
[learning]
batch = 8
[privacy]
protects = "person"
noise_multiplier = 4.0
[simulation]
runs = 2
evaluate_every = 20
"""


def table(path: Path, rows: int = 80, *, wards: int = 4, ward: str | None = None) -> Path:
    rng = np.random.default_rng(3)
    lines = ["ward;ill;age;patient;pain"]
    for row in range(rows):
        age, pain = rng.integers(20, 90), rng.integers(1, 5)
        ill = "yes" if age + 8 * pain + rng.normal(0, 5) > 72 else "no"
        shown = "" if row % 11 == 0 else f"{pain},0" if row % 2 else f"{pain}"
        lines.append(f"{ward or f'w{row // 2 % wards}'};{ill};{age},5;p{row // 2};{shown}")
    path.write_text("\n".join(lines) + "\n")
    return path


def written(tmp_path: Path, text: str = RUN, columns: str = COLUMNS) -> Path:
    path = tmp_path / "run.toml"
    path.write_text(text.replace("PATH", str(table(tmp_path / "rows.csv"))) + columns)
    return path


def test_the_schema_says_what_other_sections_need(tmp_path: Path) -> None:
    run = read_run_file(written(tmp_path))
    assert (run.data.label, run.data.node, run.data.person) == ("ill", "ward", "patient")
    assert (run.data.standardise, run.data.unit_rows) == (False, False)
    assert (run.model.classes, run.model.columns, run.model.label_bound) == (["no", "yes"], 5, None)
    assert run.table == Schema.of(tomllib.loads(COLUMNS)["column"])
    assert parse_run(run.model_dump()) == run


def test_a_schema_may_stand_in_a_file_beside_the_run_file(tmp_path: Path) -> None:
    inside = read_run_file(written(tmp_path))
    (tmp_path / "schema.toml").write_text(COLUMNS)
    beside = RUN.replace("[data]", '[data]\nschema_file = "schema.toml"')
    assert read_run_file(written(tmp_path, beside, "")) == inside
    with pytest.raises(InvalidInput, match="the run file has \\[\\[column\\]\\] entries of its own"):
        read_run_file(written(tmp_path, beside))
    (tmp_path / "schema.toml").write_text(COLUMNS + "[model]\nridge = 1\n")
    with pytest.raises(InvalidInput, match="holds \\[\\[column\\]\\] entries, and nothing else"):
        read_run_file(written(tmp_path, beside, ""))
    with pytest.raises(InvalidInput, match=r"elsewhere.toml: does not exist; `skipring schema` drafts one"):
        read_run_file(written(tmp_path, beside.replace("schema.toml", "elsewhere.toml"), ""))


def test_a_schema_may_be_named_where_a_run_file_is_changed_or_given_as_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = read_run_file(written(tmp_path))
    (tmp_path / "here").mkdir()
    for folder in (tmp_path, tmp_path / "here"):
        (folder / "schema.toml").write_text(COLUMNS)
    plain = written(tmp_path, columns="")
    monkeypatch.chdir(tmp_path / "here")
    assert with_changes(plain, ["data.schema_file=schema.toml"]) == inside
    (tmp_path / "here" / "schema.toml").write_text("")  # that where the command runs is meant
    with pytest.raises(InvalidInput, match=r"here/schema.toml: holds \[\[column\]\] entries, and nothing else"):
        with_changes(plain, ["data.schema_file=schema.toml"])
    (tmp_path / "here" / "schema.toml").unlink()
    assert with_changes(plain, ["data.schema_file='schema.toml'"]) == inside
    monkeypatch.chdir(tmp_path)
    values = tomllib.loads(plain.read_text())
    values["data"]["schema_file"] = "schema.toml"
    assert simulate(values).settings["column"] == inside.model_dump()["column"]


def test_simulations_learn_from_rows_that_nobody_scaled_by_others(tmp_path: Path) -> None:
    run = read_run_file(written(tmp_path))
    _, ready, owned = dealt_rows(run)
    assert owned.nodes == 4
    lengths = np.linalg.norm(ready.train_x.astype(float), axis=1)
    assert (lengths <= 1.0).all()
    assert ready.train_x[:, -1].tolist() == pytest.approx([0.5**0.5] * len(ready.train_x), rel=1e-6)
    # A row is the same whatever the others are.
    other = tmp_path / "rows.csv"
    lines = other.read_text().splitlines()
    other.write_text("\n".join([*lines[:3], "w0;no;1000,0;p9999;4", *lines[3:]]) + "\n")
    again = {tuple(row) for row in np.concatenate([dealt_rows(run)[1].train_x, dealt_rows(run)[1].test_x])}
    assert {tuple(row) for row in ready.train_x} <= again
    result = simulate(run.model_copy(update={"privacy": run.privacy.model_copy(update={"noise_multiplier": 1.0})}))
    assert result.privacy.promised.protects == "person"
    assert result.test_error[:, -1].max() < 0.5


def test_nodes_agree_on_the_schema_and_read_their_own_files_by_it(tmp_path: Path) -> None:
    run = agreed_run(read_run_file(written(tmp_path, RUN.replace('path = "PATH"\n', ""))), 4)
    text = run_text(run)
    (tmp_path / "agreed.toml").write_text(text)
    assert read_run_file(tmp_path / "agreed.toml") == run
    assert Schema.of(tomllib.loads(text)["column"]) == run.table
    path = table(tmp_path / "own.csv", ward="mine")

    def rows_of(path: Path) -> Any:
        data = OwnData(path=path)
        return make_learner(run, index=0, nodes=4, name="a", data=data, rng=np.random.default_rng(1))[0].rows_digest

    before = rows_of(path)
    lines = [line.split(";") for line in path.read_text().splitlines()]
    path.write_text("\n".join(",".join(f'"{line[place]}"' for place in (4, 2, 1, 3)) for line in lines) + "\n")
    assert rows_of(path) == before  # other columns first, another delimiter, and the ward left out
    path.write_text(path.read_text().replace('"pain"', '"Pain"'))
    with pytest.raises(InvalidInput, match="has no column 'pain', which the schema has; it has 'Pain'"):
        rows_of(path)


def test_a_node_whose_rows_are_all_of_one_class_takes_part(tmp_path: Path) -> None:
    run = agreed_run(read_run_file(written(tmp_path, RUN.replace('path = "PATH"\n', ""))), 4)
    path = table(tmp_path / "own.csv")
    path.write_text(path.read_text().replace(";no;", ";yes;"))
    made, _ = make_learner(run, index=0, nodes=4, name="a", data=OwnData(path=path), rng=np.random.default_rng(1))
    assert made.all_units == 32


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("data.label=age", "data.label = age: the schema says ill; leave it out"),
        ("data.standardise=true", "data.standardise = True: the schema says False; leave it out"),
        ('model.classes=["yes", "no"]', "model.classes = ['yes', 'no']: the schema says ['no', 'yes']; leave it out"),
        ("model.columns=4", "model.columns = 4: the schema says 5; leave it out"),
    ],
)
def test_what_contradicts_the_schema_is_refused(tmp_path: Path, change: str, said: str) -> None:
    from skipring.runs import with_changes

    with pytest.raises(InvalidInput) as refusal:
        with_changes(written(tmp_path), [change])
    assert said in str(refusal.value)


def test_columns_that_are_no_tables_get_one_line() -> None:
    with pytest.raises(InvalidInput, match="column = str: must be tables"):
        parse_run({"column": "age"})
    with pytest.raises(InvalidInput, match=r"column.age.rang"):
        parse_run({"column": [{"name": "age", "rang": [0, 1]}]})


def test_a_table_may_lie_beside_its_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, RUN.replace("PATH", "rows.csv"))
    table(tmp_path / "rows.csv")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert read_run_file(path).data.path == str(tmp_path / "rows.csv")
    table(Path("rows.csv"))  # what lies where the command runs comes first, as ever
    assert read_run_file(path).data.path == "rows.csv"
