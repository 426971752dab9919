"""A node's token as a model that one can use, with what the node's own account says of it."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...models import Inputs, ModelFacts, ParameterBytes, TrainedModel, fixed_weights, write_model
from ...privacy import Guarantee
from ...runs import RunFile
from ..protocol import Token
from ..storage import chunks_of, size_of


class NodeFacts(NamedTuple):
    """What a node says of the model that it has: in which run it was trained, and what it cost this node."""

    node: str
    run: RunFile
    run_digest: str
    guarantee: Guarantee
    over: bool = True


def write_node_model(path: Path, token: Token, inputs: Inputs, about: NodeFacts, dtype: str) -> ModelFacts:
    """Write a token to a model's file, piece by piece; OSError: it cannot be read or written."""
    name = str(about.run.model.name)
    facts = ModelFacts(
        name=name,
        updates=token.updates,
        run=about.run_digest,
        guarantee=about.guarantee,
        source=f"{'the final model' if about.over else 'a run that is not over'}, as node {about.node} has it",
    )
    kind = np.dtype(dtype)
    count = size_of(token.parameters) // kind.itemsize
    pieces = ParameterBytes(kind.str, count, chunks_of(token.parameters, 1 << 20))
    fixed = fixed_weights(name, about.run.simulation.seed)
    write_model(TrainedModel(facts, inputs, np.empty(0, kind), fixed), path, pieces)
    return facts
