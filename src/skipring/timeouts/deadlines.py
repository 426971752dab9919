"""How long all nodes are waited for at once: the deadline of laps with the most contributions per time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import bdtrc

from .._arrays import Doubles
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative
from .fresh import SAME, SMALLEST

#: How many deadlines are tried, and how far into the tail of one node's delay.
_TRIED, _TAIL = 4000, 1e-12


@dataclass(frozen=True)
class DeadlineChoice:
    """A deadline, how often it leaves a node out, how long a try takes, and how many nodes add to a sum per time."""

    deadline: float
    skip_probability: float
    time: float
    contributions_per_time: float


def best_deadline(delay: Delay, sending: float, nodes: int, needed: int) -> DeadlineChoice:
    """Return the deadline with the most contributions per time; of those as good to 0.1 %, the longest.

    A try ends at the deadline, or when the slowest node is ready; `sending` comes on top. With fewer than `needed`
    nodes it is void: it takes its time for nothing. The rate is E[K; K >= needed] over the mean time of a try, K being
    binomial. It is computed at 4000 deadlines, from the quantiles of the law.

    >>> from skipring.delays import Exponential
    >>> choice = best_deadline(Exponential(1.0), 0.06, nodes=1000, needed=501)
    >>> round(choice.deadline, 2), round(choice.skip_probability, 2)
    (0.79, 0.45)
    """
    moments, late, times, rates = _tried(delay, sending, nodes, needed)
    at = int(np.flatnonzero(rates >= rates.max() * (1.0 - 1e-3 - SAME))[-1])
    return DeadlineChoice(float(moments[at]), float(late[at]), float(times[at]), float(rates[at]))


def longest_deadline(delay: Delay, sending: float, nodes: int, needed: int, time: float) -> DeadlineChoice | None:
    """Return the longest deadline with which a lap takes at most this long on average, void tries included.

    None where each takes longer. A longer deadline leaves out fewer nodes.

    >>> from skipring.delays import Exponential
    >>> choice = longest_deadline(Exponential(1.0), 0.06, nodes=1000, needed=501, time=5.06)
    >>> round(choice.deadline, 2), round(choice.skip_probability, 4)
    (4.99, 0.0068)
    """
    moments, late, times, rates = _tried(delay, sending, nodes, needed)
    fits = np.flatnonzero((times <= time * bdtrc(needed - 1, nodes, 1.0 - late)) & (rates > 0.0))
    if not len(fits):
        return None
    at = int(fits[-1])
    return DeadlineChoice(float(moments[at]), float(late[at]), float(times[at]), float(rates[at]))


def chance_of_enough(nodes: int, needed: int, ready: float) -> float:
    """Return the probability that a lap has as many nodes as it needs, each being ready with this probability.

    >>> round(chance_of_enough(4, 3, 0.5), 4)
    0.3125
    """
    return float(bdtrc(needed - 1, nodes, ready))


def _tried(delay: Delay, sending: float, nodes: int, needed: int) -> tuple[Doubles, Doubles, Doubles, Doubles]:
    """Return deadlines, and for each how often a node is late, a try's mean time, and the contributions per time."""
    require_non_negative("sending", sending)
    require_integer("nodes", nodes, 2)
    require_integer("needed", needed, 1, nodes)
    moments = _moments_of(delay)
    late = np.maximum(delay.survival(moments), 0.0)
    with np.errstate(divide="ignore"):
        one_late = -np.expm1(nodes * np.log1p(-late))  # P(the slowest is later)
        # The same just before each moment, at which a law may have much of its mass.
        until = -np.expm1(nodes * np.log1p(-np.maximum(delay.survival(np.nextafter(moments, 0.0)), 0.0)))
    widths = np.diff(moments, prepend=0.0)
    before = np.append(1.0, one_late[:-1])
    times = np.cumsum(0.5 * widths * (before + until)) + sending
    present = 1.0 - late
    enough = np.ones_like(present) if needed == 1 else bdtrc(needed - 2, nodes - 1, present)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(times > SMALLEST, nodes * present * enough / times, 0.0)
    if not rates.max(initial=0.0) > 0.0:
        raise InvalidInput("delay", delay, f"one with which {needed} of {nodes} nodes are ready some time")
    return moments, late, times, rates


def _moments_of(delay: Delay) -> Doubles:
    """Return where deadlines are tried: even in the probability to be ready, and far out in that of being late."""
    even = delay.quantile(np.linspace(0.0, 1.0, _TRIED // 2, endpoint=False))
    tail = delay.upper_quantile(np.geomspace(0.5, _TAIL, _TRIED // 2))
    moments = np.unique(np.append(even, tail))
    return moments[np.isfinite(moments) & (moments > 0.0)]
