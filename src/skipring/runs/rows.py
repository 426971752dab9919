"""The rows of a run: the same in a simulation and at every node of a network."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, NodeData, PreparedRows, load_dataset, prepare, read_table, split_over_nodes
from ..errors import InvalidInput
from .keys import keys
from .runfile import RunFile

__all__ = [
    "DEFAULT_NODES",
    "check_agreement",
    "clipped_labels",
    "dataset_of",
    "dealt_rows",
    "label_bound_is_agreed",
    "prepared_rows",
    "stream",
]

#: How many nodes a data set is dealt to if nobody says.
DEFAULT_NODES = 113
#: The stream of random numbers that prepares and deals rows; runs have the streams 0, 1, 2, ...
_ROWS = 2**32 - 1


def stream(run: RunFile, number: int = _ROWS, *more: int) -> np.random.Generator:
    """Return a stream of random numbers of its own for what all runs share; by default that of the rows."""
    return np.random.default_rng(np.random.SeedSequence(run.simulation.seed, spawn_key=(number, *more)))


def dataset_of(run: RunFile) -> Dataset:
    """Load the data set that a run file names."""
    data = run.data
    with keys("data", "name", "path", "label", "node"):
        if data.path is None:
            return load_dataset(data.name)
        return read_table(data.path, label=data.label or "", node=data.node)


def dealt_rows(
    run: RunFile, dataset: Dataset | None = None, *, usual_nodes: int = DEFAULT_NODES
) -> tuple[Dataset, PreparedRows, NodeData]:
    """Return the data set of a run, the same prepared, and its training rows dealt to nodes.

    `dataset` takes the place of what the run file names. `usual_nodes` counts where the run file says nothing.
    """
    data, dataset = run.data, dataset_of(run) if dataset is None else dataset
    check_agreement(run, dataset)
    rng = stream(run)
    ready = prepared_rows(run, dataset, rng)
    kind = data.split or ("groups" if ready.train_groups is not None else "iid")
    nodes = data.nodes if data.nodes is not None or kind == "groups" else usual_nodes
    with keys("data", "nodes", "split", "alpha", "shards_per_node", "exponent", groups="data.node"):
        owned = split_over_nodes(
            ready.train_x,
            ready.train_y,
            nodes,
            rng,
            kind=kind,
            alpha=data.alpha,
            shards_per_node=data.shards_per_node,
            exponent=data.exponent,
            groups=ready.train_groups,
        )
    return dataset, ready, owned


def prepared_rows(run: RunFile, dataset: Dataset, rng: np.random.Generator) -> PreparedRows:
    """Set test rows aside and scale all rows, as a run file says."""
    data = run.data
    with keys("data", "test_share"):
        return prepare(
            dataset,
            rng,
            # Networks for images take pixels as they are.
            standardise=data.standardise and not run.model.takes_images,
            unit_rows=data.unit_rows and not run.model.takes_images,
            intercept=run.model.intercept,
            test_share=data.test_share,
        )


def check_agreement(run: RunFile, dataset: Dataset) -> None:
    """Refuse data that are not what the run file says of them."""
    agreed, columns = run.model, dataset.features.shape[1]
    if agreed.features is not None and agreed.features != columns:
        raise InvalidInput.because("model.features", agreed.features, f"{dataset.name} has {columns} features")
    if agreed.classes is not None and tuple(agreed.classes) != dataset.classes:
        its = f"the classes {', '.join(dataset.classes)}" if dataset.classes else "numbers as labels"
        raise InvalidInput.because("model.classes", ", ".join(agreed.classes), f"{dataset.name} has {its}")
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
    """Say whether the bound of a squared loss follows from the run file alone, and not from anybody's labels."""
    return run.model.label_bound is not None or run.learning.gradient_bound is not None
