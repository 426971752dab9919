"""The model of one simulated run, as a file that one can predict with."""

from __future__ import annotations

import numpy as np

from .._digest import digest
from ..errors import InvalidInput, require_integer
from ..models import Inputs, ModelFacts, TrainedModel, claims_of, kind_of
from .result import Result

__all__ = ["require_run", "trained_model"]


def require_run(number: int, runs: int) -> None:
    """Refuse the number of a run that there is none of; they are numbered from 0."""
    require_integer("model_run", number, 0)
    if number >= runs:
        raise InvalidInput("model_run", number, f"the number of a run, from 0 to {runs - 1}")


def trained_model(result: Result, inputs: Inputs, number: int = 0) -> TrainedModel:
    """Return the last model of a run of a result, with what such runs cost."""
    name, settings = result.resolved.model, result.settings
    network = kind_of(name) == "network"
    facts = ModelFacts(
        name=name,
        updates=int(result.updates[number, -1]),
        run=digest(dict(settings)).hex(),
        epsilon=claims_of(result.privacy, "any node of such a run, named beforehand (forecast)"),
        not_covered=result.privacy.not_covered,
        source=f"simulation, run number {number} of {result.runs} (from 0)",
        seed=int(settings["simulation"]["seed"]) + number if network else None,
    )
    return TrainedModel(facts, inputs, result.models[number].astype(np.float32 if network else np.float64))
