"""How far honest updates can have moved the model between two looks of a node; who moved it further has cheated.

An honest update is a step along a clipped gradient and its noise, shrunk by the ridge and projected onto the ball. The
model before it lies in the ball, so that the projection makes no way longer. Of the noise, a standard normal vector of
d numbers is longer than sqrt(d) + t with probability at most exp(-t^2 / 2) (its length is 1-Lipschitz). So the way of
some updates is no longer than the sum of step size x (gradient bound + noise + ridge x norm of the model). Each of them
may exceed it with a chance of `UNLUCKY`. One long step of a liar among several honest ones may hide in what they could
have gone; docs/threats.md says so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...learning import Learner
from ..protocol import Token, marks_of
from ..storage import chunks_of, size_of

#: The chance that the noise of one honest update is longer than what is allowed for.
UNLUCKY = 1e-15
_CHUNK = 1 << 20


class Strides:
    """Judges tokens by the way that the model has gone since this node saw it last.

    Parameters
    ----------
    learner : whose model it is; it knows bounds and noise.
    step_sizes : of each update of the run, the first one first.
    noise_multiplier, ridge : as agreed.
    """

    def __init__(self, learner: Learner, *, step_sizes: Sequence[float], noise_multiplier: float, ridge: float) -> None:
        parameters = math.prod(learner.shape)
        noise = math.sqrt(parameters) + math.sqrt(-2.0 * math.log(UNLUCKY))
        self._pull = learner.gradient_bound + learner.noise_std(noise_multiplier) * noise
        self._sizes, self._ridge = step_sizes, ridge
        self._radius, self._dtype = learner.radius, learner.dtype
        self._grain = float(np.finfo(learner.dtype).eps)

    def most(self, before: int, after: int, norm: float) -> float:
        """Return the longest way of the updates after the first `before` up to `after`, from a model of this norm."""
        way, reach = 0.0, norm
        for size in self._sizes[before:after]:
            step = size * (self._pull + self._ridge * reach)
            # Results are rounded; their numbers are no larger than the model is long.
            step += 4.0 * self._grain * (reach + step)
            way += step
            reach = min(reach + step, self._radius)
        return way * (1.0 + 1e-9)

    def too_far(self, last: Token, last_hop: int, token: Token) -> str:
        """Say why a token cannot have come from the last one that this node saw, at `last_hop`; nothing if it may have.

        Nothing is said of tokens that do not go on from it: after a recovery the run may go on from an earlier one.
        """
        seen = (1 << last_hop) - 1
        goes_on = marks_of(token.chain) & seen == marks_of(last.chain) & seen and token.updates >= last.updates
        if not goes_on or size_of(token.parameters) != size_of(last.parameters):
            return ""
        try:
            way, norm = self._way(last, token)
        except OSError:  # the last one is a file that something newer has taken the place of
            return ""
        most = self.most(last.updates, token.updates, norm)
        if way <= most:
            return ""
        made = token.updates - last.updates
        return f"the model has moved by {way:.4g} in {made} updates since this node saw it, and {most:.4g} is the most"

    def _way(self, last: Token, token: Token) -> tuple[float, float]:
        """Return how far apart two models are, and the norm of the first."""
        square = start = 0.0
        pairs = zip(chunks_of(last.parameters, _CHUNK), chunks_of(token.parameters, _CHUNK), strict=True)
        for first, second in pairs:
            a, b = (np.frombuffer(each, dtype=self._dtype).astype(np.float64) for each in (first, second))
            square, start = square + float((b - a) @ (b - a)), start + float(a @ a)
        return math.sqrt(square), math.sqrt(start)
