"""A trained model: predictions from arrays and frames, and the same model for PyTorch and scikit-learn."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._version import __version__
from ..errors import InvalidInput
from ..learning import LOSSES, NeuralModel, is_network, loss_kind, require_torch
from ..privacy import Guarantee
from .inputs import Inputs

if TYPE_CHECKING:
    from torch import nn


def fixed_weights(name: str, seed: int) -> NDArray[np.uint8]:
    """Return the bytes of the weights that do not learn, of a network of one's own; they were drawn with this seed.

    They are what a model's file has in place of the seed.
    """
    if ":" not in name:
        return np.zeros(0, np.uint8)
    require_torch(name)
    from .networks import fixed_bytes

    return fixed_bytes(name, seed)


#: Files with another number are not understood. New keys that may be missing do not change it.
FORMAT = 1


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What is known of a model beside its parameters and its columns.

    Parameters
    ----------
    name : logistic, softmax, squared, a loss of one's own, cnn, small-cnn, or ``module:function``.
    updates : how many updates made it.
    run : a digest of the run that it was trained in; the same at all nodes of a network.
    guarantee : what it cost in privacy: the epsilons, or why there is none.
    source : where it comes from, in words.
    made : when it was made, if that was said.
    format, skipring : of the file, and of the version that wrote it.
    """

    name: str
    updates: int
    run: str
    guarantee: Guarantee
    source: str = ""
    made: str | None = None
    format: int = FORMAT
    skipring: str = __version__


