"""Made-up rows of a schema: they show what a run costs and how much noise it has, and nothing about real rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_integer
from .schema import Schema
from .sources import Dataset

#: Noise on what the rule says, over its own deviation: an eighth of two classes or so is then not to be told.
_NOISE = 0.4
#: Numbers to predict lie within their range, but for some that are clipped to it.
_SPREAD = 0.4


def made_up_rows(
    schema: Schema,
    rows: int,
    rng: np.random.Generator,
    *,
    nodes: int | None = None,
    rows_of_one: int | None = None,
) -> Dataset:
    """Return rows that nobody has: every value is drawn uniformly, and labels follow a random linear rule with noise.

    Where the schema has a column for nodes, rows are dealt to `nodes` in turn; with `rows_of_one`, whole persons
    are, who have this number of rows each. No value is missing.

    >>> from skipring.data import Schema
    >>> ill = {"name": "ill", "label": True, "categories": ["no", "yes"]}
    >>> schema = Schema.of([{"name": "age", "range": [20, 80]}, ill])
    >>> made_up_rows(schema, 50, np.random.default_rng(1)).features.shape
    (50, 1)
    """
    require_integer("rows", rows, 2, 10**8)
    values: dict[str, NDArray[Any]] = {}
    for column in schema.features:
        if column.range is not None:
            values[column.name] = rng.uniform(*column.range, rows)
        else:
            values[column.name] = rng.integers(len(column.categories), size=rows)
    features = schema.encode(values, rows)
    persons = None if rows_of_one is None else np.arange(rows) // rows_of_one
    groups, names = None, tuple[str, ...]()
    if schema.node is not None:
        if nodes is None:
            reason = "made-up rows do not tell how many nodes there are; say how many (--set data.nodes=4)"
            raise InvalidInput.because("data.nodes", "missing", reason)
        require_integer("data.nodes", nodes, 1)
        groups = (np.arange(rows) if persons is None else persons) % nodes
        names = tuple(f"node {number + 1}" for number in range(nodes))
        if len(np.unique(groups)) < nodes:
            raise InvalidInput.because("made_up", rows, f"so few rows leave some of the {nodes} nodes without any")
    return Dataset(
        "made up",
        features,
        _labels(schema, features, rng),
        schema.classes,
        schema.feature_names,
        groups,
        names,
        persons=persons,
        person_names=() if persons is None else tuple(f"person {n + 1}" for n in range(int(persons[-1]) + 1)),
    )


def _labels(schema: Schema, features: NDArray[np.float32], rng: np.random.Generator) -> NDArray[Any]:
    """Return what a random linear rule says, with noise: the likeliest class, or a number within its range."""
    scores = features.astype(np.float64) @ rng.standard_normal((features.shape[1], max(1, len(schema.classes))))
    scores -= scores.mean(axis=0)
    scores /= np.maximum(scores.std(axis=0), 1e-12)
    scores += _NOISE * rng.standard_normal(scores.shape)
    if schema.classes:
        return scores.argmax(axis=1)
    bound = schema.label_bound
    assert bound is not None
    return np.clip(_SPREAD * bound * scores[:, 0], -bound, bound)
