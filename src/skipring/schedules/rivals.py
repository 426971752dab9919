"""Rivals of the token: how an iteration of each goes, and how long it takes."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from .._arrays import Floats
from ..delays import Delay
from ..errors import InvalidInput, require_integer, require_non_negative, require_positive


@dataclass(frozen=True, kw_only=True)
class Rival:
    """What has no token: a step is an iteration of all nodes."""

    name: ClassVar[str]
    #: Whether an iteration goes on without nodes that are late.
    leaves_late_out: ClassVar[bool]
    #: Against whom its epsilon is, in a few words, and what a page says of it in HTML.
    against: ClassVar[str]
    caption: ClassVar[str]
    nodes: int

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)


@dataclass(frozen=True, kw_only=True)
class Gossip(Rival):
    """Muffliato-SGD: every node takes a noisy step on its own model, and then averages it with its neighbours.

    Each iteration draws a fresh random graph (Erdos-Renyi). A node that would be late costs its links: with skip
    probability p the mean degree is (1 - p) x `degree`, as in the paper's comparison.

    Parameters
    ----------
    nodes : number of nodes.
    rounds : rounds of averaging per iteration.
    degree : mean number of neighbours if nobody is late (default: ln nodes).
    acceleration : the weight of the present in each round but the first, beyond 1 for Chebyshev's acceleration.
    slots : time slots that a round of averaging takes until everyone has reached all neighbours.
    """

    name: ClassVar[str] = "gossip"
    leaves_late_out: ClassVar[bool] = False
    against: ClassVar[str] = "Gossip: a node's own releases."
    caption: ClassVar[str] = (
        "For <b>gossip</b> what is promised counts a node's own releases; <i>epsilon paper</i> is Muffliato's theorem,"
        " not proven for this protocol; <i>in this run, worst</i> is the worst of some pairs, without a final model."
    )
    slots: float
    rounds: int = 2
    degree: float | None = None
    acceleration: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("rounds", self.rounds, 1)
        require_non_negative("slots", self.slots)
        if self.degree is not None:
            require_positive("degree", self.degree)
            if self.degree > self.nodes - 1:
                raise InvalidInput("degree", self.degree, f"at most {self.nodes - 1}, the number of other nodes")
        if not 1.0 <= self.acceleration < 2.0:
            raise InvalidInput("acceleration", self.acceleration, "at least 1 (none) and below 2")

    @property
    def full_degree(self) -> float:
        """The mean number of neighbours if nobody is late."""
        return self.degree if self.degree is not None else min(math.log(self.nodes), self.nodes - 1.0)

    def edge_probability(self, skip: float) -> float:
        """Return the probability that two nodes are neighbours."""
        return (1.0 - skip) * self.full_degree / (self.nodes - 1)

    def latencies(
        self, iterations: int, delay: Delay, timeout: float, hop_latency: float, rng: np.random.Generator
    ) -> Floats:
        """Draw the time of each iteration: the slowest of a node's neighbours, and the slots of all rounds."""
        neighbours = max(1, round(self.full_degree))
        slowest = delay.sample(rng, (iterations, neighbours)).max(axis=1)
        return np.minimum(slowest, timeout) + self.rounds * self.slots * hop_latency


@dataclass(frozen=True, kw_only=True)
class Federated(Rival):
    """FedL-SGD: a server averages the noisy gradients of all nodes that are ready in time, and sends the model to all.

    Parameters
    ----------
    nodes : number of nodes.
    channels : how many nodes can upload at the same time.
    """

    name: ClassVar[str] = "federated"
    leaves_late_out: ClassVar[bool] = True
    against: ClassVar[str] = "Federated: against the server."
    caption: ClassVar[str] = "For <b>federated</b> it protects against the server, which sees every upload."
    channels: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require_integer("channels", self.channels, 1)

    def latencies(self, delays: Floats, timeout: float, hop_latency: float) -> Floats:
        """Return the time of each iteration, given the delay of each node in it: uploads in turns, one broadcast."""
        return np.minimum(delays.max(axis=1), timeout) + (1.0 + self.nodes / self.channels) * hop_latency
