"""What a node of a network computes: one update of the model on its own rows, and the model's error on test rows.

`make_learner` reads what all nodes agreed on (the run file) and what is this node's own (its data), and returns a
`Learner`. A node without a file of its own takes the part of the shared data that a simulation of the same run file
gives to the node of that number. With a file of its own nobody sees all of the data, so the run file has to say what
the simulator would look up: the classes (`model.classes`), or for numbers the bound that labels are clipped to
(`model.label_bound`) or gradients are (`learning.gradient_bound`), for shared data too.

Whatever the rows are, and whatever parameters come in, the part of an update that depends on the rows is at most
`step_size` x `gradient_bound` long before the noise is added.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, read_table, require_finite_labels, require_unit_rows
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from ..learning import LinearModel
from ..simulation.runfile import RunFile
from ..simulation.simulate import (
    check_agreement,
    clipped_labels,
    in_words_of_the_run_file,
    label_bound_is_agreed,
    model_of,
    owned_rows,
    prepared_rows,
)
from .config import NodeData

__all__ = ["Batches", "Learner", "LinearLearner", "Noise", "Rows", "make_learner", "noise_std", "norm", "usable"]

Floats = NDArray[np.floating[Any]]
#: The stream of a node's own test rows; that of shared data has the same number, and no name after it.
_TEST_ROWS = 2**32 - 1
_PIECE = 1 << 16
#: Squares of larger numbers overflow, and with them the mean squared error.
_MOST_TEST_LABEL = 1e150


class Noise(Protocol):
    """Where Gaussian noise comes from."""

    def add(self, vector: NDArray[Any], std: float) -> None:
        """Add independent noise of this standard deviation to every number of a vector, in place."""


class Learner(Protocol):
    """A node's model and rows. One call at a time."""

    @property
    def name(self) -> str:
        """The model: logistic, softmax, squared, cnn or module:function."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the parameters are, little endian: double precision for linear models, single for networks."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of parameters."""

    @property
    def radius(self) -> float:
        """How far from 0 the parameters may be; infinity if there is no bound."""

    @property
    def gradient_bound(self) -> float:
        """The largest norm of the part of a gradient that depends on this node's rows, and the unit of the noise."""

    @property
    def labels_clipped(self) -> int:
        """How many labels of this node's training rows were clipped to the agreed bound: for its owner alone."""

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions, which amplification needs."""

    def initial(self) -> NDArray[Any]:
        """Return the parameters that a run starts with: the same at every node."""

    def prepare(self) -> None:
        """Choose the rows of the next update."""

    def update(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return project(w - step size x (clipped mean gradient + ridge x w + noise)); w may be overwritten."""

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or for numbers the mean squared error; nan if there are no test rows."""


@dataclass(frozen=True, eq=False)
class Rows:
    """A node's rows for training, and those that it is tested on. Without classes (0) the labels are numbers.

    Where a bound was agreed on, `labels_clipped` labels of training rows were clipped to it.
    """

    train_x: Floats
    train_y: NDArray[Any]
    test_x: Floats
    test_y: NDArray[Any]
    classes: int
    labels_clipped: int = 0


class Batches:
    """The rows of one update after the other: all of a node's rows, or some of them without replacement."""

    def __init__(self, rows: int, batch: int | None, rng: np.random.Generator) -> None:
        self._rows, self._batch, self._rng = rows, rows if batch is None else batch, rng
        self._next: NDArray[np.int64] | None = None

    def prepare(self) -> None:
        """Draw the rows of the next update."""
        if self._batch < self._rows:
            self._next = self._rng.choice(self._rows, self._batch, replace=False, shuffle=False)
        else:
            self._next = np.arange(self._rows)

    def take(self) -> NDArray[np.int64]:
        """Return rows that no update has taken yet: those that were prepared, or else new ones."""
        if self._next is None:
            self.prepare()
        taken, self._next = self._next, None
        assert taken is not None
        return taken


def make_learner(
    run: RunFile, *, index: int, nodes: int, name: str, data: NodeData, rng: np.random.Generator
) -> Learner:
    """Return what node `index` of `nodes` computes; `name` is its name, `data` its own settings, `rng` draws batches.

    The rows of other nodes are forgotten once the shared data are dealt.
    """
    require_integer("nodes", nodes, 1)
    if not 0 <= index < nodes:
        raise InvalidInput("index", index, f"a node's number, from 0 to {nodes - 1}")
    require_integer("simulation.seed", run.simulation.seed, 0)
    if data.label is not None and data.path is None:
        raise InvalidInput.because(
            "data.label", data.label, "is a column of the node's own file, but data.path is missing"
        )
    if run.learning.batch is not None:
        require_integer("learning.batch", run.learning.batch, 1)
    if run.learning.clip_noisy is not None:
        reason = "is for schedules without a token only"
        raise InvalidInput.because("learning.clip_noisy", run.learning.clip_noisy, reason)
    with in_words_of_the_run_file():
        rows = _part_of_shared(run, index, nodes) if data.path is None else _own_rows(run, data, name)
        if run.model.is_function or run.model.name == "cnn":
            from .learner_torch import network_learner  # PyTorch is loaded only where it is needed

            return network_learner(run, rows, rng)
        model = model_of(run, rows.classes, rows.train_x.shape[1])
        assert isinstance(model, LinearModel)
        return LinearLearner(model, rows, batch=run.learning.batch, rng=rng)


