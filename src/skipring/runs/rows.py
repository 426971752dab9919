"""The rows of a run: the same in a simulation and at every node of a network."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import AnyInts, times_before
from ..data import (
    Dataset,
    Dealing,
    NodeData,
    PreparedRows,
    Recipe,
    encoder,
    load_dataset,
    prepare,
    read_table,
    read_with_schema,
    require_two_kinds,
    split_over_nodes,
    training_part,
)
from ..errors import InvalidInput, quoted_list
from .runfile import RunFile
from .wording import by_key

#: How many nodes a data set is dealt to if nobody says.
DEFAULT_NODES = 113
#: The stream of random numbers that prepares and deals rows; runs have the streams 0, 1, 2, ...
_ROWS = 2**32 - 1


def stream(run: RunFile, number: int = _ROWS, *more: int) -> np.random.Generator:
    """Return a stream of random numbers of its own for what all runs share; by default that of the rows."""
    return np.random.default_rng(np.random.SeedSequence(run.simulation.seed, spawn_key=(number, *more)))


@by_key(name="data.name")
def dataset_of(run: RunFile) -> Dataset:
    """Load the data set that a run file names."""
    data = run.data
    if run.privacy.protects == "person" and data.person is None and not data.name.startswith("consortium:"):
        reason = "persons are protected: say which column of the file tells whose a row is"
        raise InvalidInput.because("data.person", "missing", reason)
    if data.path is None:
        if run.table is not None:
            reason = "the run file has a schema, and no table of rows; skipring worth --made-up ROWS needs none"
            raise InvalidInput.because("path", "missing", reason)
        if data.person is not None:
            raise InvalidInput.because("person", data.person, "is a column of a file of your own; give data.path")
        return load_dataset(data.name)
    if run.table is not None:
        table = read_with_schema(data.path, run.table)
    else:
        table = read_table(data.path, label=data.label or "", node=data.node, person=data.person)
    # Whose a row is must not decide what happens to others, unless persons are what is protected.
    return table if run.privacy.protects == "person" else dataclasses.replace(table, persons=None, person_names=())


@by_key()
def dealt_rows(
    run: RunFile, dataset: Dataset | None = None, *, usual_nodes: int = DEFAULT_NODES
) -> tuple[Dataset, PreparedRows, NodeData]:
    """Return the data set of a run, the same prepared, and its training rows dealt to nodes.

    `dataset` takes the place of what the run file names. `usual_nodes` counts where the run file says nothing.
    """
    data, dataset = run.data, dataset_of(run) if dataset is None else dataset
    require_two_kinds(dataset)
    check_agreement(run, dataset)
    rng = stream(run)
    ready = prepared_rows(run, dataset, rng)
    kind = data.split or ("groups" if ready.train_groups is not None else "iid")
    nodes = data.nodes if data.nodes is not None or kind == "groups" else usual_nodes
    if kind == "groups" and len(dataset.group_names) == 1:
        reason = f"is {dataset.group_names[0]!r} in every row, and a run has at least 2 nodes; name another column"
        raise InvalidInput.because("groups" if data.node is None else "data.node", data.node or "", reason)
    owned = split_over_nodes(
        ready.train_x,
        ready.train_y,
        nodes,
        rng,
        Dealing(kind=kind, alpha=data.alpha, shards_per_node=data.shards_per_node, exponent=data.exponent),
        groups=ready.train_groups,
        persons=ready.train_persons,
    )
    return dataset, ready, protected_rows(run, owned, dataset.person_names, dataset.group_names)


def protected_rows(
    run: RunFile, owned: NodeData, person_names: Sequence[str], group_names: Sequence[str] = ()
) -> NodeData:
    """Return what a run uses of the nodes' rows: where persons are protected, a limited number of rows of each."""
    if run.privacy.protects != "person":
        return dataclasses.replace(owned, persons=None)
    if owned.persons is None:
        reason = "persons are protected: name the column that says whose a row is (with arrays: give persons)"
        raise InvalidInput.because("data.person", "missing", reason)
    node_of = np.repeat(np.arange(owned.nodes), owned.sizes)
    found = np.full(len(person_names), -1)
    found[owned.persons] = node_of
    if (elsewhere := found[owned.persons] != node_of).any():
        person = owned.persons[int(np.argmax(elsewhere))]
        nodes = sorted({int(node) for node in node_of[owned.persons == person]})
        names = [group_names[node] if group_names else f"node {node}" for node in nodes]
        reason = f"{person_names[person]!r} has rows at {names[0]} and {names[1]}; a person belongs to one node"
        if run.data.split in ("dirichlet", "dirichlet-even", "shards"):
            reason += f" (data.split {run.data.split} deals rows; iid and power-law deal persons)"
        raise InvalidInput.because("data.person", run.data.person or "", reason)
    kept = first_rows_of_persons(run, owned.persons)
    start = np.append(0, np.cumsum(np.bincount(node_of[kept], minlength=owned.nodes))).astype(np.int64)
    return NodeData(owned.features[kept], owned.labels[kept], start, owned.persons[kept])


