"""Schedules that need no design: a fixed order, or one that is drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_integer

Path = NDArray[np.int32]


@dataclass(frozen=True)
class Schedule(ABC):
    """The order in which the token is offered to nodes 0, 1, ..., nodes - 1."""

    name: ClassVar[str]
    nodes: int

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, at_least=2)
        if self.nodes > np.iinfo(np.int32).max:
            raise InvalidInput("nodes", self.nodes, "below 2^31")

    def path(self, steps: int, rng: np.random.Generator) -> Path:
        """Return the node that each of the first `steps` hops is offered to.

        The same generator state gives the same order: a longer path continues a shorter one.
        """
        require_integer("steps", steps, at_least=1)
        return self._path(int(steps), rng)

    @abstractmethod
    def _path(self, steps: int, rng: np.random.Generator) -> Path: ...


@dataclass(frozen=True)
class Ring(Schedule):
    """Everyone in turn, in the same order every round.

    >>> Ring(3).path(7, np.random.default_rng(0)).tolist()
    [0, 1, 2, 0, 1, 2, 0]
    """

    name: ClassVar[str] = "ring"

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        return (np.arange(steps) % self.nodes).astype(np.int32)


@dataclass(frozen=True)
class RandomRing(Schedule):
    """Everyone once per round, in a fresh random order every round.

    >>> rounds = RandomRing(3).path(6, np.random.default_rng(0)).reshape(2, 3)
    >>> np.sort(rounds).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """

    name: ClassVar[str] = "random-ring"

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        rounds = -(-steps // self.nodes)
        orders = np.tile(np.arange(self.nodes, dtype=np.int32), (rounds, 1))
        rng.permuted(orders, axis=1, out=orders)
        return orders.ravel()[:steps]


@dataclass(frozen=True)
class RandomWalk(Schedule):
    """Anyone at every hop, chosen uniformly; the node that holds the token may be chosen again.

    >>> bool((RandomWalk(3).path(1000, np.random.default_rng(0)) < 3).all())
    True
    """

    name: ClassVar[str] = "random-walk"

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        return rng.integers(0, self.nodes, size=steps, dtype=np.int32)
