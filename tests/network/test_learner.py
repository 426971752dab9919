"""What a node with a linear model computes: the simulator's update, on its own rows, whatever comes in."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import subprocess
import sys
import tracemalloc
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from skipring.data import Scaling
from skipring.errors import InvalidInput
from skipring.learning import SQUARED, LinearLearner, LinearModel, Protection
from skipring.learning.reference import gradient as gradient_of
from skipring.network.node import OwnData, make_learner
from skipring.runs import RunFile, example_run_file, parse_run, with_changes
from skipring.simulation import build, simulate
from skipring.simulation.engine import run_one

SHARED = OwnData()

NODE = "privacy.protects=node"  # the least that a node of its own has to say


class Recorded:
    """Noise that remembers what it was added to, and what it was."""

    def __init__(self, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.before: list[NDArray[Any]] = []
        self.noise: list[NDArray[Any]] = []

    def add(self, vector: NDArray[Any], std: float) -> None:
        self.before.append(vector.copy())
        self.noise.append(std * self.rng.standard_normal(len(vector)))
        vector += self.noise[-1]


def learner(run: RunFile, index: int = 0, nodes: int = 5, data: OwnData = SHARED, name: str = "ann") -> LinearLearner:
    made, _ = make_learner(run, index=index, nodes=nodes, name=name, data=data, rng=np.random.default_rng(3))
    assert isinstance(made, LinearLearner)
    return made


def quiet_step(made: LinearLearner, w: NDArray[Any], step_size: float = 0.5) -> NDArray[Any]:
    return made.update(w, turn=0, step_size=step_size, noise_multiplier=0.0, noise=Recorded())


@pytest.fixture(scope="module")
def prices(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file whose labels are numbers, with 100 rows: the same number for each of 5 nodes once 20 are set aside."""
    path = tmp_path_factory.mktemp("prices") / "prices.npz"
    rng = np.random.default_rng(5)
    x = rng.standard_normal((100, 4))
    np.savez(path, X=x, y=x @ [1.0, -2.0, 0.5, 0.0] + rng.standard_normal(100))
    return path


def run_of(kind: str, prices: Path, *changes: str) -> RunFile:
    data = {
        "logistic": ["data.name=breast-cancer"],
        "softmax": ["data.name=digits"],
        "squared": [f"data.path={prices}", "data.label=y", "model.label_bound=10"],
    }[kind]
    common = ["data.nodes=5", "schedule.steps=60", "delay.skip=0.2", "learning.rate=2", "privacy.noise_multiplier=0"]
    return with_changes(None, [NODE, *data, *common, *changes])


@pytest.mark.parametrize("kind", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("learning.gradient_bound=0.2",),
        ("model.ridge=0.3", "model.intercept=true"),
        ("learning.diameter=0.5", "data.split=dirichlet", "data.alpha=2"),
    ],
    ids=["plain", "clipped", "ridge", "small ball"],
)
def test_a_chain_of_updates_is_the_simulators(kind: str, changes: tuple[str, ...], prices: Path) -> None:
    """Without noise, and with all rows in every update, nothing is left to chance but the path."""
    run = run_of(kind, prices, *changes)
    setup = build(run)
    simulated = run_one(setup, 0)
    nodes = [learner(run, index) for index in range(5)]
    w = nodes[0].initial()
    assert nodes[0].test_error(w) == pytest.approx(simulated.test_error[0], abs=1e-6)  # all rows are ties
    sizes = iter(setup.step_sizes.first(setup.steps))
    for index in simulated.offered[simulated.updated]:
        w = quiet_step(nodes[index], w, float(next(sizes)))
    assert w == pytest.approx(simulated.model, abs=1e-6)
    assert nodes[2].test_error(w) == pytest.approx(simulated.test_error[-1], abs=1e-6)
    assert np.linalg.norm(w) <= nodes[0].radius * (1.0 + 1e-12)
    first = nodes[0]
    assert (first.name, first.shape, first.dtype.str) == (kind, (setup.model.parameters,), "<f8")
    assert (first.radius, first.gradient_bound) == (0.5 * setup.model.diameter, setup.model.gradient_bound)  # type: ignore[operator]
    assert [first.contracts(size) for size in (0.1, 50.0)] == [setup.model.contracts(size) for size in (0.1, 50.0)]
    if changes:  # they change something, or the comparison says nothing
        plain = run_one(build(run_of(kind, prices)), 0).model
        assert len(plain) != len(w) or not np.allclose(plain, w, atol=1e-3)


