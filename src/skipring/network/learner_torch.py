"""What a node computes if the model is a neural network; PyTorch is loaded only where it is needed."""

from __future__ import annotations

import numpy as np

from ..learning import Learner, NeuralModel, Rows
from ..learning.networks import require_torch
from ..simulation.runfile import RunFile
from ..simulation.simulate import model_of

__all__ = ["torch_learner"]


def torch_learner(run: RunFile, rows: Rows, rng: np.random.Generator) -> Learner:
    """Return the learner of a node with these rows."""
    require_torch(str(run.model.name))
    from ..learning.torch_learner import TorchLearner

    model = model_of(run, rows.classes, rows.train_x.shape[1])
    assert isinstance(model, NeuralModel)
    return TorchLearner(model, rows, batch=run.learning.batch, seed=run.simulation.seed, rng=rng)
