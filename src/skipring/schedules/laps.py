"""Laps: all nodes that are ready add to one private sum, and then take the same step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from .._arrays import Floats
from ..errors import InvalidInput, require_integer
from .rivals import Rival


@dataclass(frozen=True, kw_only=True)
class Laps(Rival):
    """A step is a lap: nodes that are late are left out of its sum, and are welcome in the next one.

    Parameters
    ----------
    nodes : number of nodes.
    coalition : how many nodes may put together what they know; by default a fifth of them, and one at least.
    least_nodes : how many a lap needs; by default more than half, and one more than may collude.

    >>> Laps(nodes=8).least_nodes, Laps(nodes=60).coalition
    (5, 12)
    """

    name: ClassVar[Literal["laps"]] = "laps"
    leaves_late_out: ClassVar[bool] = True
    against: ClassVar[str] = "Laps: against a coalition."
    #: Round trips of a lap: who is ready and who takes part, what each adds, and the masks.
    round_trips: ClassVar[int] = 3
    #: How many laps learn a linear model.
    usual: ClassVar[int] = 5
    #: Linear models of more parameters learn from gradients alone, in more laps.
    few_parameters: ClassVar[int] = 100
    usual_by_gradients: ClassVar[int] = 100
    coalition: int | None = None
    least_nodes: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        withstood = max(1, self.nodes // 5) if self.coalition is None else self.coalition
        require_integer("coalition", withstood, 1)
        if withstood > self.nodes - 1:
            raise InvalidInput("coalition", withstood, f"at most nodes - 1 = {self.nodes - 1}")
        least = max(self.nodes // 2 + 1, withstood + 1) if self.least_nodes is None else self.least_nodes
        require_integer("least_nodes", least, 2)
        if not withstood < least <= self.nodes:
            allowed = f"above coalition = {withstood} and at most nodes = {self.nodes}"
            raise InvalidInput("least_nodes", least, allowed)
        object.__setattr__(self, "coalition", int(withstood))
        object.__setattr__(self, "least_nodes", int(least))

    @property
    def withstood(self) -> int:
        """How many nodes may collude."""
        assert self.coalition is not None
        return self.coalition

    @property
    def needed(self) -> int:
        """How many nodes a lap needs."""
        assert self.least_nodes is not None
        return self.least_nodes

    @property
    def alone(self) -> str | None:
        """Say so where a lap may be a local release of each node; None where there is always more than one."""
        if self.needed - self.withstood > 1:
            return None
        many = "with two nodes" if self.nodes == 2 else "with as few nodes as a lap may have"
        return f"{many}, each hides its own contribution by itself (local releases): a sum gains nothing then"

    def sending(self, hop_latency: float) -> float:
        """Return how long a lap lasts beside waiting for its nodes."""
        return 2.0 * self.round_trips * hop_latency

    def latencies(self, delays: Floats, timeout: float, hop_latency: float) -> Floats:
        """Return the time of each lap, given all nodes' delays: to the slowest or the deadline, and sending."""
        return np.minimum(delays.max(axis=1), timeout) + self.sending(hop_latency)