@pytest.mark.parametrize("kind", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize("bound", ["0.3", "100"])
def test_a_batch_is_drawn_without_replacement_and_used_once(kind: str, bound: str, prices: Path) -> None:
    """Nodes of 4 rows, batches of 2: each update is one of the six that are possible, by the plain formula."""
    run = run_of(kind, prices, "data.nodes=20", "learning.batch=2", f"learning.gradient_bound={bound}")
    if kind != "squared":
        run = with_changes(None, [NODE, *_small(kind), "learning.batch=2", f"learning.gradient_bound={bound}"])
    made = learner(run, 7, run.data.nodes or 0)
    model = build(run).model
    assert isinstance(model, LinearModel)
    rows = made.rows
    size = len(rows.train_x)
    assert size == 4
    w = np.random.default_rng(1).standard_normal(made.shape)
    w *= 0.5 * made.radius / np.linalg.norm(w)
    possible = {
        pair: w - 0.1 * gradient_of(model, w, rows.train_x[list(pair)], rows.train_y[list(pair)], 2)
        for pair in itertools.combinations(range(size), 2)
    }
    seen = []
    for turn in range(300):
        for _ in range(turn % 3):  # prepared or not, once or twice
            made.prepare()
        found = quiet_step(made, w.copy(), 0.1)
        seen += [pair for pair, expected in possible.items() if np.allclose(found, expected, atol=1e-12)]
        assert len(seen) == turn + 1
    # Every third turn nothing is prepared; the rows of the turn before come again one time in six, not always.
    assert 5 < sum(seen[turn] == seen[turn - 1] for turn in range(3, 300, 3)) < 35
    # 300 draws of six: a count is beyond 20 to 80 with probability 2e-5, for this seed not at all.
    assert set(seen) == set(possible)
    assert all(20 < seen.count(pair) < 80 for pair in possible)


def _small(kind: str) -> list[str]:
    """Shared data such that every node has 4 rows."""
    if kind == "logistic":  # 455 training rows
        return ["data.name=breast-cancer", "data.test_share=0.2", "data.nodes=113"]
    return ["data.name=digits", "data.test_share=0.2", "data.nodes=359"]  # 1438 training rows


def test_noise_is_added_to_the_clipped_gradient_and_nothing_else(prices: Path) -> None:
    run = run_of("softmax", prices, "learning.gradient_bound=0.4", "model.ridge=0.2", "learning.diameter=3")
    made, model, noise = learner(run, 1), build(run).model, Recorded(9)
    assert isinstance(model, LinearModel)
    w = np.random.default_rng(2).uniform(-0.1, 0.1, made.shape)
    found = made.update(w.copy(), turn=0, step_size=0.7, noise_multiplier=1.5, noise=noise)
    gradient = gradient_of(model, w, made.rows.train_x, made.rows.train_y, len(made.rows.train_y))
    assert noise.before[0] == pytest.approx(gradient, abs=1e-12)
    assert np.std(noise.noise[0]) == pytest.approx(1.5 * 0.4, rel=0.1)
    expected = w - 0.7 * (gradient + 0.2 * w + noise.noise[0])
    assert np.linalg.norm(expected) > 1.5
    assert found == pytest.approx(expected * 1.5 / np.linalg.norm(expected), abs=1e-12)


@pytest.mark.parametrize("split", ["iid", "dirichlet", "shards", "power-law"])
def test_a_node_has_the_rows_that_the_simulation_gives_it(split: str, prices: Path) -> None:
    run = run_of("logistic", prices, f"data.split={split}", "simulation.seed=11")
    setup = build(run)
    for index in range(5):
        rows = learner(run, index, name="other names change nothing").rows
        part = slice(setup.data.start[index], setup.data.start[index + 1])
        assert rows.train_x.tobytes() == setup.data.features[part].tobytes()
        assert rows.train_y.tobytes() == setup.data.labels[part].tobytes()
        assert rows.test_x.tobytes() == setup.test_x.tobytes()


def test_without_a_number_of_nodes_the_data_are_shared_by_the_network(prices: Path) -> None:
    open_run = with_changes(None, [NODE, f"data.path={prices}", "data.label=y", "model.label_bound=10"])
    said = learner(run_of("squared", prices), 4)
    assert learner(open_run, 4).rows.train_x.tobytes() == said.rows.train_x.tobytes()
    with pytest.raises(InvalidInput, match=r"data.nodes = 5: is how many nodes share the data, but the network has 6"):
        learner(run_of("squared", prices), 4, 6)


def test_the_nodes_column_of_shared_data_counts(tmp_path: Path) -> None:
    lines = [f"{row % 7},{row % 2},{'xyz'[row % 3]}" for row in range(42)]
    (tmp_path / "rows.csv").write_text("\n".join(["a,label,where", *lines]))
    path = f"data.path={tmp_path / 'rows.csv'}"
    run = with_changes(None, [NODE, path, "data.label=label", "data.node=where"])
    assert sum(len(learner(run, index, 3).rows.train_x) for index in range(3)) == 34
    with pytest.raises(InvalidInput, match="the network has 4 nodes"):
        learner(run, 0, 4)


def test_the_rows_of_others_are_forgotten(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "rows.npz", X=rng.standard_normal((20_000, 50)), y=np.arange(20_000) % 2)
    run = with_changes(None, [NODE, f"data.path={tmp_path / 'rows.npz'}", "data.label=y", "data.test_share=0.001"])
    tracemalloc.start()
    try:
        made = learner(run, 3, 100)
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made.rows.train_x) == 200
    assert most > 8e6  # all of the data, once
    assert kept < 1e6


