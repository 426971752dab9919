"""A model that was saved and loaded predicts what the simulator tested, from arrays and from frames of any kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

import skipring
from skipring.data import Dataset
from skipring.data.prepare import _test_rows
from skipring.errors import InvalidInput
from skipring.estimator import SkipRingClassifier
from skipring.learning import MarginLoss
from skipring.models import Inputs, TrainedModel, load_model, predict_file
from skipring.privacy import OUTSIDER, WHOLE_NODE
from skipring.runs import RunFile, dataset_of, parse_run, stream
from skipring.simulation import Result, simulate

COLUMNS: list[dict[str, Any]] = [
    {"name": "age", "range": [20, 80]},
    {"name": "pain", "categories": {"none": ["1"], "some": ["2", "3"], "much": ["4"]}, "missing": "indicator"},
    {"name": "patient", "person": True},
    {"name": "ill", "label": True, "categories": ["no", "yes"]},
]
DAYS = [*COLUMNS[:2], {"name": "days", "label": True, "range": [0, 40]}]


def table(rows: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, pain = rng.integers(20, 90, rows), rng.integers(1, 5, rows)
    days = 0.2 * age + 2.0 * pain + rng.normal(0, 2, rows)
    ill = np.where(age + 8 * pain > 72, "yes", "no")
    patient = [f"p{row // 2}" for row in range(rows)]
    return pd.DataFrame({"ill": ill, "days": days, "age": age, "patient": patient, "pain": pain})


def trained(tmp_path: Path, values: dict[str, Any], **more: Any) -> tuple[RunFile, Result, TrainedModel]:
    common: dict[str, Any] = {
        "simulation": {"runs": 2},
        "privacy": {"noise_multiplier": 2.0},
        "schedule": {"name": "random-ring", "steps": 60},
    }
    run = parse_run(common | values)
    result = simulate(run, save_model=tmp_path / "model.npz", model_run=1, **more)
    return run, result, skipring.load_model(tmp_path / "model.npz")


def held_out(run: RunFile) -> tuple[Dataset, NDArray[np.bool_]]:
    data = dataset_of(run)
    return data, _test_rows(data, stream(run), run.data.test_share)


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ("breast-cancer", {}),
        ("breast-cancer", {"intercept": True}),
        ("breast-cancer", {"features": "random-fourier:64"}),
        ("breast-cancer", {"features": "random-fourier:64", "intercept": True}),
        ("breast-cancer", {"name": "softmax", "intercept": True}),
        ("breast-cancer", {"intercept": True, "intercept_share": 0.05}),
        ("digits", {}),
        ("digits", {"intercept": True, "features": "random-fourier:64"}),
    ],
)
def test_predictions_are_those_that_the_simulator_tested(tmp_path: Path, data: str, model: dict[str, Any]) -> None:
    run, result, loaded = trained(tmp_path, {"data": {"name": data, "nodes": 10}, "model": model})
    rows, test = held_out(run)
    said = loaded.predict(rows.features[test])
    assert np.mean(said != np.array(rows.classes)[rows.labels[test]]) == pytest.approx(result.test_error[1, -1])
    chances = loaded.predict_proba(rows.features[test])
    np.testing.assert_allclose(chances.sum(axis=1), 1.0)
    np.testing.assert_array_equal(loaded.classes[chances.argmax(axis=1)], said)
    assert loaded.facts.updates == result.updates[1, -1]
    for name in (OUTSIDER, WHOLE_NODE):
        stated = result.privacy.promised.beside(name)
        beside = loaded.facts.guarantee.beside(name)
        assert beside is not None
        assert stated is not None
        assert beside.epsilon == stated.epsilon
    assert loaded.facts.guarantee.epsilon == result.privacy.epsilon


def test_a_model_of_laps_scales_new_rows_by_published_ranges(tmp_path: Path) -> None:
    run, result, loaded = trained(tmp_path, {"data": {"nodes": 10}, "schedule": {"name": "laps"}})
    rows, test = held_out(run)
    said = loaded.predict(rows.features[test])
    assert np.mean(said != np.array(rows.classes)[rows.labels[test]]) == pytest.approx(result.test_error[1, -1])
    assert loaded.inputs.scaling is not None
    assert rows.ranges is not None
    np.testing.assert_array_equal(loaded.inputs.scaling.centre, rows.ranges.mean(axis=0))


@pytest.mark.parametrize("features", ["none", "random-fourier:64"])
def test_rows_of_a_schema_are_read_by_name(tmp_path: Path, features: str) -> None:
    frame = table()
    frame.drop(columns="days").to_csv(tmp_path / "rows.csv", index=False)
    data = {"path": str(tmp_path / "rows.csv"), "nodes": 5}
    run, result, loaded = trained(
        tmp_path,
        {"data": data, "column": COLUMNS, "model": {"features": features, "intercept": True, "intercept_share": 0.2}},
    )
    _, test = held_out(run)
    rows = frame[test].reset_index(drop=True)
    said = loaded.predict(rows[["pain", "age"]])
    assert np.mean(said != rows["ill"]) == pytest.approx(result.test_error[1, -1])
    given = [
        rows[["age", "pain"]].to_numpy(),
        rows[["age", "pain"]].to_numpy().astype(object),
        rows[["age", "patient", "ill", "pain"]],
        pa.table({"pain": rows["pain"].to_numpy(), "age": rows["age"].to_numpy()}),
        {"pain": rows["pain"].tolist(), "age": rows["age"].tolist()},
    ]
    for each in given:
        np.testing.assert_array_equal(loaded.predict(each), said)
    for wrong, why in ((rows[["age"]], "no column 'pain'"), (np.zeros((2, 4)), "rows of 2 columns (age, pain)")):
        with pytest.raises(InvalidInput, match=why.replace("(", r"\(").replace(")", r"\)")):
            loaded.predict(wrong)


def test_numbers_are_predicted_in_the_units_of_the_label(tmp_path: Path) -> None:
    frame = table().drop(columns=["ill", "patient"])
    frame.to_csv(tmp_path / "rows.csv", index=False)
    data = {"path": str(tmp_path / "rows.csv"), "nodes": 5}
    run, result, loaded = trained(
        tmp_path, {"data": data, "column": DAYS, "model": {"intercept": True}, "privacy": {"noise_multiplier": 0.05}}
    )
    _, test = held_out(run)
    rows = frame[test]
    said = loaded.predict(rows[["age", "pain"]])
    assert np.mean((said - rows["days"].clip(0, 40)) ** 2) == pytest.approx(result.test_error[1, -1], rel=1e-5)
    twin = loaded.to_sklearn()
    np.testing.assert_allclose(twin.predict(loaded.encode(rows[["age", "pain"]])), said, rtol=1e-6)
    with pytest.raises(InvalidInput, match="predicts numbers"):
        loaded.predict_proba(rows[["age", "pain"]])


def test_a_network_predicts_what_the_simulator_tested(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None
) -> None:
    (tmp_path / "predicting_networks.py").write_text(
        "from torch import nn\n"
        "def small():\n"
        "    layers = nn.Sequential(nn.Linear(30, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2))\n"
        "    layers[2].requires_grad_(False)\n"  # drawn with the seed, which is not in the file
        "    return layers\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    values = {"model": {"name": "predicting_networks:small", "device": "cpu"}, "learning": {"gradient_bound": 1.0}}
    run, result, loaded = trained(tmp_path, values | {"data": {"nodes": 10}})
    rows, test = held_out(run)
    features = rows.features[test]
    said = loaded.predict(features)
    assert np.mean(said != np.array(rows.classes)[rows.labels[test]]) == pytest.approx(result.test_error[1, -1])
    assert loaded.parameters.dtype == np.float32
    import torch

    scores = loaded.to_torch()(torch.from_numpy(loaded.encode(features).astype(np.float32)))
    np.testing.assert_array_equal(loaded.classes[scores.argmax(dim=1).numpy()], said)
    with pytest.raises(InvalidInput, match="no twin in scikit-learn"):
        loaded.to_sklearn()


def test_a_network_for_images_takes_rows_of_pixels(tmp_path: Path, one_thread: None) -> None:
    rng = np.random.default_rng(1)
    X, y = rng.random((40, 784)), np.arange(40) % 10
    values = {"model": {"name": "small-cnn", "device": "cpu"}, "learning": {"gradient_bound": 1.0}}
    settings = values | {
        "simulation": {"runs": 1},
        "privacy": {"noise_multiplier": 0.0},
        "schedule": {"name": "random-ring", "steps": 6},
    }
    run = parse_run(settings | {"data": {"nodes": 4}})
    result = simulate(run, X, y, save_model=tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    data = skipring.data.from_arrays(X, y)
    test = _test_rows(data, stream(run), 0.2)
    assert np.mean(loaded.predict(X[test]) != y[test].astype(str)) == pytest.approx(result.test_error[0, -1])
    assert loaded.facts.guarantee.epsilon is None
    assert "Nothing is promised for" in repr(loaded)


@pytest.mark.parametrize(
    ("data", "model"),
    [
        ("breast-cancer", {}),
        ("breast-cancer", {"intercept": True}),
        ("breast-cancer", {"name": "softmax", "intercept": True}),
        ("breast-cancer", {"intercept": True, "intercept_share": 0.05}),
        ("digits", {"intercept": True}),
    ],
)
def test_torch_and_scikit_learn_have_the_same_scores(tmp_path: Path, data: str, model: dict[str, Any]) -> None:
    import torch

    run, _, loaded = trained(tmp_path, {"data": {"name": data, "nodes": 10}, "model": model})
    features = dataset_of(run).features[:50]
    rows, twin = loaded.encode(features), loaded.to_sklearn()
    np.testing.assert_array_equal(twin.predict(rows), loaded.predict(features))
    np.testing.assert_allclose(twin.predict_proba(rows), loaded.predict_proba(features), rtol=1e-9)
    scores = loaded.to_torch()(torch.from_numpy(rows.astype(np.float32))).detach().numpy()
    np.testing.assert_allclose(scores.squeeze(), loaded.scores(loaded.inputs.values(features)), atol=1e-5)


@pytest.mark.parametrize("classes", [[0, 1], ["a", "b", "c"]])
def test_the_estimator_saves_what_it_predicts(tmp_path: Path, classes: list[Any]) -> None:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(200, 3)), columns=["age", "dose", "weight"])
    y = np.array(classes)[(X["age"] > 0).to_numpy().astype(int) * (len(classes) - 1)]
    y[:20] = classes[1]
    fitted = SkipRingClassifier(features="random-fourier:50").fit(X, y)
    fitted.save_model(tmp_path / "model.npz", made="2030-01-01")
    loaded = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(X[["weight", "age", "dose"]]), fitted.predict(X))
    np.testing.assert_allclose(loaded.predict_proba(X.to_numpy()), fitted.predict_proba(X), rtol=1e-6)
    assert loaded.predict(X).dtype == np.array(classes).dtype
    stated = loaded.facts.guarantee
    assert (stated.epsilon, stated.protects, stated.delta) == (fitted.epsilon_, fitted.protects_, fitted.delta)
    assert loaded.facts.made == "2030-01-01"
    assert "mean and standard deviation" in str(stated.not_covered)
    again = SkipRingClassifier(random_state=2, features="random-fourier:50").fit(X, y)
    assert again._run_digest == fitted._run_digest, "the seed is a secret"


@pytest.mark.parametrize(
    ("called", "known"), [("ill", "ill"), (None, None), (7, None), (" ", None), ("age", None)], ids=str
)
def test_the_estimator_saves_what_the_label_is_called(tmp_path: Path, called: Any, known: str | None) -> None:
    rng = np.random.default_rng(4)
    X = pd.DataFrame(rng.normal(size=(200, 2)), columns=["age", "dose"])
    y = pd.Series(np.where(X["age"] > 0, "yes", "no"), name=called)
    fitted = SkipRingClassifier(random_state=1).fit(X, y)
    fitted.save_model(tmp_path / "model.npz")
    loaded = load_model(tmp_path / "model.npz")
    assert loaded.inputs.label == known
    X.assign(**({} if known is None else {known: y})).to_csv(tmp_path / "rows.csv", index=False)
    metrics = predict_file(loaded, tmp_path / "rows.csv", tmp_path / "said.csv").metrics
    if known is None:
        assert metrics is None
    else:
        assert metrics is not None
        assert metrics.accuracy == pytest.approx(fitted.score(X, y))


def test_a_loss_of_ones_own_has_classes_but_no_probabilities(tmp_path: Path) -> None:
    hinge = MarginLoss(
        name="predicting-hinge",
        value=lambda m: np.where(m < 0.0, 0.5 - m, 0.5 * np.maximum(1.0 - m, 0.0) ** 2),
        slope=lambda m: np.clip(m - 1.0, -1.0, 0.0),
        bound=1.0,
        smoothness=1.0,
    )
    run, result, loaded = trained(tmp_path, {"data": {"nodes": 10}}, loss=hinge)
    rows, test = held_out(run)
    wrong = loaded.predict(rows.features[test]) != np.array(rows.classes)[rows.labels[test]]
    assert np.mean(wrong) == pytest.approx(result.test_error[1, -1])
    with pytest.raises(InvalidInput, match="only logistic loss"):
        loaded.predict_proba(rows.features[test])


def test_what_cannot_be_scaled_is_refused(tmp_path: Path) -> None:
    inputs = Inputs(
        columns=1, intercept=False, classes=np.array(["a", "b"]), why_unscaled="each node has scales of its own"
    )
    _, _, known = trained(tmp_path, {"data": {"nodes": 10}})
    unscaled = TrainedModel(known.facts, inputs, np.ones(1))
    unscaled.save(tmp_path / "other.npz")
    with pytest.raises(InvalidInput, match="each node has scales of its own"):
        load_model(tmp_path / "other.npz").predict([[1.0]])
    with pytest.raises(InvalidInput, match="does not know the names"):
        unscaled.predict({"a": [1.0]})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"model_run": 2}, "model_run = 2: must be the number of a run, from 0 to 1"),
        ({"keep_models": False}, "without keep_models"),
        ({"save_model": "nowhere/model.npz"}, "its folder does not exist"),
    ],
)
def test_a_model_that_cannot_be_saved_is_refused_before_anything_runs(
    tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        simulate({"simulation": {"runs": 2}}, **{"save_model": tmp_path / "model.npz"} | given)
