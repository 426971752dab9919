"""`skipring predict`: a line for each row of a table, whatever its size and the order of its columns."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from skipring._json import to_json
from skipring.data import Schema, schema_tables
from skipring.models import Inputs, ModelFacts, TrainedModel, load_model, tables
from skipring.privacy import Guarantee

Command = Callable[..., Any]
COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "range": [20, 80]},
    {"name": "pain", "categories": ["none", "some", "much"]},
    {"name": "patient", "person": True},
    {"name": "ill", "label": True, "categories": ["no", "yes"]},
]
GUARANTEE = Guarantee(
    protects="record",
    whose="node a",
    against="another node",
    sees="which sees the token",
    method="own account",
    delta=1e-5,
    epsilon=2.5,
)
HEAD = ["patient", "prediction", "probability of no", "probability of yes"]


def saved(path: Path, columns: list[dict[str, Any]] = COLUMNS, name: str = "logistic") -> Path:
    schema = Schema.of(columns)
    facts = ModelFacts(name=name, updates=7, run="00ff", guarantee=GUARANTEE)
    inputs = Inputs(columns=4, classes=np.array(schema.classes, dtype=str), schema=schema, intercept=True)
    TrainedModel(facts, inputs, np.array([5.0, -1.0, 0.0, 3.0, 0.5])).save(path)
    return path


def table(rows: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age, pain = rng.integers(20, 90, rows), rng.choice(["none", "some", "much"], rows)
    ill = np.where(age + rng.normal(0, 10, rows) > 55, "yes", "no")
    return pd.DataFrame({"age": age, "pain": pain, "patient": [f"p{i}" for i in range(rows)], "ill": ill})


def lines(path: Path) -> list[list[str]]:
    with path.open(newline="") as file:
        return list(csv.reader(file))


def test_each_row_has_a_line_and_metrics_are_those_of_the_lines(tmp_path: Path, skipring_words: Command) -> None:
    model, rows = saved(tmp_path / "model.npz"), table()
    rows.to_csv(tmp_path / "rows.csv", index=False)
    told = skipring_words("predict", str(model), "rows.csv", "--out", "said.csv", "--json")
    assert told.code == 0, told.err
    head, *found = lines(tmp_path / "said.csv")
    assert head == HEAD
    assert [line[0] for line in found] == rows["patient"].tolist()
    loaded = load_model(model)
    chances = loaded.predict_proba(rows)
    assert [line[1] for line in found] == loaded.predict(rows).tolist()
    np.testing.assert_allclose(np.array([line[2:] for line in found], float), chances, rtol=1e-8)
    right = np.array([line[1] for line in found]) == rows["ill"]
    share = (rows["ill"] == "yes").mean()
    metrics = told.data["metrics"]
    assert metrics["accuracy"] == pytest.approx(right.mean())
    assert metrics["guessed_accuracy"] == pytest.approx(max(share, 1 - share))
    chance = chances[np.arange(len(rows)), (rows["ill"] == "yes").astype(int)]
    assert metrics["log_loss"] == pytest.approx(-np.log(chance).mean())
    assert metrics["guessed_log_loss"] == pytest.approx(-share * np.log(share) - (1 - share) * np.log(1 - share))
    assert told.data["guarantee"] == to_json(GUARANTEE)
    shown = skipring_words("predict", str(model), "rows.csv", "--out", "said.csv", "--force")
    words = " ".join(shown.out.split())
    assert "accuracy" in words
    assert "Epsilon 2.5 at delta 1e-05 protects one record of node a (replace-one) against another node" in words
    assert max(map(len, shown.out.splitlines())) <= 80


def test_the_order_of_columns_and_the_size_of_blocks_do_not_matter(
    tmp_path: Path, skipring_words: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, rows = saved(tmp_path / "model.npz"), table(3000)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    rows[["ill", "pain", "patient", "age"]].to_csv(tmp_path / "other.csv", index=False, sep=";")
    rows[["pain", "age", "patient"]].to_parquet(tmp_path / "rows.parquet")
    first = skipring_words("predict", str(model), "rows.csv", "--out", "0.csv", "--json").data
    monkeypatch.setattr(schema_tables, "_BLOCK", 2000)
    monkeypatch.setattr(schema_tables, "_ROWS", 7)
    monkeypatch.setattr(tables, "_ROWS", 50)
    blocks = list(schema_tables.rows_of_file(tmp_path / "rows.csv", Schema.of(COLUMNS)))
    assert len(blocks) > 10
    for number, name in enumerate(("rows.csv", "other.csv", "rows.parquet"), start=1):
        told = skipring_words("predict", str(model), name, "--out", f"{number}.csv", "--json")
        assert told.code == 0, told.err
        assert (tmp_path / f"{number}.csv").read_bytes() == (tmp_path / "0.csv").read_bytes()
        if name == "rows.parquet":
            assert told.data["metrics"] is None
        else:
            assert told.data["metrics"] == pytest.approx(first["metrics"])


def test_frames_of_polars_are_predicted_as_those_of_pandas(tmp_path: Path) -> None:
    polars: Any = pytest.importorskip("polars")
    model, rows = load_model(saved(tmp_path / "model.npz")), table()
    frame = polars.DataFrame({name: rows[name].tolist() for name in ("pain", "age", "patient")})
    kinds = polars.Enum(["none", "some", "much"])
    for given in (
        frame,
        frame.with_columns(polars.col("pain").cast(polars.Categorical)),
        frame.with_columns(polars.col("pain").cast(kinds), polars.col("age").cast(polars.Float32)),
        frame.with_columns(polars.lit(None).alias("ill")),
    ):
        np.testing.assert_array_equal(model.predict(given), model.predict(rows))
        np.testing.assert_array_equal(model.predict_proba(given), model.predict_proba(rows))


def test_numbers_are_amounts(tmp_path: Path, skipring_words: Command) -> None:
    columns = [*COLUMNS[:2], {"name": "days", "label": True, "range": [0, 40]}]
    model = saved(tmp_path / "model.npz", columns, "squared")
    rows = table().drop(columns=["ill", "patient"]).assign(days=lambda frame: frame["age"] / 2.0)
    rows.to_csv(tmp_path / "rows.csv", index=False)
    told = skipring_words("predict", str(model), "rows.csv", "--json").data
    head, *found = lines(tmp_path / "predictions.csv")
    assert head == ["prediction"]
    said, days = np.array(found, float)[:, 0], rows["days"].clip(0, 40)
    np.testing.assert_allclose(said, load_model(model).predict(rows), rtol=1e-8)
    assert told["metrics"]["rmse"] == pytest.approx(np.sqrt(np.mean((said - days) ** 2)), rel=1e-6)
    assert told["metrics"]["guessed_rmse"] == pytest.approx(days.std(ddof=0))
    assert "by always guessing the mean" in skipring_words("predict", str(model), "rows.csv", "--force").out


def test_a_simulation_saves_the_model_of_a_run_that_it_names(tmp_path: Path, skipring_words: Command) -> None:
    table().assign(age=lambda frame: frame["age"] + 0.5, pain=2.5).to_csv(tmp_path / "rows.csv", index=False)
    (tmp_path / "run.toml").write_text(
        '[data]\npath = "rows.csv"\nlabel = "ill"\nperson = "patient"\nnodes = 4\n[schedule]\n'
        'name = "random-ring"\nsteps = 20\n'
        "[privacy]\nnoise_multiplier = 3.0\n[simulation]\nruns = 2\n"
    )
    done = skipring_words("simulate", "run.toml", "--save-model", "model.npz", "--model-run", "1")
    assert done.code == 0, done.err
    assert "The model of run number 1 (from 0) is model.npz" in " ".join(done.out.split())
    # Without a schema columns are found by their names all the same.
    table(5).assign(pain=2.5)[["pain", "patient", "age"]].to_csv(tmp_path / "new.csv", index=False)
    told = skipring_words("predict", "model.npz", "new.csv")
    assert told.code == 0, told.err
    assert lines(tmp_path / "predictions.csv")[0] == HEAD
    words = " ".join(told.out.split())
    assert "protects one record of any node of such a run, named beforehand (replace-one) against another node" in words
    assert "Not covered: features are standardised" in words
    told = skipring_words("simulate", "run.toml", "--save-model", "model.npz", "--out", "again", "--json").data
    assert (told["model"], told["model_run"]) == ("model.npz", 0)


@pytest.mark.parametrize("label", [{"categories": ["no", "yes"]}, {"range": [0, 9]}])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("block", [7, 1 << 16])
def test_a_label_column_without_any_value_is_as_good_as_none(
    tmp_path: Path,
    skipring_words: Command,
    monkeypatch: pytest.MonkeyPatch,
    label: dict[str, Any],
    ending: str,
    block: int,
) -> None:
    columns = [*COLUMNS[:3], {"name": "ill", "label": True} | label]
    model = saved(tmp_path / "model.npz", columns, "logistic" if "categories" in label else "squared")
    monkeypatch.setattr(schema_tables, "_ROWS", block)
    monkeypatch.setattr(schema_tables, "_BLOCK", 20 * block)

    def told(rows: pd.DataFrame, out: str) -> Any:
        file = f"{out}.{ending}"
        rows.to_csv(tmp_path / file, index=False) if ending == "csv" else rows.to_parquet(tmp_path / file, index=False)
        return skipring_words("predict", str(model), file, "--out", f"{out}-said.csv")

    rows = table(20)
    assert told(rows.drop(columns="ill"), "without").code == 0
    blank = told(rows.assign(ill=None), "blank")
    assert blank.code == 0, blank.err
    assert lines(tmp_path / "blank-said.csv") == lines(tmp_path / "without-said.csv")
    assert "There are no metrics: column 'ill', the label, has no value in any row." in " ".join(blank.out.split())
    assert "guessing" not in blank.out
    value = "yes" if "categories" in label else "4"
    for place, said in ((0, 2), (19, 1)):  # in the last block, or in the first
        partly = told(rows.assign(ill=[value if row == place else None for row in range(20)]), f"partly{place}")
        assert partly.code == 2
        if block > 20:
            assert f"column 'ill', row {said}: every row needs a label" in partly.err
        assert "every row needs a label; to predict, leave the column out" in partly.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("age,pain,patient\n30,none\n", "a row has 2 values for 3 columns"),
        ("age,pain,patient\n30,hurt,p\n", "column 'pain', row 1: 'hurt' is not one of the categories"),
        ("age,patient\n30,p\n", "has no column 'pain', which the schema has"),
        ("age,pain,patient,dose\n30,none,p,1\n", "has a column 'dose', which the schema does not have"),
        ("age,pain,patient\nold,none,p\n", "'old' is not a number"),
        ("age,pain,patient\n", "has no rows"),
        ("", "empty"),
    ],
)
def test_bad_rows_are_refused_in_one_line(tmp_path: Path, skipring_words: Command, text: str, said: str) -> None:
    saved(tmp_path / "model.npz")
    (tmp_path / "rows.csv").write_text(text)
    told = skipring_words("predict", "model.npz", "rows.csv")
    assert told.code == 2
    assert said in told.err
    assert told.err.startswith("error: ROWS rows.csv")
    assert len(told.err.splitlines()) == 1
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model.npz", "rows.csv"]


def test_texts_of_a_model_do_not_reach_the_terminal_as_commands(tmp_path: Path, skipring_words: Command) -> None:
    """A model is somebody's file: its words may not colour, move or hide what is printed around them."""
    refused = dataclasses.replace(GUARANTEE, epsilon=None, refused="why\r\x1b]0;not\x07", sees="\x9b2J")
    stated = dataclasses.replace(
        GUARANTEE, whose="a\x1b[31m\nb", method="\u202e\x07tight", not_covered="c\x1b[8m", also=(refused,)
    )
    made = load_model(saved(tmp_path / "model.npz"))
    facts = dataclasses.replace(made.facts, guarantee=stated, source="d\x1b[8m")
    TrainedModel(facts, made.inputs, made.parameters).save(tmp_path / "model.npz")
    table().to_csv(tmp_path / "rows.csv", index=False)
    told = skipring_words("predict", "model.npz", "rows.csv")
    assert told.code == 0, told.err
    assert all(letter.isprintable() for letter in told.out.replace("\n", ""))
    words = " ".join(told.out.split())
    assert r"of a\x1b[31m\nb (replace-one)" in words
    assert r"\u202e\x07tight" in words
    other = dataclasses.replace(facts, name="none\x1b[31m:network")
    TrainedModel(other, made.inputs, made.parameters).save(tmp_path / "other.npz")
    refusal = skipring_words("predict", "other.npz", "rows.csv", "--force")
    assert refusal.code == 2
    assert all(letter.isprintable() for letter in refusal.err.replace("\n", ""))


def test_bad_files_are_refused_in_one_line(tmp_path: Path, skipring_words: Command) -> None:
    saved(tmp_path / "model.npz")
    table().to_csv(tmp_path / "rows.csv", index=False)
    words = {
        ("rows.csv", "rows.csv"): "MODEL rows.csv: is no model of skipring",
        ("none.npz", "rows.csv"): "MODEL none.npz: there is no such file",
        ("model.npz", "none.csv"): "ROWS none.csv: there is no such file",
        ("model.npz", "model.npz"): "ROWS model.npz: must be a file that ends in",
        ("model.npz", "rows.csv", "--out", "rows.csv"): "--out rows.csv: exists already",
        ("model.npz", "rows.csv", "--out", "no/where.csv"): "--out no/where.csv: cannot be written",
    }
    for given, said in words.items():
        told = skipring_words("predict", *given)
        assert (told.code, len(told.err.splitlines())) == (2, 1)
        assert said in told.err