# Files of a node's own


def write(path: Path, rows: Iterable[Sequence[Any]]) -> OwnData:
    """Write arrays, which need no schema: all but the last value of a row are features."""
    table = list(rows)
    np.savez(path, X=np.array([row[:-1] for row in table], float), outcome=np.array([row[-1] for row in table]))
    return OwnData(path=path, label="outcome")


def patients(count: int, labels: str = "sick well") -> list[tuple[object, ...]]:
    words = labels.split()
    rng = np.random.default_rng(count)
    kinds = [int(rng.integers(len(words))) for _ in range(count - len(words))] + list(range(len(words)))
    return [(50.0 + 9.0 * kind + rng.standard_normal(), rng.random(), words[kind]) for kind in kinds]


CLASSES = 'model.classes=["well", "sick"]'


def test_labels_are_classes_by_name_in_the_agreed_order(tmp_path: Path) -> None:
    data = write(tmp_path / "own.npz", patients(40))
    rows = learner(with_changes(None, [NODE, CLASSES]), data=data).rows
    assert (rows.classes, len(rows.train_x), len(rows.test_x)) == (2, 32, 8)
    # The sick, class 1, are older.
    assert rows.train_x[rows.train_y == 1, 0].mean() < rows.train_x[rows.train_y == 0, 0].mean()
    turned = learner(with_changes(None, [NODE, 'model.classes=["sick", "well"]']), data=data).rows
    assert turned.train_x.tobytes() == rows.train_x.tobytes()
    assert turned.train_y.tolist() == (1 - rows.train_y).tolist()
    made = learner(with_changes(None, [NODE, 'model.classes=["sick", "unsure", "well"]']), data=data)
    assert (made.name, made.shape, set(made.rows.train_y)) == ("softmax", (6,), {0, 2})


def test_own_test_rows_depend_on_seed_and_name_alone(tmp_path: Path) -> None:
    data = write(tmp_path / "own.npz", patients(40))
    run = with_changes(None, [NODE, CLASSES])

    def rows(name: str = "ann", index: int = 0, run: RunFile = run) -> bytes:
        return learner(run, index, data=data, name=name).rows.test_x.tobytes()

    assert rows() == rows(index=3)
    assert len({rows(), rows("bob"), rows(run=with_changes(None, [NODE, CLASSES, "simulation.seed=2"]))}) == 3


