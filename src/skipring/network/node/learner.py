"""What a node of a network computes: one update of the model on its own rows, and the model's error on test rows.

`make_learner` reads what all nodes agreed on (the run file) and what is this node's own (its data), and returns a
`Learner`. A node without a file of its own takes the part of the shared data that a simulation of the same run file
gives to the node of that number. With a file of its own nobody sees all of the data, so the run file has to say what
the simulator would look up. That is the classes (`model.classes`), or for numbers the bound that labels are clipped to
(`model.label_bound`) or gradients are (`learning.gradient_bound`). For numbers it has to say so with shared data too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...data import Dataset, Scaling, read_table, read_with_schema
from ...errors import InvalidInput, quoted_list, require_integer
from ...learning import Learner, LinearLearner, LinearModel, Rows, is_of_numbers, parts_stream, require_torch
from ...models import Inputs, inputs_of
from ...runs import (
    Known,
    RunFile,
    by_key,
    check_agreement,
    clipped_labels,
    dealt_rows,
    first_rows_of_persons,
    label_bound_is_agreed,
    model_of,
    prepared_rows,
    protection_of,
    require_own_scales,
    stream,
)
from .config import OwnData

#: What is said of a node whose owner has not filled in where its own file is.
NO_ROWS = "this node has not said where its rows are; give path under [data] in its node.toml"

#: The stream of a node's own test rows; that of shared data has the same number, and no name after it.
_TEST_ROWS = 2**32 - 1


def make_learner(
    run: RunFile, *, index: int, nodes: int, name: str, data: OwnData, rng: np.random.Generator
) -> tuple[Learner, Inputs]:
    """Return what node `index` of `nodes` computes, and what its model is given.

    `name` is its name, `data` its own settings, `rng` draws batches. The rows of other nodes are forgotten once the
    shared data are dealt.
    """
    rows, inputs = node_rows(run, index=index, nodes=nodes, name=name, data=data)
    return _learner_on(run, rows, index=index, rng=rng), inputs


def node_rows(run: RunFile, *, index: int, nodes: int, name: str, data: OwnData) -> tuple[Rows, Inputs]:
    """Return the rows of a node, and what a model that is trained on such rows is given."""
    require_integer("nodes", nodes, 1)
    if not 0 <= index < nodes:
        raise InvalidInput("index", index, f"a node's number, from 0 to {nodes - 1}")
    require_integer("simulation.seed", run.simulation.seed, 0)
    if data.label is not None and data.path is None:
        raise InvalidInput.because(
            "data.label", data.label, "is a column of the node's own file, but data.path is missing"
        )
    if run.learning.clip_noisy is not None:
        reason = "is for schedules without a token only"
        raise InvalidInput.because("learning.clip_noisy", run.learning.clip_noisy, reason)
    if data.path is None:
        require_shared_data(run)
    return _part_of_shared(run, index, nodes) if data.path is None else _own_rows(run, data, name)


def _learner_on(run: RunFile, rows: Rows, *, index: int, rng: np.random.Generator) -> Learner:
    """Return what node `index` computes on its rows."""
    if run.model.is_network:
        require_torch(str(run.model.name))
    model = model_of(run, Known(rows.train_x.shape[1], rows.classes))
    protection = protection_of(run)
    if protection is None:
        reason = f"nodes must agree on the most rows of an update, since a {run.privacy.protects} is protected"
        raise InvalidInput.because("learning.batch", "missing", reason)
    dealt = parts_stream(run.simulation.seed, index)
    with by_key():
        if isinstance(model, LinearModel):
            return LinearLearner(model, rows, protection=protection, rng=rng, dealt=dealt)
        from ...learning import TorchLearner  # PyTorch is loaded only where it is needed

        assert model is not None
        return TorchLearner(model, rows, protection=protection, seed=run.simulation.seed, rng=rng, dealt=dealt)


def require_shared_data(run: RunFile) -> None:
    """Refuse a run whose nodes would share the data set that is there for tries, because nobody has named another."""
    if run.data.path is None and "name" not in run.data.model_fields_set:
        if run.table is not None:  # only files of nodes' own have such columns
            raise InvalidInput.because("data.path", "missing", NO_ROWS)
        reason = (
            "the run file names no data set that nodes share (data.name), and a node no file of its own ([data] path in"
            " node.toml, with a schema in the run file). Give one of them"
        )
        raise InvalidInput.because("data.path", "missing", reason)


def _part_of_shared(run: RunFile, index: int, nodes: int) -> tuple[Rows, Inputs]:
    dataset, prepared, owned = dealt_rows(run, usual_nodes=nodes)
    if owned.nodes != nodes:
        raise InvalidInput.because(
            "data.nodes", owned.nodes, f"is how many nodes share the data, but the network has {nodes} nodes"
        )
    _check_batch(run, int(owned.sizes.min()), "the smallest node")
    low, high = int(owned.start[index]), int(owned.start[index + 1])
    # Copies, since a view would keep the rows of all nodes.
    features = owned.features[low:high].astype(np.float64)
    labels, clipped = clipped_labels(run, owned.labels[low:high].copy())
    persons = None if owned.persons is None else owned.persons[low:high].copy()
    rows = Rows(features, labels, prepared.test_x, prepared.test_y, len(dataset.classes), clipped, persons)
    return rows, _inputs(run, dataset, dataset.classes, prepared.scaling)


def _own_rows(run: RunFile, data: OwnData, name: str) -> tuple[Rows, Inputs]:
    assert data.path is not None
    schema = run.table
    if schema is None and data.path.suffix.lower() != ".npz":  # arrays have no columns that could mean something
        reason = (
            "a node's own table needs a schema that all nodes share: [[column]] entries in the run file, or"
            " data.schema_file; skipring schema FILE --label COLUMN drafts them from public or made-up rows"
        )
        raise InvalidInput.because("data.path", data.path, reason)
    if data.label is None and schema is None:
        raise InvalidInput.because("data.label", "missing", "say which column of the node's file is the label")
    require_own_scales(run)
    persons = run.privacy.protects == "person"
    if persons and run.data.person is None:
        reason = "persons are protected: say which column of each node's file tells whose a row is"
        raise InvalidInput.because("data.person", "missing", reason)
    with by_key():
        if schema is None:
            table = read_table(data.path, label=data.label or "", person=run.data.person)
        else:
            table = read_with_schema(data.path, schema)
    if not persons:  # whose a row is must not decide what happens to others
        table = dataclasses.replace(table, persons=None, person_names=())
    classes = run.model.classes
    numbers = run.model.label_bound is not None or (is_of_numbers(run.model.name) and label_bound_is_agreed(run))
    if classes is None and not numbers:
        reason = (
            "nodes with files of their own must agree on the classes, or on model.label_bound if labels are numbers"
        )
        raise InvalidInput.because("model.classes", "missing", reason)
    if schema is not None:
        labels = table.labels.astype(np.float64)
    else:
        labels = _numbers(table, run) if classes is None else _class_numbers(table, classes, data.label or "")
    check_agreement(run, Dataset(data.path.name, table.features, labels, tuple(classes or ()), table.feature_names))
    rng = stream(run, _TEST_ROWS, *name.encode())
    # Without the names of the classes, since all training rows of one node may well be of one class.
    nameless = dataclasses.replace(
        Dataset(data.path.name, table.features, labels, (), table.feature_names),
        persons=table.persons,
        person_names=table.person_names,
    )
    # A node's rows, and what can be told of them from their features, stay in the file that their owner has put there.
    ready = prepared_rows(run, nameless, rng, keep_features=False)
    _check_batch(run, len(ready.train_x), "this node")
    kind = np.float64 if classes is None else np.int64
    # Features are in single precision, a linear model is not.
    train_x, train_y = ready.train_x.astype(np.float64, copy=False), ready.train_y.astype(kind)
    whose = ready.train_persons
    left_out = 0
    if whose is not None:
        kept = first_rows_of_persons(run, whose)
        left_out = len(whose) - len(kept)
        train_x, train_y, whose = train_x[kept], train_y[kept], whose[kept]
    train_y, clipped = clipped_labels(run, train_y)
    test_y, count = ready.test_y.astype(kind), len(classes or ())
    rows = Rows(train_x, train_y, ready.test_x, test_y, count, clipped, whose, left_out)
    own_scales = schema is None and run.standardises
    return rows, _inputs(run, nameless, classes or (), None if own_scales else ready.scaling)


def _inputs(run: RunFile, dataset: Dataset, classes: Sequence[str], scaling: Scaling | None) -> Inputs:
    why = "each node scaled its rows by their own means and deviations (data.standardise); agree on a schema instead"
    return inputs_of(
        run,
        columns=dataset.features.shape[1],
        names=dataset.feature_names,
        classes=classes,
        scaling=scaling,
        why_unscaled=why if scaling is None else "",
    )


def _spelled(table: Dataset) -> list[str]:
    """Return every row's label as it would be called as a class; whether labels look like classes is up to chance."""
    if table.classes:
        return [table.classes[label] for label in table.labels]
    return [str(float(label)).removesuffix(".0") for label in table.labels]


def _class_numbers(table: Dataset, classes: list[str], column: str) -> NDArray[np.float64]:
    numbers = {name: number for number, name in enumerate(classes)}
    labels = _spelled(table)
    if unknown := sorted(set(labels) - set(numbers)):
        reason = f"{table.name} has the label {unknown[0]!r} there, and model.classes are {quoted_list(classes)}"
        raise InvalidInput.because("data.label", column, reason)
    return np.array([numbers[label] for label in labels], dtype=np.float64)


def _numbers(table: Dataset, run: RunFile) -> NDArray[np.float64]:
    try:
        return np.array([float(label) for label in _spelled(table)])
    except ValueError:
        some = quoted_list(table.classes[:3])
        reason = f"{table.name} has labels such as {some}, which are no numbers; use model.classes"
        bound = run.model.label_bound
        key, given = ("model.name", run.model.name) if bound is None else ("model.label_bound", bound)
        raise InvalidInput.because(key, given, reason) from None


def _check_batch(run: RunFile, rows: int, whose: str) -> None:
    if run.privacy.protects == "node" and run.learning.batch is not None and run.learning.batch > rows:
        raise InvalidInput(
            "learning.batch", run.learning.batch, f"at most {rows}, the number of training rows of {whose}"
        )
