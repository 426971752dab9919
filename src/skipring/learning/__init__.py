"""One update: a model's gradient on a node's batch, its bound, its noise, its projection.

A model says what the accountants need to know: how large a node's gradient can be (`gradient_bound`), how smooth the
loss is, and whether an update is a contraction, so that the noise of others may be counted. `reference` says plainly
what an update of a `linear` model is: nodes compute it, and its twins for simulations, compiled with numba, are judged
by it. `losses` holds losses of one margin, and takes your own. `neural` holds the updates of networks with PyTorch, an
optional dependency.
"""

from __future__ import annotations

from .linear import LinearModel
from .linear_learner import LinearLearner
from .losses import LOSSES, MarginLoss, register_loss
from .networks import NeuralModel
from .step_sizes import StepSizes
from .update import Batches, Learner, Noise, Rows

__all__ = [
    "LOSSES",
    "Batches",
    "Learner",
    "LinearLearner",
    "LinearModel",
    "MarginLoss",
    "NeuralModel",
    "Noise",
    "Rows",
    "StepSizes",
    "register_loss",
]
