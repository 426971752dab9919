"""Models that one can use: a file that knows what its columns mean, what it predicts, and what it cost in privacy.

`load_model` reads such a file and `save_model` writes one; a `TrainedModel` predicts from arrays and frames, and turns
into a PyTorch module or a model of scikit-learn. `predict_file` goes through a table of any size. `Inputs` is what a
model is given, and a `Guarantee` says whose data it protects against whom.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .inputs import Inputs as Inputs
from .inputs import inputs_of as inputs_of
from .trained import ModelFacts as ModelFacts
from .trained import TrainedModel as TrainedModel
from .trained import fixed_weights as fixed_weights

if TYPE_CHECKING:
    from .file import ParameterBytes as ParameterBytes
    from .file import load_model as load_model
    from .file import save_model as save_model
    from .file import write_model as write_model
    from .tables import Metrics as Metrics
    from .tables import Prediction as Prediction
    from .tables import predict_file as predict_file


__getattr__, __dir__ = lazily(__name__, __file__)