def test_own_rows_are_scaled_by_what_this_node_has(tmp_path: Path) -> None:
    table = patients(40)
    data = write(tmp_path / "own.npz", table)
    run = with_changes(None, [NODE, CLASSES, "model.intercept=true", "data.unit_rows=false", "data.standardise=false"])
    with pytest.raises(InvalidInput, match=r"data.unit_rows = False: rows of the training data have norms above 1"):
        learner(run, data=data)
    rows = learner(with_changes(None, [NODE, CLASSES, "data.test_share=0.001"]), data=data).rows
    raw = np.array([row[:2] for row in table], dtype=float)
    tested = next(
        at for at in range(40) if np.allclose(Scaling.learn(np.delete(raw, at, 0)).apply(raw[[at]]), rows.test_x)
    )
    others = np.delete(raw, tested, 0)
    assert rows.train_x == pytest.approx(Scaling.learn(others).apply(others))
    with_constant = learner(with_changes(None, [NODE, CLASSES, "model.intercept=true"]), data=data)
    assert with_constant.shape == (3,)
    assert np.linalg.norm(with_constant.rows.train_x, axis=1) == pytest.approx(1.0)


def test_all_training_rows_of_a_node_may_be_of_one_class(tmp_path: Path) -> None:
    """The one sick row is for testing at some node, whatever its name."""
    data = write(tmp_path / "own.npz", [*patients(5, "well"), (70.0, 0.5, "sick")])
    run = with_changes(None, [NODE, CLASSES, "data.test_share=0.5"])
    kinds = {frozenset(learner(run, data=data, name=f"node{number}").rows.train_y.tolist()) for number in range(20)}
    assert kinds == {frozenset([0]), frozenset([0, 1])}


def test_numbers_are_classes_only_if_that_was_agreed_on(tmp_path: Path) -> None:
    """Alone, a file does not tell: few whole numbers look like classes, many like amounts."""
    few = write(tmp_path / "few.npz", [(age, 1, age % 3) for age in range(20)])
    many = write(tmp_path / "many.npz", [(age, 1, age) for age in range(20)])
    classes = json.dumps([str(number) for number in range(20)])
    as_classes = with_changes(None, [NODE, f"model.classes={classes}"])
    assert [learner(as_classes, data=data).shape for data in (few, many)] == [(40,), (40,)]
    as_numbers = with_changes(None, [NODE, "model.label_bound=19"])
    for data, largest in ((few, 2.0), (many, 19.0)):
        made = learner(as_numbers, data=data)
        assert (made.name, made.gradient_bound) == ("squared", 5.0 + 19.0)
        assert np.abs([*made.rows.train_y, *made.rows.test_y]).max() == largest


