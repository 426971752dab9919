"""In which order nodes are offered the token, as far as privacy is concerned: a part of the record of a planned run."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from ..errors import InvalidInput, require_integer
from ..schedules import DesignedRing, KnownOrder, RandomRing, RandomWalk, Ring, Schedule

#: Beyond these, no order is designed.
MOST_NODES = 2000
MOST_CLOSING = 100
MOST_DESIGNED_STEPS = 10**6


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a run, and the keywords of `planned_run` that it is made from."""

    @property
    def keywords(self) -> dict[str, Any]:
        """What `planned_run` makes it from."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if name != "kind" and value is not None}


@dataclass(frozen=True, kw_only=True)
class _Hops(Part):
    #: What is known of all such orders.
    schedule: ClassVar[type[Schedule]]
    nodes: int
    steps: int

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2, 10**7)
        require_integer("steps", self.steps, 1, 10**10 if self.schedule.has_rounds() else 10**6 * self.nodes)
        if self.steps % self.schedule.unit(self.nodes):
            below = self.steps // self.nodes * self.nodes
            nearest = f"{below} or {below + self.nodes}" if below else f"{self.nodes}"
            reason = f"a multiple of nodes = {self.nodes}, such as {nearest} (a ring is accounted for in whole rounds)"
            raise InvalidInput("steps", self.steps, reason)

    @property
    def rounds(self) -> int:
        """Number of rounds of a ring."""
        return self.steps // self.nodes


@dataclass(frozen=True, kw_only=True)
class DrawnWalk(_Hops):
    """Each hop goes to a node that is drawn anew, the present holder among them."""

    schedule: ClassVar[type[Schedule]] = RandomWalk
    kind: str = RandomWalk.name


@dataclass(frozen=True, kw_only=True)
class DrawnRing(_Hops):
    """The order of each round is drawn anew."""

    schedule: ClassVar[type[Schedule]] = RandomRing
    kind: str = RandomRing.name


@dataclass(frozen=True, kw_only=True)
class FixedRing(_Hops):
    """All rounds have one order.

    `distance` says how many hops after the target the observer's turn comes, and `position` the target's place in the
    ring (1 to `nodes`). By default it is the worst pair, and the worst place.
    """

    distance: int | None = None
    position: int | None = None
    schedule: ClassVar[type[Schedule]] = Ring
    kind: str = Ring.name

    def __post_init__(self) -> None:
        super().__post_init__()
        for parameter, value, most in (
            ("distance", self.distance, self.nodes - 1),
            ("position", self.position, self.nodes),
        ):
            if value is not None:
                require_integer(parameter, value, 1)
                if value > most:
                    raise InvalidInput(parameter, value, f"at most {most} on a ring of {self.nodes} nodes")
        if self.position is not None and self.distance is None:
            raise InvalidInput.because("position", self.position, "needs the distance of the observer, too")


@dataclass(frozen=True, kw_only=True)
class DesignedOrder(_Hops):
    """An order that is designed and agreed on before the run (see `DesignedRing`).

    `closing` says how many hops at the end add noise and no gradient, `order_seed` which order it is, and `search` with
    how many moves it was looked for.
    """

    closing: int = 2
    order_seed: int = 1
    search: int | None = None
    schedule: ClassVar[type[Schedule]] = DesignedRing
    kind: str = DesignedRing.name

    def __post_init__(self) -> None:
        if self.nodes == 2:
            raise InvalidInput.because("nodes", 2, "two nodes have one order only; use the schedule ring")
        require_integer("nodes", self.nodes, 3, MOST_NODES)
        require_integer("steps", self.steps, 1, MOST_DESIGNED_STEPS)
        super().__post_init__()
        require_integer("closing", self.closing, 0, MOST_CLOSING)
        require_integer("order_seed", self.order_seed, 0)
        if self.search is not None:
            require_integer("search", self.search, 0, 10**9)

    @property
    def known(self) -> KnownOrder:
        """The order itself; to design it may take some seconds."""
        return DesignedRing(self.nodes, self.order_seed, self.closing, self.search).order(self.steps)


@dataclass(frozen=True, kw_only=True)
class AgreedOrder(_Hops):
    """Any order that is agreed on already; nodes, steps and closing hops are its own."""

    order: KnownOrder
    closing: int | None = None
    schedule: ClassVar[type[Schedule]] = RandomRing
    kind: str = "agreed"

    def __post_init__(self) -> None:
        held = {"nodes": self.order.nodes, "steps": len(self.order.hops), "closing": len(self.order.closing)}
        for parameter, number in held.items():
            if (given := getattr(self, parameter)) not in (number, None):
                raise InvalidInput.because(parameter, given, f"the order that is given has {number}")
        object.__setattr__(self, "closing", held["closing"])

    @property
    def known(self) -> KnownOrder:
        """The order itself."""
        return self.order


Order = FixedRing | DrawnRing | DrawnWalk | DesignedOrder | AgreedOrder
#: The kind of order that a schedule has, by the schedule's name.
ORDERS: dict[str, type[Order]] = {kind.schedule.name: kind for kind in (FixedRing, DrawnRing, DrawnWalk, DesignedOrder)}
