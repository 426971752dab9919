"""The model of one simulated run, as a file that one can predict with."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from .._digest import digest
from ..errors import InvalidInput, require_integer
from ..learning import is_network
from ..models import Inputs, ModelFacts, TrainedModel, fixed_weights
from .result import Result
from .setup import RunOutput

#: Why a model states no epsilon although its runs would have one.
_ON_A_GPU = (
    "a GPU drew its noise from too few random bits to keep it secret; with model.device = cpu there is an epsilon"
)


def require_run(number: int, runs: int) -> None:
    """Refuse the number of a run that there is none of; they are numbered from 0."""
    require_integer("model_run", number, 0)
    if number >= runs:
        raise InvalidInput("model_run", number, f"the number of a run, from 0 to {runs - 1}")


def trained_model(result: Result, inputs: Inputs, output: RunOutput) -> TrainedModel:
    """Return the last model of a run of a result, with what such runs cost, if nobody can compute its noise again."""
    name, settings, number = result.resolved.model, result.settings, output.number
    network = is_network(name)
    guarantee = result.privacy.promised
    if output.foreseeable and guarantee.epsilon is not None:
        guarantee = dataclasses.replace(guarantee, epsilon=None, refused=_ON_A_GPU, also=())
    facts = ModelFacts(
        name=name,
        updates=int(result.updates[number, -1]),
        run=_digest_without_guesses(settings),
        guarantee=guarantee,
        source=f"simulation, run number {number} of {result.runs} (from 0)",
    )
    parameters = result.models[number].astype(np.float32 if network else np.float64)
    fixed = fixed_weights(name, int(settings["simulation"]["seed"]) + number)
    return TrainedModel(facts, inputs, parameters, fixed)


def _digest_without_guesses(settings: Mapping[str, Any]) -> str:
    """Return a digest of the settings by which nobody can test a guess of the seed; they have no digest of rows."""
    seedless = {name: value for name, value in settings["simulation"].items() if name != "seed"}
    return digest(dict(settings) | {"simulation": seedless}).hex()