@dataclass(frozen=True, eq=False)
class TrainedModel:
    """A model, with all that is needed to use it: what its columns mean, its classes, and what it cost in privacy.

    Rows are a frame (pandas, polars, Arrow, or a mapping from columns to values), whose columns are found by name. Or
    they are an array with the model's columns in order: with a schema, those of its columns that are features.

    Parameters
    ----------
    facts : its name, where it comes from, and its guarantee.
    inputs : what it is given.
    parameters : one vector, as it travels between nodes.
    fixed : the bytes of a network's weights that do not learn, one after another.
    """

    facts: ModelFacts
    inputs: Inputs
    parameters: NDArray[Any]
    fixed: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8))

    def __repr__(self) -> str:
        """Say in two lines what it is, and what it cost."""
        answers = f"{len(self.classes)} classes" if len(self.classes) else "numbers"
        first = (
            f"<TrainedModel {self.name}: {self.inputs.columns} columns, {answers}, {self.parameters.size} parameters"
        )
        return f"{first};\n {self.facts.guarantee.sentence()}>"

    @property
    def name(self) -> str:
        """Its name, as a run file has it."""
        return self.facts.name

    @property
    def is_network(self) -> bool:
        """Whether it is a neural network, and no linear model."""
        return is_network(self.name)

    @property
    def classes(self) -> NDArray[Any]:
        """The classes, in order; empty where it predicts numbers."""
        return self.inputs.classes

    @property
    def has_probabilities(self) -> bool:
        """Whether its scores are probabilities of classes: not for numbers, nor for a user's own loss."""
        known = self.is_network or (self.name in LOSSES and LOSSES[self.name].has_probabilities)
        return len(self.classes) > 0 and known

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the likeliest class of each row, or the number that is predicted for it."""
        scores = self.scores(self.inputs.values(X))
        return self.amounts(scores) if not len(self.classes) else self.classes[chosen(scores)]

    def predict_proba(self, X: Any) -> Floats:
        """Return the probability of each class (columns, in the order of `classes`) for each row."""
        self.require_probabilities()
        return np.exp(log_shares(self.scores(self.inputs.values(X))))

    def encode(self, X: Any) -> Floats:
        """Return rows as `to_torch` and `to_sklearn` take them: scaled, with public features, without a constant."""
        values = self.inputs.values(X)
        return self.inputs.rows(values) if self.is_network else self.inputs.rows_without_constant(values)

    def to_torch(self) -> nn.Module:
        """Return a PyTorch module that answers rows of `encode`, in single precision, with the model's scores.

        One score says how much speaks for the second of two classes; of several, each is that of a class.
        """
        if self.is_network:
            return self._new_network()
        require_torch(self.name)
        from .networks import linear_module

        return linear_module(*self.weights())

    def to_sklearn(self) -> Any:
        """Return a fitted model of scikit-learn that answers rows of `encode` as this one does; linear models only."""
        from sklearn.linear_model import LinearRegression, LogisticRegression

        if self.is_network:
            raise InvalidInput.because("to_sklearn", self.name, "a network has no twin in scikit-learn; use to_torch")
        coefficients, constants = self.weights()
        if not len(self.classes):
            made = LinearRegression()
            made.coef_, made.intercept_ = coefficients[0], float(constants[0]) + self.inputs.label_middle
        else:
            self.require_probabilities()
            if len(coefficients) == 2:  # scikit-learn has one score for two classes
                coefficients, constants = np.diff(coefficients, axis=0), np.diff(constants)
            made = LogisticRegression()
            made.coef_, made.intercept_, made.classes_ = coefficients, constants, self.classes
            made.n_iter_ = np.array([self.facts.updates])
        made.n_features_in_ = coefficients.shape[1]
        return made

    def save(self, path: str | Path) -> None:
        """Write it to a file that `skipring.load_model` reads."""
        from .file import save_model

        save_model(self, path)

    # What the above is made of.

    def scores(self, values: Floats) -> Floats:
        """Return the scores of rows, given their numbers before they are scaled: one of each, or one for each class."""
        rows = self.inputs.rows(values)
        if self.is_network:
            from .networks import answers

            found = answers(self._network, rows)
            return found[:, : len(self.classes)] if len(self.classes) else found.reshape(-1)
        each = self._rows
        return rows @ (each[0] if len(each) == 1 else each.T)

    def amounts(self, scores: Floats) -> Floats:
        """Return the numbers that scores stand for."""
        return scores.astype(np.float64) + self.inputs.label_middle

    def require_probabilities(self) -> None:
        """Refuse a model whose scores are no probabilities."""
        if not len(self.classes):
            raise InvalidInput.because("MODEL", self.name, "predicts numbers, which have no probabilities")
        if not self.has_probabilities:
            raise InvalidInput.because(
                "MODEL", self.name, "has scores, but only logistic loss makes them probabilities"
            )

    def weights(self) -> tuple[Floats, Floats]:
        """Return a row of coefficients and a constant for each score of a linear model."""
        rows = self._rows
        if not self.inputs.intercept:
            return rows, np.zeros(len(rows))
        factor, constant = self.inputs.room
        return rows[:, :-1] * factor, rows[:, -1] * constant

    @property
    def _rows(self) -> Floats:
        """The parameters of a linear model, a row for each score."""
        return self.parameters.reshape(loss_kind(self.name).scores(len(self.classes)), -1)

    @cached_property
    def _network(self) -> nn.Module:
        return self._new_network()

    def _new_network(self) -> nn.Module:
        require_torch(self.name)
        from .networks import network

        width = self.inputs.columns + self.inputs.intercept
        model = NeuralModel(name=self.name, features=width, classes=len(self.classes))
        return network(model, self.parameters, self.fixed)


def chosen(scores: Floats) -> NDArray[np.intp]:
    """Return the number of the class that scores speak for; a score of 0 speaks for the first of two."""
    return (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)


def log_shares(scores: Floats) -> Floats:
    """Return the logarithm of each class's probability."""
    if scores.ndim == 1:
        scores = scores.astype(np.float64)
        return -np.logaddexp(0.0, np.column_stack([scores, -scores]))
    found = scores - scores.max(axis=1, keepdims=True).astype(np.float64)
    return found - np.log(np.exp(found).sum(axis=1, keepdims=True))
