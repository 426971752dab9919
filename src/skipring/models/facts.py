"""What a model's file says of the model in words and numbers: its name, where it comes from, what it cost."""

from __future__ import annotations

import math
from dataclasses import dataclass

from .._json import to_json
from .._numbers import upper
from .._version import __version__
from ..privacy import PROTECTED, RELATION, PrivacyReport, Unit

#: Files with another number are not understood. New keys that may be missing do not change it.
FORMAT = 1

_LOOKERS = {
    "offered": "any other node, which sees the token at its turns and the final model",
    "any node": "any node",
    "server": "the server",
    "final": "an outsider who is shown this model and nothing else",
    "checkpoint": "an outsider who is shown this model, before the run is over, and nothing else",
}


@dataclass(frozen=True, kw_only=True)
class EpsilonClaim:
    """How well a model hides the data it was made from: an epsilon, or why there is none.

    Parameters
    ----------
    whose : whose data is hidden, in words: any node of the run, or the one node that keeps this account.
    unit, relation : what is hidden (one record, all rows of a person, all data of a node), and what it may be replaced
        by.
    delta, view, method : what the epsilon goes with: who looks, and which accounting was used.
    epsilon, refused : the number, or why none can be stated.
    """

    whose: str
    unit: Unit
    relation: str = RELATION
    delta: float
    view: str
    method: str
    epsilon: float | None = None
    refused: str | None = None

    def sentence(self) -> str:
        """Say it to people."""
        if self.epsilon is None:
            return f"No epsilon is stated for {self.whose}: {self.refused or 'nobody said why'}."
        if math.isinf(self.epsilon):
            whom = _LOOKERS.get(self.view, self.view)
            return f"For {self.whose}: nothing is protected against {whom} (epsilon infinity)."
        return (
            f"For {self.whose}: epsilon {upper(self.epsilon)} at delta {self.delta:g} protects {PROTECTED[self.unit]}"
            f" ({self.relation}) against {_LOOKERS.get(self.view, self.view)} (method {self.method}, view {self.view})."
        )


@dataclass(frozen=True, kw_only=True)
class ModelFacts:
    """What is known of a model beside its parameters and its columns.

    Parameters
    ----------
    name : logistic, softmax, squared, a loss of one's own, cnn, small-cnn, or ``module:function``.
    updates : how many updates made it.
    run : a digest of the run that it was trained in; the same at all nodes of a network.
    epsilon : what it cost, each claim with whose data it is about.
    not_covered : what no epsilon of these counts.
    source : where it comes from, in words.
    made : when it was made, if that was said.
    format, skipring : of the file, and of the version that wrote it.
    """

    name: str
    updates: int
    run: str
    epsilon: tuple[EpsilonClaim, ...]
    not_covered: str | None = None
    source: str = ""
    made: str | None = None
    format: int = FORMAT
    skipring: str = __version__

    def sentences(self) -> list[str]:
        """Say what the model cost in privacy."""
        said = [claim.sentence() for claim in self.epsilon] or ["The file states no epsilon."]
        return said if self.not_covered is None else [*said, f"Not covered: {self.not_covered}."]

    def privacy_json(self) -> dict[str, object]:
        """Return what the model cost as commands print it with --json."""
        return {"epsilon": to_json(self.epsilon), "not_covered": self.not_covered}


def claims_of(report: PrivacyReport, whose: str) -> tuple[EpsilonClaim, ...]:
    """Return what a simulated run's report states: its forecast, and the one for the final model alone."""

    def claim(view: str, epsilon: float | None, refused: str | None) -> EpsilonClaim:
        return EpsilonClaim(
            whose=whose,
            unit=report.unit,
            delta=report.delta,
            view=view,
            method="tight",
            epsilon=epsilon,
            refused=refused,
        )

    if report.refused is not None:
        return (claim(report.view, None, report.refused),)
    stated = [(report.view, report.forecast), ("final", report.final)]
    return tuple(claim(view, each.epsilon, each.refused) for view, each in stated if each is not None)
