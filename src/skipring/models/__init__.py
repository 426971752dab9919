"""Models that one can use: a file that knows what its columns mean, what it predicts, and what it cost in privacy.

`load_model` reads such a file and `save_model` writes one; a `TrainedModel` predicts from arrays and frames, and turns
into a PyTorch module or a model of scikit-learn. `predict_file` goes through a table of any size. `Inputs` is what a
model is given, and an `EpsilonClaim` says whose data is hidden from whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .facts import EpsilonClaim, ModelFacts, claims_of
from .inputs import Inputs, inputs_of
from .trained import TrainedModel, fixed_weights, kind_of

if TYPE_CHECKING:
    from .file import ParameterBytes, load_model, save_model, write_model
    from .tables import Metrics, Prediction, predict_file

__all__ = [
    "EpsilonClaim",
    "Inputs",
    "Metrics",
    "ModelFacts",
    "ParameterBytes",
    "Prediction",
    "TrainedModel",
    "claims_of",
    "fixed_weights",
    "inputs_of",
    "kind_of",
    "load_model",
    "predict_file",
    "save_model",
    "write_model",
]

__getattr__, __dir__ = lazily(__name__, __file__)
