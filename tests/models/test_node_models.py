"""Models of nodes with files of their own: rows are scaled as the node scaled its own, or nobody knows how."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.data import read_table, read_with_schema
from skipring.data.prepare import _test_rows
from skipring.errors import InvalidInput
from skipring.models import TrainedModel, load_model
from skipring.network.node import NodeFacts, OwnData, make_learner, write_node_model
from skipring.network.protocol import Token
from skipring.privacy import Guarantee
from skipring.runs import RunFile, parse_run, stream

COLUMNS = [
    {"name": "age", "range": [20, 80]},
    {"name": "dose", "range": [0, 8]},
    {"name": "ill", "label": True, "categories": ["no", "yes"]},
]
GUARANTEE = Guarantee(
    protects="node",
    whose="node b",
    against="another node",
    sees="which sees the token",
    method="own account",
    delta=1e-5,
    epsilon=1.0,
)


def table(path: Path) -> Path:
    rng = np.random.default_rng(7)
    rows = zip(rng.uniform(10, 90, 60), rng.uniform(0, 9, 60), strict=True)
    lines = [f"{age:.3f},{'yes' if age - 8 * dose > 10 else 'no'},{dose:.3f}" for age, dose in rows]
    path.write_text("\n".join(["age,ill,dose", *lines]) + "\n")
    return path


def kept(tmp_path: Path, run: RunFile) -> tuple[TrainedModel, Any, np.ndarray[Any, Any]]:
    """Write and load the model of a node; return it with the node's learner and its parameters."""
    data = OwnData(path=table(tmp_path / "rows.csv"), label="ill")
    if run.table is None:  # arrays, since a table would need a schema
        cells = np.array([line.split(",") for line in (tmp_path / "rows.csv").read_text().splitlines()[1:]])
        features = cells[:, [0, 2]].astype(float)
        np.savez(tmp_path / "rows.npz", X=features, y=cells[:, 1], feature_names=np.array(["age", "dose"]))
        data = OwnData(path=tmp_path / "rows.npz", label="y")
    learner, inputs = make_learner(run, index=1, nodes=3, name="b", data=data, rng=np.random.default_rng(1))
    parameters = np.random.default_rng(2).normal(size=learner.shape).astype(learner.dtype)
    about = NodeFacts("b", run, "00ff", GUARANTEE)
    facts = write_node_model(
        tmp_path / "model.npz", Token(5, parameters.tobytes(), b""), inputs, about, learner.dtype.str
    )
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.facts == facts
    np.testing.assert_array_equal(loaded.parameters, parameters)
    return loaded, learner, parameters


@pytest.mark.parametrize("schema", [True, False])
@pytest.mark.parametrize("features", ["none", "random-fourier:32"])
def test_the_error_is_the_one_that_the_node_measures(tmp_path: Path, schema: bool, features: str) -> None:
    model = {"name": "logistic", "intercept": True, "features": features}
    values: dict[str, Any] = {"model": model, "privacy": {"protects": "node"}}
    if schema:
        values["column"] = COLUMNS
    else:
        values |= {"data": {"standardise": False}}
        values["model"]["classes"] = ["no", "yes"]
    run = parse_run(values)
    loaded, learner, parameters = kept(tmp_path, run)
    path = tmp_path / "rows.csv"
    data = read_table(tmp_path / "rows.npz", label="y") if run.table is None else read_with_schema(path, run.table)
    test = _test_rows(data, stream(run, 2**32 - 1, *b"b"), run.data.test_share)
    cells = np.array([line.split(",") for line in path.read_text().splitlines()[1:]])
    rows = {"dose": cells[test, 2].astype(float), "age": cells[test, 0].astype(float)}
    wrong = loaded.predict(rows) != cells[test, 1]
    assert np.mean(wrong) == pytest.approx(learner.test_error(parameters))


def test_scales_of_a_nodes_own_rows_are_in_no_file(tmp_path: Path) -> None:
    run = parse_run({"model": {"name": "logistic", "classes": ["no", "yes"]}, "privacy": {"protects": "node"}})
    loaded, _, _ = kept(tmp_path, run)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert set(file) == {"about", "classes", "parameters"}
    with pytest.raises(InvalidInput, match="each node scaled its rows by their own means"):
        loaded.predict([[50.0, 4.0]])
    assert loaded.facts.guarantee == GUARANTEE


def test_a_folder_without_a_journal_has_no_model(tmp_path: Path, skipring: Any) -> None:
    told = skipring(f"node model {tmp_path}")
    assert told.code == 2
    assert "is not the folder of a node" in told.err
    assert len(told.err.splitlines()) == 1


def test_a_nodes_file_has_the_weights_that_do_not_learn_and_no_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    (tmp_path / "kept_networks.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def small():\n"
        "    layers = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))\n"
        "    layers[0].requires_grad_(False)\n"
        "    layers.odd = nn.Parameter(torch.randint(9, (3,), dtype=torch.int8), requires_grad=False)\n"
        "    return layers\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    model = {"name": "kept_networks:small", "device": "cpu"}
    values = {"column": COLUMNS, "model": model, "learning": {"gradient_bound": 1.0}, "simulation": {"seed": 77}}
    run = parse_run(values | {"privacy": {"protects": "node"}})
    loaded, learner, parameters = kept(tmp_path, run)
    assert run.table is not None
    data = read_with_schema(tmp_path / "rows.csv", run.table)
    test = _test_rows(data, stream(run, 2**32 - 1, *b"b"), run.data.test_share)
    cells = np.array([line.split(",") for line in (tmp_path / "rows.csv").read_text().splitlines()[1:]])
    rows = {"dose": cells[test, 2].astype(float), "age": cells[test, 0].astype(float)}
    assert np.mean(loaded.predict(rows) != cells[test, 1]) == pytest.approx(learner.test_error(parameters))
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        assert "seed" not in str(file["about"])
        assert file["fixed"].shape == (4 * 9 + 3,)
    short = TrainedModel(loaded.facts, loaded.inputs, loaded.parameters, loaded.fixed[:-1])
    with pytest.raises(InvalidInput, match="other weights that do not learn than the 38 bytes"):
        short.predict(rows)