@pytest.mark.parametrize(
    ("labels", "changes", "said"),
    [
        ("sick well", [], "model.classes = missing: nodes with files of their own must agree on the classes"),
        (
            "sick unsure",
            [CLASSES],
            "data.label = outcome: own has the label 'unsure' there, and model.classes are 'well'",
        ),
        ("1 2", [CLASSES], "has the label '1' there"),
        ("sick well", ["model.label_bound=3"], "model.label_bound = 3.0: own has labels such as 'sick', 'well'"),
        ("nan inf", ["model.label_bound=3"], "must be finite numbers"),
        (
            "sick well",
            ["model.name=squared", "learning.gradient_bound=3"],
            "model.name = squared: own has labels such as 'sick', 'well'",
        ),
        ("1 2 3.5", ["model.name=squared"], "model.classes = missing: nodes with files of their own must agree"),
        ("1 2 1e300", ["model.label_bound=3"], "labels = 1e+300 in the test data: must be at most 1e+150"),
        ("sick well", [CLASSES, "model.columns=3"], "model.columns = 3: own.npz has 2 features"),
        ("sick well", [CLASSES, "learning.batch=33"], "learning.batch = 33: must be at most 32"),
        ("sick well", [CLASSES, "learning.batch=0"], "learning.batch = 0: must be a whole number of at least 1"),
        ("sick well", [CLASSES, "model.name=squared"], "model.name = squared: the labels have 2 classes; use logistic"),
        ("1 2", ["model.label_bound=3", "model.name=logistic"], "model.name = logistic: the labels have no classes"),
        (
            "sick well",
            [CLASSES, "learning.clip_noisy=1"],
            "learning.clip_noisy = 1.0: is for schedules without a token",
        ),
        ("sick well", [CLASSES, "simulation.seed=-1"], "simulation.seed = -1"),
        ("sick sick", [CLASSES], "there is nothing to learn"),
    ],
)
def test_own_files_that_do_not_fit_get_one_line(tmp_path: Path, labels: str, changes: list[str], said: str) -> None:
    data = write(tmp_path / "own.npz", patients(40, labels))
    with pytest.raises(InvalidInput) as refusal:
        learner(with_changes(None, [NODE, *changes]), data=data)
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_file_needs_a_label_and_a_label_a_file(tmp_path: Path) -> None:
    data = write(tmp_path / "own.npz", patients(40))
    run = with_changes(None, [NODE, CLASSES])
    with pytest.raises(InvalidInput, match=r"data.label = missing"):
        learner(run, data=OwnData(path=data.path))
    with pytest.raises(InvalidInput, match=r"data.label = outcome: .* data.path is missing"):
        learner(run, data=OwnData(label="outcome"))
    with pytest.raises(InvalidInput, match=r"data.label = result: own.npz has no such array"):
        learner(run, data=OwnData(path=data.path, label="result"))
    with pytest.raises(InvalidInput, match=r"data.path = .*none.npz: there is no such file"):
        learner(run, data=OwnData(path=tmp_path / "none.npz", label="outcome"))


