"""One update: a model's gradient on a node's batch, its bound, its noise, its projection.

A model says what the accountants need to know: how large a node's gradient can be (`gradient_bound`), and how smooth
the loss is. It says whether an update is a contraction, so that the noise of others may be counted. `reference` says
plainly what an update of a `linear` model is: nodes compute it, and its twins for simulations, compiled with numba, are
judged by it. `margin_loss` holds losses of one margin, and takes your own. `neural` holds the updates of networks with
PyTorch, an optional dependency, and `torch_units` what bounds the share of every person or record in them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .exact_sums import MOST_ROWS as MOST_ROWS
from .exact_sums import on_grid as on_grid
from .exact_sums import require_range as require_range
from .exact_sums import rounded_share as rounded_share
from .gradient_laps import USUAL_CLIP as USUAL_CLIP
from .gradient_laps import laps_of_model as laps_of_model
from .gradient_laps import uses_five_laps as uses_five_laps
from .gradient_laps import usual_laps as usual_laps
from .guessing import Guess as Guess
from .guessing import guess_errors as guess_errors
from .guessing import guess_of as guess_of
from .lap_steps import LapRule as LapRule
from .lap_steps import LapState as LapState
from .lap_steps import LapSum as LapSum
from .lap_steps import LinearLaps as LinearLaps
from .learner import Learner as Learner
from .linear import LinearModel as LinearModel
from .linear_learner import LinearLearner as LinearLearner
from .loss import Loss as Loss
from .margin_loss import BUILT_IN as BUILT_IN
from .margin_loss import LOGISTIC as LOGISTIC
from .margin_loss import LOSSES as LOSSES
from .margin_loss import SOFTMAX as SOFTMAX
from .margin_loss import SQUARED as SQUARED
from .margin_loss import MarginLoss as MarginLoss
from .margin_loss import is_of_numbers as is_of_numbers
from .margin_loss import loss_kind as loss_kind
from .margin_loss import loss_named as loss_named
from .margin_loss import register_loss as register_loss
from .margin_loss import usual_loss as usual_loss
from .networks import NETWORKS as NETWORKS
from .networks import NeuralModel as NeuralModel
from .networks import is_network as is_network
from .optimisers import require_optimiser as require_optimiser
from .units import FIRST_ROWS_ONLY as FIRST_ROWS_ONLY
from .units import Batches as Batches
from .units import Protection as Protection
from .units import deal_parts as deal_parts
from .units import most_units as most_units
from .units import parts_stream as parts_stream
from .units import rows_of_one as rows_of_one
from .units import unit_count as unit_count
from .update import Noise as Noise
from .update import NothingFits as NothingFits
from .update import Pieces as Pieces
from .update import PrepareRows as PrepareRows
from .update import Rows as Rows
from .update import StepSizes as StepSizes

if TYPE_CHECKING:
    from .networks import require_torch as require_torch
    from .neural import NeuralToken as NeuralToken
    from .torch_laps import NetworkSums as NetworkSums
    from .torch_learner import TorchLearner as TorchLearner
    from .torch_linear import LinearToken as LinearToken
    from .torch_module import Hardware as Hardware
    from .torch_module import choose_device as choose_device
    from .torch_module import drawing as drawing
    from .torch_module import drawn as drawn
    from .torch_module import maker as maker
    from .torch_module import rows_for as rows_for
    from .torch_module import usable_module as usable_module
    from .torch_module import with_parameters as with_parameters
    from .torch_update import batch_loss as batch_loss


__getattr__, __dir__ = lazily(__name__, __file__)