def _part_of_shared(run: RunFile, index: int, nodes: int) -> Rows:
    dataset, prepared, owned = owned_rows(run, usual_nodes=nodes)
    if owned.nodes != nodes:
        raise InvalidInput.because("nodes", owned.nodes, f"so many share the data, but the network has {nodes} nodes")
    _check_batch(run, int(owned.sizes.min()), "the smallest node")
    low, high = int(owned.start[index]), int(owned.start[index + 1])
    # Copies, since a view would keep the rows of everybody.
    features, (labels, clipped) = owned.features[low:high].copy(), clipped_labels(run, owned.labels[low:high].copy())
    return Rows(features, labels, prepared.test_x, prepared.test_y, len(dataset.classes), clipped)


def _own_rows(run: RunFile, data: NodeData, name: str) -> Rows:
    assert data.path is not None
    if data.label is None:
        raise InvalidInput.because("data.label", "missing", "say which column of the node's file is the label")
    table = read_table(data.path, label=data.label)
    classes = run.model.classes
    numbers = run.model.label_bound is not None or (run.model.name == "squared" and label_bound_is_agreed(run))
    if classes is None and not numbers:
        reason = (
            "nodes with files of their own must agree on the classes, or on model.label_bound if labels are numbers"
        )
        raise InvalidInput.because("model.classes", "missing", reason)
    labels = _numbers(table, run) if classes is None else _class_numbers(table, classes, data.label)
    check_agreement(run, Dataset(data.path.name, table.features, labels, tuple(classes or ()), table.feature_names))
    rng = np.random.default_rng(np.random.SeedSequence(run.simulation.seed, spawn_key=(_TEST_ROWS, *name.encode())))
    # Without the names of the classes, since all training rows of one node may well be of one class.
    nameless = Dataset(data.path.name, table.features, labels, (), table.feature_names)
    ready = prepared_rows(run, nameless, rng)
    _check_batch(run, len(ready.train_x), "this node")
    kind = np.float64 if classes is None else np.int64
    train_y, clipped = clipped_labels(run, ready.train_y.astype(kind))
    return Rows(ready.train_x, train_y, ready.test_x, ready.test_y.astype(kind), len(classes or ()), clipped)


def _spelled(table: Dataset) -> list[str]:
    """Return every row's label as it would be called as a class; whether labels look like classes is up to chance."""
    if table.classes:
        return [table.classes[label] for label in table.labels]
    return [str(float(label)).removesuffix(".0") for label in table.labels]


def _class_numbers(table: Dataset, classes: list[str], column: str) -> NDArray[np.float64]:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = _spelled(table)
    if unknown := sorted(set(labels) - set(numbers)):
        reason = f"{table.name} has the label {unknown[0]!r} there, and model.classes are {', '.join(classes)}"
        raise InvalidInput.because("data.label", column, reason)
    return np.array([numbers[label] for label in labels], dtype=np.float64)


def _numbers(table: Dataset, run: RunFile) -> NDArray[np.float64]:
    try:
        return np.array([float(label) for label in _spelled(table)])
    except ValueError:
        some = ", ".join(table.classes[:3])
        reason = f"{table.name} has labels such as {some}, which are no numbers; use model.classes"
        key, given = ("model.name", run.model.name) if run.model.label_bound is None else ("model.label_bound", "given")
        raise InvalidInput.because(key, given, reason) from None


def _check_batch(run: RunFile, rows: int, whose: str) -> None:
    if run.learning.batch is not None and run.learning.batch > rows:
        raise InvalidInput("batch", run.learning.batch, f"at most {rows}, the number of training rows of {whose}")