def first_rows_of_persons(run: RunFile, persons: AnyInts) -> NDArray[np.intp]:
    """Return the numbers of the rows that are used: of each person the first that are agreed on, in their order.

    Which rows are left out does not depend on what they say.
    """
    return np.flatnonzero(times_before(persons) < run.rows_of_one)


def prepared_rows(
    run: RunFile, dataset: Dataset, rng: np.random.Generator, *, keep_features: bool = True
) -> PreparedRows:
    """Set test rows aside, scale all rows and make features of them, as a run file says.

    Features that take a while are kept in files, unless `keep_features` is False.
    """
    data, model = run.data, run.model
    test_share = data.test_share
    if data.validation is not None:
        with by_key():
            dataset = training_part(dataset, rng, test_share=test_share)
        test_share = data.validation
    with by_key(test_share="data.test_share" if data.validation is None else "data.validation"):
        recipe = Recipe(
            # Networks for images take pixels as they are, and so does the scattering transform.
            standardise=run.standardises,
            unit_rows=data.unit_rows and not model.takes_images,
            intercept=model.intercept,
            intercept_share=model.intercept_share or 0.5,
            encoder=encoder(model.features, dataset.features.shape[1], device=model.device),
            ranges=dataset.ranges if run.takes_ranges else None,
            bounded=run.table is not None,
        )
        return prepare(dataset, rng, recipe, test_share=test_share, keep_features=keep_features)


def check_agreement(run: RunFile, dataset: Dataset) -> None:
    """Refuse data that are not what the run file says of them."""
    agreed, columns = run.model, dataset.features.shape[1]
    if agreed.columns is not None and agreed.columns != columns:
        raise InvalidInput.because("model.columns", agreed.columns, f"{dataset.name} has {columns} features")
    if agreed.classes is not None and tuple(agreed.classes) != dataset.classes:
        its = f"the classes {quoted_list(dataset.classes)}" if dataset.classes else "numbers as labels"
        raise InvalidInput.because("model.classes", quoted_list(agreed.classes), f"{dataset.name} has {its}")
    if agreed.label_bound is not None and dataset.classes:
        raise InvalidInput.because("model.label_bound", agreed.label_bound, f"{dataset.name} has classes, not numbers")


def clipped_labels(run: RunFile, labels: NDArray[Any]) -> tuple[NDArray[Any], int]:
    """Return labels of training rows within the agreed bound, if there is one, and how many were clipped to it.

    A label that is too large is not refused, since that would tell about it.
    """
    bound = run.model.label_bound
    if bound is None:
        return labels, 0
    return np.clip(labels, -bound, bound), int(np.count_nonzero(np.abs(labels) > bound))


def label_bound_is_agreed(run: RunFile) -> bool:
    """Say whether the bound of a squared loss follows from the run file alone, and not from the nodes' labels."""
    return run.model.label_bound is not None or run.learning.gradient_bound is not None
