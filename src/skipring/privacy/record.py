"""What will happen in a run, as far as privacy is concerned: the record that accountants take."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from numbers import Real
from typing import Literal, Self, get_args

from ..errors import (
    InvalidInput,
    require_integer,
    require_positive,
    require_probability_below_one,
)
from ..schedules import FORESEEN, DesignedRing, KnownOrder, Schedule, schedule_kind
from ..timeouts import Turns
from ._rotation import least_parts
from .accountant import USUAL_UNIT, Unit

ScheduleName = str
#: What an observer is shown: the token at each of its turns, or at those where it takes part; or only the final model.
View = Literal["offered", "participants", "final"]
StepSizeLaw = Literal["sqrt", "constant"]

#: Beyond these, no order is designed.
MOST_NODES = 2000
MOST_CLOSING = 100
MOST_DESIGNED_STEPS = 10**6
#: The least noise multiplier of a run: with less there is no privacy to speak of.
LEAST_NOISE = 1e-2
#: The most parts of a node that are accounted for.
_MOST_PARTS = 10**6


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run that has not happened yet: everything that its privacy depends on.

    Parameters
    ----------
    schedule : who gets the token next: ``ring``, ``random-ring``, ``random-walk`` or ``designed-ring``.
    nodes, steps : how many nodes, and how many hops of the token (skipped ones, and hops of the walk to its present
        holder, included).
    skip : probability that a node is skipped at a hop. Where nodes differ, the largest.
    noise_multiplier : noise std over the most that one protected unit (a node, a person, a record) can contribute to
        one update, sigma / k. Replacing the unit moves an update by at most 2 k.
    target_skip : skip probability of the node whose data is protected, if it is quicker than the others (0: always
        ready).
    view : ``offered`` protects against an observer that is always ready, and so sees the token whenever it is its
        turn; ``participants`` against one that is itself skipped with probability at least `observer_skip`; ``final``
        against somebody outside the network who is shown the final model and nothing else.
    observer_skip : see `view`; by default the same as `skip`.
    distance, position : on the fixed ring, how many hops after the target the observer's turn comes, and the target's
        place in the ring (1 to `nodes`). By default the worst pair and the worst place.
    observers : how many nodes put together what they saw.
    convex : whether every update is a contraction (convex and smooth loss, learning rate at most 2 / smoothness).
        Without it there is no amplification along the walk.
    step_size : ``sqrt`` (learning rate / sqrt(update number)) or ``constant``.
    learning_rate, smoothness : if both are given, learning rate <= 2 / smoothness is checked.
    protects : what is hidden: all data of a ``node``, all rows of a ``person``, or one ``record``.
    every : a unit contributes at every so many-th turn of its node at most: the node's rows are dealt into so many
        parts, which take turns (whether the node is skipped or not). 1: at every turn.
    parts : where nodes have different numbers of parts, all numbers that occur; `every` follows. What is stated is then
        the largest over them. It is None if one number stands for all, such as 2 for 2 and 4.
    others : where skips are not independent (nodes that remember what they prepared): at least so many nodes beside
        target and observer, fixed before the order of a round is drawn, update in that round wherever their turn comes.
        `skip` is then 0 and not used.
    failure : probability that `others` is wrong in some round; it is part of every delta.
    closing : how many hops at the end add noise and no gradient; only where the order is known. By default 2 on the
        designed ring.
    order_seed, search : which designed order it is, and how many moves it was looked for with (see `DesignedRing`).
    order : an order that is already agreed on, in place of the average over orders of the random ring.

    >>> PlannedRun(schedule="random-ring", nodes=10, steps=1000, skip=0.5, noise_multiplier=10.0).rounds
    100
    >>> run = PlannedRun(schedule="ring", nodes=4, steps=40, skip=0.0, noise_multiplier=2.0, protects="record",
    ...                  parts=(6, 4, 9))
    >>> run.parts, run.every, run.replace(parts=(2, 4, 6)).every
    ((4, 6, 9), 1, 2)
    """

    schedule: ScheduleName
    nodes: int
    steps: int
    skip: float
    noise_multiplier: float
    target_skip: float | None = None
    view: View = "offered"
    observer_skip: float | None = None
    distance: int | None = None
    position: int | None = None
    observers: int = 1
    convex: bool = True
    step_size: StepSizeLaw = "sqrt"
    learning_rate: float | None = None
    smoothness: float | None = None
    protects: Unit = USUAL_UNIT
    every: int = 1
    parts: tuple[int, ...] | None = None
    others: int | None = None
    failure: float = 0.0
    closing: int | None = None
    order_seed: int | None = None
    search: int | None = None
    order: KnownOrder | None = None

    def __post_init__(self) -> None:
        self._check_parts()
        for parameter in (
            "skip",
            "noise_multiplier",
            "target_skip",
            "observer_skip",
            "learning_rate",
            "smoothness",
            "failure",
        ):
            value = getattr(self, parameter)
            if type(value) is not bool and isinstance(value, Real):
                object.__setattr__(self, parameter, float(value))  # a float16 would round every bound made from it
        for parameter, names in (
            ("schedule", FORESEEN),
            ("view", get_args(View)),
            ("step_size", get_args(StepSizeLaw)),
            ("protects", get_args(Unit)),
        ):
            if getattr(self, parameter) not in names:
                raise InvalidInput(parameter, getattr(self, parameter), "one of " + ", ".join(names))
        require_integer("nodes", self.nodes, 2, 10**7)
        require_integer("steps", self.steps, 1, 10**10)
        if not self.kind.has_rounds():
            require_integer("steps", self.steps, 1, 10**6 * self.nodes)
        if self.rotates and self.protects == "node":
            name, given = ("every", self.every) if self.parts is None else ("parts", self.parts)
            raise InvalidInput.because(name, given, "a node contributes at each of its turns; say whom it protects")
        for parameter in ("nodes", "steps"):  # small integer types of numpy would overflow
            object.__setattr__(self, parameter, int(getattr(self, parameter)))
        if not isinstance(self.convex, bool):
            raise InvalidInput("convex", repr(self.convex), "True or False")
        require_probability_below_one("skip", self.skip)
        require_positive("noise_multiplier", self.noise_multiplier)
        if not LEAST_NOISE <= self.noise_multiplier <= 1e9:
            reason = "between 0.01 and 1e9: with less there is no privacy to speak of, with more nothing is learned"
            raise InvalidInput("noise_multiplier", self.noise_multiplier, reason)
        require_integer("observers", self.observers, 1)
        if self.observers > self.nodes - 1:
            raise InvalidInput("observers", self.observers, f"at most nodes - 1 = {self.nodes - 1}")
        if self.target_skip is not None:
            require_probability_below_one("target_skip", self.target_skip)
        self._check_others()
        self._check_observer()
        self._check_place()
        self._check_step_size()
        self._check_order()
        if self.steps % self.kind.unit(self.nodes):
            below = self.steps // self.nodes * self.nodes
            nearest = f"{below} or {below + self.nodes}" if below else f"{self.nodes}"
            raise InvalidInput(
                "steps",
                self.steps,
                f"a multiple of nodes = {self.nodes}, such as {nearest} (a ring is accounted for in whole rounds)",
            )

    def _check_others(self) -> None:
        """Refuse what the theorem about nodes that are sure to update does not cover (docs/privacy.md)."""
        if not 0.0 <= self.failure < 1.0:
            raise InvalidInput("failure", self.failure, "a probability below 1")
        if self.others is None:
            if self.failure > 0.0:
                raise InvalidInput.because("failure", self.failure, "is that of others; say how many there are")
            return
        require_integer("others", self.others, 0)
        if self.others > self.nodes - 2:
            raise InvalidInput("others", self.others, f"at most nodes - 2 = {self.nodes - 2}")
        object.__setattr__(self, "others", int(self.others))
        if not self.kind.is_drawn_in_rounds():
            reason = f"needs an order that is drawn anew for each round; {self.schedule} has none"
            raise InvalidInput.because("others", self.others, reason)
        if self.order is not None:  # whoever knows it can prepare by it, and be missing just between two nodes
            reason = "needs an order that nobody knows before its round; this one is agreed on"
            raise InvalidInput.because("others", self.others, reason)
        if self.view == "participants":
            reason = "covers an observer that is sent the token at each of its turns; choose view offered"
            raise InvalidInput.because("others", self.others, reason)
        if self.skip > 0.0 or self.target_skip is not None:
            raise InvalidInput.because("others", self.others, "says who takes part; say skip 0 and no target_skip")

    def _check_parts(self) -> None:
        require_integer("every", self.every, 1, _MOST_PARTS)
        every, numbers = int(self.every), None
        if self.parts is not None:
            if len(self.parts) == 0:
                raise InvalidInput("parts", "nothing", "at least one number")
            for number in self.parts:
                require_integer("parts", number, 1, _MOST_PARTS)
            numbers = least_parts(self.parts)
            if every not in (1, math.gcd(*numbers)):
                raise InvalidInput.because("every", every, f"follows from parts = {numbers}; give one of the two")
            every = math.gcd(*numbers)
        object.__setattr__(self, "every", every)
        object.__setattr__(self, "parts", None if numbers == (every,) else numbers)

    def _check_order(self) -> None:
        designed = self.kind.order_is_known
        if self.order is not None:
            if self.kind.turns is not Turns.IN_ROUNDS:
                reason = f"an order that is agreed on is one of random-ring or designed-ring, not of {self.schedule}"
                raise InvalidInput.because("order", "given", reason)
            for parameter, given, held in (
                ("nodes", self.nodes, self.order.nodes),
                ("steps", self.steps, len(self.order.hops)),
                ("closing", self.closing, len(self.order.closing)),
            ):
                if given not in (held, None):
                    raise InvalidInput.because(parameter, given, f"the order that is given has {held}")
            object.__setattr__(self, "closing", len(self.order.closing))
        for parameter, given in (("order_seed", self.order_seed), ("search", self.search)):
            if given is not None and (not designed or self.order is not None):
                raise InvalidInput.because(parameter, given, "is for an order that is still to be designed")
        if designed and self.order is None:
            if self.nodes == 2:
                raise InvalidInput.because("nodes", 2, "two nodes have one order only; use the schedule ring")
            require_integer("nodes", self.nodes, 3, MOST_NODES)
            require_integer("steps", self.steps, 1, MOST_DESIGNED_STEPS)
            for parameter, usual in (("closing", 2), ("order_seed", 1)):
                if getattr(self, parameter) is None:
                    object.__setattr__(self, parameter, usual)
            require_integer("order_seed", self.order_seed, 0)
            if self.search is not None:
                require_integer("search", self.search, 0, 10**9)
        if self.closing is not None:
            require_integer("closing", self.closing, 0, MOST_CLOSING)
            if self.closing and not self.order_is_known:
                reason = f"no forecast of {self.schedule} knows closing hops; use designed-ring, or say 0"
                raise InvalidInput.because("closing", self.closing, reason)
        if self.order_is_known and self.view == "participants":
            reason = "in a known order observers are taken to be always ready; say offered"
            raise InvalidInput.because("view", self.view, reason)

    def _check_observer(self) -> None:
        if self.view == "final":
            for parameter, given in (
                ("observers", self.observers if self.observers > 1 else None),
                ("observer_skip", self.observer_skip),
                ("distance", self.distance),
                ("position", self.position),
            ):
                if given is not None:
                    raise InvalidInput.because(
                        parameter, given, "view final is about somebody outside the network, who has no turn in it"
                    )
        if self.observer_skip is None:
            return
        require_probability_below_one("observer_skip", self.observer_skip)
        if self.view == "offered":
            raise InvalidInput.because(
                "observer_skip",
                self.observer_skip,
                "view offered protects against an observer that is never skipped; choose view participants",
            )

    def _check_place(self) -> None:
        for parameter, value, most in (
            ("distance", self.distance, self.nodes - 1),
            ("position", self.position, self.nodes),
        ):
            if value is None:
                continue
            if self.kind.turns is not Turns.IN_PLACE:
                raise InvalidInput.because(
                    parameter,
                    value,
                    f"only the fixed ring has places; on {self.schedule} all pairs are alike",
                )
            require_integer(parameter, value, 1)
            if value > most:
                raise InvalidInput(parameter, value, f"at most {most} on a ring of {self.nodes} nodes")
        if self.distance is not None and self.observers > 1:
            raise InvalidInput.because("distance", self.distance, "is that of one observer; several have none")
        if self.position is not None and self.distance is None:
            raise InvalidInput.because("position", self.position, "needs the distance of the observer, too")

    def _check_step_size(self) -> None:
        for parameter, value in (("learning_rate", self.learning_rate), ("smoothness", self.smoothness)):
            if value is not None:
                require_positive(parameter, value)
        if self.convex and self.learning_rate is not None and self.smoothness is not None:
            most = 2.0 / self.smoothness
            if self.learning_rate > most * (1.0 + 1e-12):
                raise InvalidInput(
                    "learning_rate",
                    self.learning_rate,
                    f"at most 2 / smoothness = {most:g} for the amplified accounting (or say that it is not convex)",
                )

    @property
    def kind(self) -> type[Schedule]:
        """The schedule, which says what is known of all of its orders."""
        return schedule_kind(self.schedule)

    @property
    def rounds(self) -> int:
        """Number of rounds of a ring."""
        return self.steps // self.nodes

    @property
    def order_is_known(self) -> bool:
        """Whether the order is agreed on before the run: all but who takes part."""
        return self.order is not None or self.kind.order_is_known

    @property
    def known_order(self) -> KnownOrder:
        """The order that is agreed on; to design it may take some seconds."""
        if self.order is not None:
            return self.order
        assert self.closing is not None
        assert self.order_seed is not None
        return DesignedRing(self.nodes, self.order_seed, self.closing, self.search).order(self.steps)

    @property
    def rotates(self) -> bool:
        """Whether a unit contributes at some turns of its node only."""
        return self.every > 1 or self.parts is not None

    @property
    def parts_of_nodes(self) -> tuple[int, ...]:
        """The numbers of parts that are accounted for; a unit of any other node contributes no more often."""
        return (self.every,) if self.parts is None else self.parts

    # Each probability is rounded to the side on which the bound is larger: 1 - 1e-17 must not become certainty.

    @property
    def others_ready(self) -> float:
        """Probability that another node takes part when it is its turn, rounded down."""
        return 1.0 if self.skip == 0.0 else math.nextafter(1.0 - self.skip, 0.0)

    @property
    def target_ready(self) -> float:
        """Probability that the protected node takes part when it is its turn, rounded up."""
        return math.nextafter(1.0 - (self.skip if self.target_skip is None else self.target_skip), 1.0)

    @property
    def observer_sees(self) -> float:
        """Probability that the observer is sent the token when it is its turn, rounded up."""
        if self.view != "participants":
            return 1.0
        return math.nextafter(1.0 - (self.skip if self.observer_skip is None else self.observer_skip), 1.0)

    @property
    def release(self) -> float:
        """mu^2 of one release that is charged in full: (sensitivity / sigma)^2 with sensitivity 2 k."""
        return (2.0 / self.noise_multiplier) ** 2

    def replace(self, **changes: object) -> Self:
        """Return the same run with some values changed."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]


def whole_node(run: PlannedRun, rows: int) -> PlannedRun | None:
    """Return what the same run promises for all data of a node, or None where that is nothing.

    `rows` is the most that a node contributes to one update, in units of what one protected unit can: the most records
    (or persons) that an update uses. A whole node moves an update by so many times as much, and at every turn. So the
    same noise is so many times smaller in its units, and there is no rotation. Below the noise that `PlannedRun` allows
    there is no privacy to speak of.

    >>> run = PlannedRun(schedule="random-ring", nodes=60, steps=1800, skip=0.3, noise_multiplier=4.0,
    ...                  protects="record", every=5)
    >>> whole_node(run, 100).noise_multiplier, whole_node(run, 1000)
    (0.04, None)
    """
    require_integer("rows", rows, 1)
    if run.protects == "node":
        return run
    noise = run.noise_multiplier / rows
    if noise < LEAST_NOISE:
        return None
    return run.replace(protects="node", every=1, parts=None, noise_multiplier=noise)