def test_a_table_of_a_nodes_own_needs_a_schema(tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("age,outcome\n" + "".join(f"{age},{age % 2}\n" for age in range(40)))
    data = OwnData(path=tmp_path / "own.csv", label="outcome")
    with pytest.raises(InvalidInput, match=r"own.csv: a node's own table needs a schema .*; skipring schema FILE --la"):
        learner(with_changes(None, [NODE, 'model.classes=["0", "1"]']), data=data)
    label = {"name": "outcome", "label": True, "categories": ["0", "1"]}
    run = parse_run({"column": [{"name": "age", "range": [0, 40]}, label], "privacy": {"protects": "node"}})
    assert len(learner(run, data=data).rows.train_x) == 32


@pytest.mark.parametrize(("index", "nodes"), [(5, 5), (-1, 5), (0, 0)])
def test_a_node_has_a_number(index: int, nodes: int, prices: Path) -> None:
    with pytest.raises(InvalidInput, match=r"index|nodes"):
        learner(run_of("squared", prices), index, nodes)


# Whatever comes in


@pytest.fixture(scope="module")
def everyone(prices: Path) -> Mapping[str, LinearLearner]:
    changes = {"logistic": ["learning.diameter=inf"], "softmax": ["learning.diameter=inf"], "squared": []}
    return {kind: learner(run_of(kind, prices, *more)) for kind, more in changes.items()}


@pytest.mark.parametrize("kind", ["logistic", "softmax", "squared"])
@given(size=st.floats(0.0, 1e150), seed=st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_what_the_noise_hides_is_bounded_for_any_parameters(
    everyone: Mapping[str, LinearLearner], kind: str, size: float, seed: int
) -> None:
    """Honest nodes keep them in the ball, but the promise must not rest on it."""
    made, noise = everyone[kind], Recorded()
    w = np.random.default_rng(seed).standard_normal(made.shape)
    w *= size / np.linalg.norm(w)
    found = made.update(w, turn=0, step_size=1e-3, noise_multiplier=0.1, noise=noise)
    assert np.isfinite(found).all()
    assert np.linalg.norm(noise.before[0]) <= made.gradient_bound * (1.0 + 1e-12)


@pytest.mark.parametrize("kind", ["logistic", "softmax"])
def test_large_margins_do_not_overflow(everyone: Mapping[str, LinearLearner], kind: str) -> None:
    """Far out a row's gradient is 0, or as long as it can be: the limit of the formula."""
    made, noise = everyone[kind], Recorded()
    w = 1e6 * np.random.default_rng(1).standard_normal(made.shape)
    made.update(w.copy(), turn=0, step_size=1.0, noise_multiplier=1.0, noise=noise)
    x, y = made.rows.train_x, made.rows.train_y
    if kind == "logistic":
        expected = -(((2 * y - 1) * (x @ w) < 0) * (2 * y - 1)) @ x / len(y)
    else:
        chosen = np.argmax(x @ w.reshape(10, -1).T, axis=1)
        expected = ((np.eye(10)[chosen] - np.eye(10)[y]).T @ x / len(y)).ravel()
    assert noise.before[0] == pytest.approx(expected, abs=1e-12)


def test_parameters_that_cannot_be_this_models_are_refused(everyone: Mapping[str, LinearLearner]) -> None:
    made = everyone["squared"]
    for wrong in (np.zeros(5), np.zeros((4, 1)), np.zeros(4, np.float32), np.zeros(4, ">f8")):
        with pytest.raises(InvalidInput, match=r"\(4,\) of float64, as this node's model is"):
            quiet_step(made, wrong)
        with pytest.raises(InvalidInput, match="as this node's model is"):
            made.test_error(wrong)
    for worth in (math.nan, math.inf, -math.inf):
        with pytest.raises(InvalidInput, match="infinite or not a number"):
            quiet_step(made, np.array([0.0, 0.0, worth, 1.0]))
    with pytest.raises(InvalidInput, match="step_size"):
        quiet_step(made, np.zeros(4), 0.0)
    with pytest.raises(InvalidInput, match="noise_multiplier"):
        made.update(np.zeros(4), turn=0, step_size=1.0, noise_multiplier=-1.0, noise=Recorded())


def test_parameters_that_cannot_be_written_will_do(everyone: Mapping[str, LinearLearner]) -> None:
    """A token's bytes are read where they are."""
    made = everyone["squared"]
    token = np.frombuffer(np.full(4, 0.25, "<f8").tobytes(), "<f8")
    assert quiet_step(made, token).tolist() == quiet_step(made, np.full(4, 0.25)).tolist()


def test_a_node_needs_nothing_heavy(tmp_path: Path) -> None:
    data = write(tmp_path / "own.npz", patients(40))
    program = f"""
import sys, numpy as np
from skipring.network.node import OwnData
from skipring.network.node import make_learner
from skipring.runs import parse_run
run = parse_run({{"model": {{"classes": ["well", "sick"]}}, "privacy": {{"protects": "node"}}}})
made, _ = make_learner(run, index=0, nodes=3, name="ann",
    data=OwnData(path={str(data.path)!r}, label="outcome"), rng=np.random.default_rng())
made.update(made.initial(), turn=0, step_size=0.1, noise_multiplier=0.0, noise=None)
print([name for name in ("torch", "numba", "sklearn", "scipy.stats", "grpc", "cryptography") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "[]"


# Run files


def test_run_files_name_models_that_exist() -> None:
    for name in ("logistic", "softmax", "squared", "cnn", "small-cnn", "mine:net", "a.b_c.d:Net2"):
        assert parse_run({"model": {"name": name}}).model.name == name
    for name in ("hinge", "", "mine:", ":net", "mine:net()", "a b:c", "mine:net:again", "../mine:net", "mine.:net"):
        with pytest.raises(
            InvalidInput,
            match=r"model.name = .*must be logistic, softmax, squared, .*cnn, small-cnn or module:function",
        ):
            parse_run({"model": {"name": name}})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            "delay.timeout=adaptive",
            "delay.timeout = adaptive: only a network's nodes can learn a timeout from what they see; use most-updates",
        ),
    ],
)
@pytest.mark.parametrize("schedule", ["ring", "gossip"])
def test_what_only_nodes_can_do_is_not_simulated(change: str, said: str, schedule: str) -> None:
    # The data are not even looked for.
    run = with_changes(None, [NODE, change, f"schedule.name={schedule}", "data.path=none.csv", "data.label=y"])
    with pytest.raises(InvalidInput) as refusal:
        simulate(run)
    assert str(refusal.value).startswith(said)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ('model.classes=["a"]', "at least two names"),
        ('model.classes=["a", "b", "a"]', "all different"),
        ("model.classes=[0, 1]", "a text in quotes"),
        ("model.columns=0", "model.columns = 0"),
        ("model.label_bound=0", "model.label_bound = 0"),
        ("model.label_bound=inf", "model.label_bound = inf"),
        ("delay.timeout=later", "delay.timeout = later"),
    ],
)
def test_an_agreement_must_be_one(change: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        with_changes(None, [NODE, change])
    assert said in str(refusal.value)


def test_labels_are_classes_or_numbers() -> None:
    with pytest.raises(InvalidInput, match="give either classes or label_bound, not both"):
        parse_run({"model": {"classes": ["a", "b"], "label_bound": 1.0}})
    changed = with_changes(None, [NODE, "model.label_bound=2", CLASSES]).model
    assert (changed.classes, changed.label_bound) == (["well", "sick"], None)


def test_an_agreement_also_holds_for_data_that_are_shared(prices: Path) -> None:
    agreed = ['model.classes=["malignant", "benign"]', "model.columns=30"]
    for read in (build, learner):
        read(run_of("logistic", prices, *agreed))
        for change, said in (
            ('model.classes=["benign", "malignant"]', "breast-cancer has the classes 'malignant', 'benign'"),
            ("model.columns=31", "breast-cancer has 30 features"),
            ("model.label_bound=1", "has classes, not numbers"),
        ):
            with pytest.raises(InvalidInput, match=said):
                read(run_of("logistic", prices, change))
        with pytest.raises(InvalidInput, match="prices has numbers as labels"):
            read(run_of("squared", prices, CLASSES))
    bounded = run_of("squared", prices, "model.label_bound=50")
    assert build(bounded).model.gradient_bound == learner(bounded).gradient_bound == 55.0


def test_a_node_clips_its_labels_as_the_simulator_does_and_says_how_many(prices: Path) -> None:
    run = run_of("squared", prices, "model.label_bound=1")
    setup, nodes = build(run), [learner(run, index) for index in range(5)]
    assert [*itertools.chain(*(made.rows.train_y for made in nodes))] == setup.data.labels.tolist()
    assert np.abs(setup.data.labels).max() == 1.0
    assert np.abs(nodes[0].rows.test_y).max() > 1.0  # errors are those of true labels
    assert nodes[0].rows.test_y.tolist() == setup.test_y.tolist()
    assert sum(made.labels_clipped for made in nodes) == setup.labels_clipped
    assert nodes[0].labels_clipped == (np.abs(nodes[0].rows.train_y) == 1.0).sum() > 0
    assert learner(run_of("squared", prices)).labels_clipped == 0
    # It clips them, and then learns from what it clipped.
    assert not np.allclose(
        quiet_step(nodes[0], np.zeros(4)), quiet_step(learner(run_of("squared", prices)), np.zeros(4))
    )


def test_labels_in_a_nodes_own_file_are_clipped_and_not_refused(tmp_path: Path) -> None:
    data = write(tmp_path / "own.npz", [(age, age % 5, 1.5 * age - 20.0) for age in range(40)])
    free, bounded = (learner(with_changes(None, [NODE, f"model.label_bound={most}"]), data=data) for most in (50, 8))
    assert bounded.rows.train_y.tolist() == free.rows.train_y.clip(-8.0, 8.0).tolist()
    assert bounded.labels_clipped == (np.abs(free.rows.train_y) > 8.0).sum() > 0
    assert np.abs(bounded.rows.test_y).max() > 8.0
    assert (free.gradient_bound, bounded.gradient_bound) == (55.0, 13.0)
    assert free.labels_clipped == 0


@pytest.mark.parametrize("bound", ["0.3", "1000"])
def test_with_a_bound_for_gradients_labels_need_none(prices: Path, tmp_path: Path, bound: str) -> None:
    own = write(tmp_path / "own.npz", [(age, age % 5, 1e10 * age) for age in range(40)])
    changes = [f"learning.gradient_bound={bound}", "model.name=squared"]
    for made in (
        learner(with_changes(None, [NODE, f"data.path={prices}", "data.label=y", *changes])),
        learner(with_changes(None, [NODE, *changes]), data=own),
    ):
        assert made.gradient_bound == float(bound)
        noise = Recorded()
        made.update(np.zeros(made.shape), turn=0, step_size=1.0, noise_multiplier=1.0, noise=noise)
        assert np.linalg.norm(noise.before[0]) <= float(bound) * (1.0 + 1e-12)


@pytest.mark.parametrize("noise", ["privacy.noise_multiplier=0", "privacy.noise_multiplier=1", "privacy.epsilon=8"])
def test_a_node_refuses_a_squared_loss_without_an_agreed_bound(prices: Path, noise: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        learner(with_changes(None, [NODE, f"data.path={prices}", "data.label=y", noise]))
    assert str(refusal.value).startswith("model.label_bound = missing: the noise follows from the largest label of all")


@pytest.mark.parametrize("worth", [math.nan, math.inf, 1e200])
@pytest.mark.parametrize("part", ["train_x", "test_x", "train_y", "test_y"])
def test_rows_and_labels_that_are_no_numbers_are_refused(prices: Path, part: str, worth: float) -> None:
    made = learner(run_of("squared", prices))
    spoilt = getattr(made.rows, part).copy()
    spoilt.flat[3] = worth
    rows = dataclasses.replace(made.rows, **{part: spoilt})
    model = build(run_of("squared", prices)).model
    assert isinstance(model, LinearModel)
    if part == "train_y" and worth == 1e200:  # its gradient is clipped like any other
        noise, harmless = (
            Recorded(),
            LinearLearner(model, rows, protection=Protection(unit="node"), rng=np.random.default_rng(3)),
        )
        harmless.update(np.zeros(4), turn=0, step_size=1.0, noise_multiplier=1.0, noise=noise)
        assert np.linalg.norm(noise.before[0]) <= harmless.gradient_bound
        return
    with pytest.raises(InvalidInput) as refusal:
        LinearLearner(model, rows, protection=Protection(unit="node"), rng=np.random.default_rng(3))
    assert refusal.value.parameter in ({"labels"} if part.endswith("y") else {"features", "unit_rows"})


@pytest.mark.parametrize("size", [1e-170, 1e-300, 1e-320, 0.0])
def test_what_the_noise_hides_is_bounded_for_tiny_rows_and_huge_labels(prices: Path, size: float) -> None:
    made = learner(run_of("squared", prices, "learning.gradient_bound=0.3"))
    few = made.rows.train_x[:2] * size
    rows = dataclasses.replace(made.rows, train_x=few, train_y=np.array([1e300, 1e308]))
    model = LinearModel(loss=SQUARED, features=4, diameter=10.0, label_bound=math.inf, clip=0.3)
    tiny, noise = (
        LinearLearner(model, rows, protection=Protection(unit="node"), rng=np.random.default_rng(3)),
        Recorded(),
    )
    tiny.update(np.zeros(4), turn=0, step_size=1.0, noise_multiplier=1.0, noise=noise)
    assert np.linalg.norm(noise.before[0]) <= 0.3


def test_a_run_file_comes_back_from_its_values() -> None:
    full = with_changes(None, [NODE, "model.columns=3", CLASSES])
    assert full.model_dump()["model"]["columns"] == 3
    assert RunFile.model_validate(full.model_dump()) == full
    assert RunFile.model_validate_json(full.model_dump_json()) == full
    with pytest.raises(InvalidInput, match=r"^model\.columns = 0"):
        parse_run({"model": {"columns": 0}})


def test_the_example_says_all_of_it() -> None:
    text = example_run_file()
    for word in ("# classes =", 'features = "none"', "# columns =", "# label_bound =", "module:function", '"adaptive"'):
        assert word in text
