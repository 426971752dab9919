"""Schedules that need no design: a fixed order, or one that is drawn."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput, require_integer
from ..timeouts import TurnLaw

Path = NDArray[np.int32]


@dataclass(frozen=True)
class Schedule(ABC):
    """The order in which the token is offered to nodes 0, 1, ..., nodes - 1.

    What is known of all such orders, others ask of the class; one of your own knows none of it.
    """

    #: What run files and options call it.
    name: ClassVar[str]
    #: When a node's turn comes; None where no law of it is known, so that nothing is said before a run.
    turns: ClassVar[TurnLaw | None] = None
    #: Whether it is agreed on before the run, and the same in all runs.
    order_is_known: ClassVar[bool] = False
    #: The paper's theorem about its privacy.
    theorem: ClassVar[int | None] = None
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

    def whole_path(self, steps: int, rng: np.random.Generator) -> Path:
        """Return the same with the closing hops."""
        return self.path(steps, rng)

    def agreed_path(self, steps: int, below: Callable[[int], int]) -> list[int]:
        """Return the node of each hop, the same on every machine: `below` draws a number below a bound, as all agreed.

        No library whose streams may change has a part in it.
        """
        raise InvalidInput.because("schedule", self.name, "nodes of a network cannot agree on its order")

    @property
    def closing_hops(self) -> int:
        """How many hops after the steps add noise and no gradient."""
        return 0

    @abstractmethod
    def _path(self, steps: int, rng: np.random.Generator) -> Path: ...

    @classmethod
    def is_drawn_in_rounds(cls) -> bool:
        """Say whether each round has an order of its own, which nobody knows before."""
        return cls.turns is TurnLaw.IN_ROUNDS and not cls.order_is_known

    @classmethod
    def has_rounds(cls) -> bool:
        """Say whether everyone has one turn in each round."""
        return cls.turns in (TurnLaw.IN_PLACE, TurnLaw.IN_ROUNDS)

    @classmethod
    def unit(cls, nodes: int) -> int:
        """Return how many steps belong together: a round, or one where there are none."""
        return nodes if cls.has_rounds() else 1

    @classmethod
    def log_mixing_factor(cls, nodes: int, skip: float) -> float:
        """Return the logarithm of |lambda_1| of Theorem 1: the factor itself rounds to 1 for large slow rings.

        Where each place of each round is anyone's with the same probability, no preference for certain nodes is kept.
        """
        if cls.turns is None:
            raise InvalidInput.because("schedule", cls.name, "no error bound covers it")
        return -math.inf


@dataclass(frozen=True)
class Ring(Schedule):
    """Everyone in turn, in the same order every round.

    >>> Ring(3).path(7, np.random.default_rng(0)).tolist()
    [0, 1, 2, 0, 1, 2, 0]
    """

    name: ClassVar[str] = "ring"
    turns: ClassVar[TurnLaw | None] = TurnLaw.IN_PLACE
    theorem: ClassVar[int | None] = 2

    @classmethod
    def log_mixing_factor(cls, nodes: int, skip: float) -> float:
        """Return that of a ring, which forgets where it began only through skips."""
        if skip == 0.0:
            raise InvalidInput.because(
                "skip",
                skip,
                "Theorem 1 covers the fixed ring only with a positive skip probability; "
                "give a small one, or use the schedule random-ring",
            )
        # 1 + p^2 - 2 p cos(2 pi / n) = (1 - p)^2 + 4 p sin^2(pi / n): this form has no cancellation.
        return -0.5 * math.log1p(4.0 * skip * (math.sin(math.pi / nodes) / (1.0 - skip)) ** 2)

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        return (np.arange(steps) % self.nodes).astype(np.int32)

    def agreed_path(self, steps: int, below: Callable[[int], int]) -> list[int]:
        """Return everyone in turn; nothing is drawn."""
        return [hop % self.nodes for hop in range(steps)]


@dataclass(frozen=True)
class RandomRing(Schedule):
    """Everyone once per round, in a fresh random order every round.

    >>> rounds = RandomRing(3).path(6, np.random.default_rng(0)).reshape(2, 3)
    >>> np.sort(rounds).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """

    name: ClassVar[str] = "random-ring"
    turns: ClassVar[TurnLaw | None] = TurnLaw.IN_ROUNDS
    theorem: ClassVar[int | None] = 3

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        rounds = -(-steps // self.nodes)
        orders = np.tile(np.arange(self.nodes, dtype=np.int32), (rounds, 1))
        rng.permuted(orders, axis=1, out=orders)
        return orders.ravel()[:steps]

    def agreed_path(self, steps: int, below: Callable[[int], int]) -> list[int]:
        """Return one shuffle after the other."""
        path: list[int] = []
        while len(path) < steps:
            path += shuffled(self.nodes, below)
        return path[:steps]


@dataclass(frozen=True)
class RandomWalk(Schedule):
    """Anyone at every hop, chosen uniformly; the node that holds the token may be chosen again.

    >>> bool((RandomWalk(3).path(1000, np.random.default_rng(0)) < 3).all())
    True
    """

    name: ClassVar[str] = "random-walk"
    turns: ClassVar[TurnLaw | None] = TurnLaw.AT_RANDOM
    theorem: ClassVar[int | None] = 4

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        return rng.integers(0, self.nodes, size=steps, dtype=np.int32)

    def agreed_path(self, steps: int, below: Callable[[int], int]) -> list[int]:
        """Return one draw after the other."""
        return [below(self.nodes) for _ in range(steps)]


def shuffled(size: int, below: Callable[[int], int]) -> list[int]:
    """Return the numbers below `size` in random order; `below` draws a number below a bound."""
    order = list(range(size))
    for place in range(size - 1, 0, -1):
        other = below(place + 1)
        order[place], order[other] = order[other], order[place]
    return order
