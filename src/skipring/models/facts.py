"""What a model's file says of the model in words and numbers: its name, where it comes from, what it cost."""

from __future__ import annotations

from dataclasses import dataclass

from .._version import __version__
from ..privacy import Guarantee

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
