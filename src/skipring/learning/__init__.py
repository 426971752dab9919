"""One update: a model's gradient on a node's batch, its bound, its noise, its projection.

A model says what the accountants need to know: how large a node's gradient can be (`gradient_bound`), how smooth the
loss is, and whether an update is a contraction, so that the noise of others may be counted. `reference` says plainly
what an update of a `linear` model is: nodes compute it, and its twins for simulations, compiled with numba, are judged
by it. `losses` holds losses of one margin, and takes your own. `neural` holds the updates of networks with PyTorch, an
optional dependency, and `torch_units` what bounds the share of every person or record in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .guessing import Guess, guess_errors, guess_of
from .linear import LinearModel
from .linear_learner import LinearLearner
from .losses import LOSSES, MarginLoss, register_loss
from .networks import NETWORKS, NeuralModel
from .reference import row_errors
from .step_sizes import StepSizes
from .units import Batches, Protection, deal_parts, most_units, parts_stream, unit_count
from .update import Learner, Noise, NothingFits, Pieces, PrepareRows, Rows

if TYPE_CHECKING:
    from .networks import require_torch
    from .neural import NeuralToken
    from .torch_learner import TorchLearner
    from .torch_linear import LinearToken
    from .torch_module import choose_device, drawn, maker, require_usable, rows_for, with_parameters
    from .torch_update import mean_loss

__all__ = [
    "LOSSES",
    "NETWORKS",
    "Batches",
    "Guess",
    "Learner",
    "LinearLearner",
    "LinearModel",
    "LinearToken",
    "MarginLoss",
    "NeuralModel",
    "NeuralToken",
    "Noise",
    "NothingFits",
    "Pieces",
    "PrepareRows",
    "Protection",
    "Rows",
    "StepSizes",
    "TorchLearner",
    "choose_device",
    "deal_parts",
    "drawn",
    "guess_errors",
    "guess_of",
    "maker",
    "mean_loss",
    "most_units",
    "parts_stream",
    "register_loss",
    "require_torch",
    "require_usable",
    "row_errors",
    "rows_for",
    "unit_count",
    "with_parameters",
]

__getattr__, __dir__ = lazily(__name__, __file__)
