"""One update: a model's gradient on a node's batch, its bound, its noise, its projection.

A model says what the accountants need to know: how large a node's gradient can be (`gradient_bound`), how smooth the
loss is, and whether an update is a contraction, so that the noise of others may be counted. `linear` models are
compiled with numba by the simulator; `neural` holds the updates of networks with PyTorch, an optional dependency.
"""

from __future__ import annotations

from .linear import LinearModel
from .linear_learner import LinearLearner
from .networks import NeuralModel
from .step_sizes import StepSizes
from .update import Batches, Learner, Noise, Rows

__all__ = ["Batches", "Learner", "LinearLearner", "LinearModel", "NeuralModel", "Noise", "Rows", "StepSizes"]