class LinearLearner:
    """Logistic regression, softmax regression or least squares; see `Learner`."""

    dtype = np.dtype("<f8")

    def __init__(self, model: LinearModel, rows: Rows, *, batch: int | None, rng: np.random.Generator) -> None:
        for what, x, y in (("training", rows.train_x, rows.train_y), ("test", rows.test_x, rows.test_y)):
            require_unit_rows(x, what)
            require_finite_labels(y, what, _MOST_TEST_LABEL if what == "test" else math.inf)
        self._model, self.rows = model, rows
        self._norms = np.sqrt(np.einsum("ij,ij->i", rows.train_x, rows.train_x))
        self._batches = Batches(len(rows.train_x), batch, rng)
        self.name: str = model.loss
        self.shape = (model.parameters,)
        self.radius, self.gradient_bound = model.radius, model.gradient_bound
        self.labels_clipped = rows.labels_clipped

    def contracts(self, step_size: float) -> bool:
        """Say whether updates with steps of at most this size are contractions."""
        return self._model.contracts(step_size)

    def initial(self) -> NDArray[Any]:
        """Return zeros."""
        return np.zeros(self.shape, self.dtype)

    def prepare(self) -> None:
        """Choose the rows of the next update."""
        self._batches.prepare()

    def update(
        self, parameters: NDArray[Any], *, step_size: float, noise_multiplier: float, noise: Noise
    ) -> NDArray[Any]:
        """Return the parameters after one noisy step."""
        w = usable(parameters, self)
        std = noise_std(self, step_size, noise_multiplier)
        gradient = self._gradient(w, self._batches.take())
        if std > 0.0:
            noise.add(gradient, std)
        # The ridge's part is no secret, and is added to what the noise has hidden.
        w = (1.0 - step_size * self._model.ridge) * w - step_size * gradient
        length = norm(w)
        return w if length <= self.radius else w * (self.radius / length)

    def _gradient(self, w: Floats, rows: NDArray[np.int64]) -> Floats:
        """Return the mean of the rows' gradients, each clipped.

        They are clipped to the natural bound, too, which they can only exceed if the parameters lie outside the ball:
        what is promised must not depend on who sent them.
        """
        x, y, norms = self.rows.train_x[rows], self.rows.train_y[rows], self._norms[rows]
        if self._model.loss == "softmax":
            each = _class_shares(x @ w.reshape(self._model.classes, -1).T)
            each[np.arange(len(y)), y] -= 1.0
            sizes = norms * np.sqrt(np.einsum("ij,ij->i", each, each))
            each *= np.minimum(1.0, self.gradient_bound / np.maximum(sizes, 1e-300))[:, None]
            return (each.T @ x).ravel() / len(rows)
        if self._model.loss == "squared":
            slopes = x @ w - y
        else:
            signs = 2.0 * y - 1.0
            slopes = -signs * np.exp(-np.logaddexp(0.0, signs * (x @ w)))
        # Squares of what is shorter vanish: such a row is taken to be as long as that, which clips it all the more.
        limits = self.gradient_bound / np.maximum(norms, 1e-150)
        return np.clip(slopes, -limits, limits) @ x / len(rows)

    def test_error(self, parameters: NDArray[Any]) -> float:
        """Return the share of wrong test rows, or the mean squared error."""
        w, x, y = usable(parameters, self), self.rows.test_x, self.rows.test_y
        if not len(x):
            return math.nan
        if self._model.loss == "squared":
            return float(np.mean((x @ w - y) ** 2))
        if self._model.loss == "softmax":
            return float(np.mean(np.argmax(x @ w.reshape(self._model.classes, -1).T, axis=1) != y))
        return float(np.mean((x @ w > 0.0) != (y == 1)))


def _class_shares(scores: Floats) -> Floats:
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    return shares


def usable(parameters: NDArray[Any], learner: Learner) -> NDArray[Any]:
    """Return parameters that came from elsewhere, if they can be this learner's."""
    if parameters.shape != learner.shape or parameters.dtype != learner.dtype:
        given, wanted = f"{parameters.shape} of {parameters.dtype}", f"{learner.shape} of {learner.dtype}"
        raise InvalidInput("parameters", given, f"{wanted}, as this node's model is")
    # With a finite norm, every product with a row is finite as well.
    if not math.isfinite(norm(parameters)):
        raise InvalidInput("parameters", "infinite or not a number", "finite")
    return parameters


def norm(vector: NDArray[Any]) -> float:
    """Return a vector's norm, computed in double precision, and in pieces: a second copy may not fit into memory."""
    total = 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, len(vector), _PIECE):
            piece = vector[start : start + _PIECE].astype(np.float64, copy=False)
            total += float(piece @ piece)
    return math.sqrt(total)


def noise_std(learner: Learner, step_size: float, noise_multiplier: float) -> float:
    """Return the standard deviation of an update's noise."""
    require_positive("step_size", step_size)
    require_non_negative("noise_multiplier", noise_multiplier)
    return noise_multiplier * learner.gradient_bound
