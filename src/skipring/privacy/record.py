"""What will happen in a run, as far as privacy is concerned: the record that accountants take.

It is made of four small records: in which order nodes are offered the token, who takes part, who looks, and what is
protected. `planned_run` makes them from plain keywords.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Literal, get_args

import numpy as np

from ..errors import InvalidInput, require_integer, require_positive, require_probability_below_one
from ..schedules import FORESEEN, schedule_kind
from ..timeouts import TurnLaw
from ._rotation import least_parts
from ._step_sizes import StepSizeLaw
from .accountant import USUAL_UNIT, Unit
from .orders import ORDERS, AgreedOrder, DesignedOrder, DrawnRing, FixedRing, Order, Part

ScheduleName = str
#: Who looks: another node that is always ready, one that is itself skipped, or an outsider who has the final model.
Against = Literal["node", "skipped-node", "outsider"]

#: Between these are the noise multipliers of a run: with less there is no privacy to speak of, with more no learning.
LEAST_NOISE, MOST_NOISE = 1e-2, 1e9
#: The most parts of a node that are accounted for.
_MOST_PARTS = 10**6


@dataclass(frozen=True, kw_only=True)
class IndependentSkips(Part):
    """Each node is skipped with probability `skip` at each of its turns, whatever happened before.

    Where nodes differ, `skip` is the largest; the node whose data is protected is skipped with probability
    `target_skip`, if it is quicker than the others (0: always ready).
    """

    skip: float
    target_skip: float | None = None
    kind: Literal["independent"] = "independent"

    def __post_init__(self) -> None:
        for parameter, value in (("skip", self.skip), ("target_skip", self.target_skip)):
            if value is not None:
                require_probability_below_one(parameter, value)

    @property
    def everybody(self) -> bool:
        """Whether all take part at all of their turns."""
        return self.skip == 0.0 and not self.target_skip

    # Each probability is rounded to the side on which the bound is larger: 1 - 1e-17 must not become certainty.

    @property
    def others_ready(self) -> float:
        """Probability that another node takes part when it is its turn, rounded down."""
        return 1.0 if self.skip == 0.0 else math.nextafter(1.0 - self.skip, 0.0)

    @property
    def target_ready(self) -> float:
        """Probability that the protected node takes part when it is its turn, rounded up."""
        return math.nextafter(1.0 - (self.skip if self.target_skip is None else self.target_skip), 1.0)


@dataclass(frozen=True, kw_only=True)
class SureOthers(Part):
    """Skips are not independent: nodes remember what they prepared.

    At least `others` nodes beside target and observer, fixed before the order of a round is drawn, update in that round
    wherever their turn comes. `failure` is the probability that this is wrong in some round; it is part of every delta.
    """

    others: int
    failure: float = 0.0
    kind: Literal["sure others"] = "sure others"
    # Those who are counted, and the target, take part at all of their turns.
    everybody: ClassVar[bool] = True
    skip: ClassVar[float] = 0.0
    others_ready: ClassVar[float] = 1.0
    target_ready: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        require_integer("others", self.others, 0)
        if not 0.0 <= self.failure < 1.0:
            raise InvalidInput("failure", self.failure, "a probability below 1")


@dataclass(frozen=True, kw_only=True)
class Members(Part):
    """Another node, or several that put together what they saw.

    They see the token whenever it is their turn, as nodes do that are always ready; with `observer_skip`, nodes that
    are themselves skipped with that probability at least.
    """

    observers: int = 1
    observer_skip: float | None = None
    kind: Literal["members"] = "members"

    def __post_init__(self) -> None:
        require_integer("observers", self.observers, 1)
        if self.observer_skip is not None:
            require_probability_below_one("observer_skip", self.observer_skip)

    @property
    def sees(self) -> float:
        """Probability that one is sent the token when it is its turn, rounded up."""
        return 1.0 if self.observer_skip is None else math.nextafter(1.0 - self.observer_skip, 1.0)

    @property
    def keywords(self) -> dict[str, Any]:
        """What `planned_run` makes it from."""
        return {"against": "node" if self.observer_skip is None else "skipped-node"} | super().keywords


@dataclass(frozen=True, kw_only=True)
class Outsider(Part):
    """An outsider, who is shown the final model and nothing else."""

    kind: Literal["outsider"] = "outsider"
    sees: ClassVar[float] = 1.0  # as the laws for members, which hold for it as well, ask for it

    @property
    def keywords(self) -> dict[str, Any]:
        """What `planned_run` makes it from."""
        return {"against": "outsider"}


@dataclass(frozen=True, kw_only=True)
class Protected(Part):
    """A record, all rows of a person, or all data of a node; and into how many parts the rows of its node are dealt.

    Parts take turns, whether the node is skipped or not, so that with k parts a unit contributes at every k-th turn of
    its node at most. Where nodes have different numbers of parts, `parts` has all that occur, but for those that a
    smaller one divides; what is stated is then the largest over them.
    """

    protects: Unit = USUAL_UNIT
    parts: tuple[int, ...] = (1,)

    def __post_init__(self) -> None:
        if self.protects not in get_args(Unit):
            raise InvalidInput("protects", self.protects, "one of " + ", ".join(get_args(Unit)))
        several: Any = self.parts
        given = tuple(several) if isinstance(several, Iterable) else (several,)
        if not given:
            raise InvalidInput("parts", "nothing", "at least one number")
        for number in given:
            require_integer("parts", number, 1, _MOST_PARTS)
        object.__setattr__(self, "parts", least_parts(given))
        if self.protects == "node" and self.parts != (1,):
            words = ", ".join(map(str, given))
            raise InvalidInput.because("parts", words, "a node contributes at each of its turns; say whom it protects")

    @property
    def every(self) -> int:
        """The k for which a unit of any node contributes at every k-th turn of its node at most."""
        return math.gcd(*self.parts)


@dataclass(frozen=True, kw_only=True)
class PlannedRun:
    """A run that has not happened yet: everything that its privacy depends on. `planned_run` makes one from keywords.

    Parameters
    ----------
    order : in which order nodes are offered the token.
    taking_part : who takes part when it is their turn.
    observer : who looks.
    unit : what is protected.
    noise_multiplier : noise std over the most that one protected unit can contribute to one update, sigma / k.
        Replacing the unit moves an update by at most 2 k.
    convex : whether every update is a contraction (convex and smooth loss, learning rate at most 2 / smoothness).
        Without it there is no amplification along the walk.
    step_size : ``sqrt`` (learning rate / sqrt(update number)) or ``constant``.
    """

    order: Order
    taking_part: IndependentSkips | SureOthers
    observer: Members | Outsider
    unit: Protected
    noise_multiplier: float
    convex: bool = True
    step_size: StepSizeLaw = "sqrt"

    def __post_init__(self) -> None:
        if not isinstance(self.convex, bool):
            raise InvalidInput("convex", repr(self.convex), "True or False")
        if self.step_size not in get_args(StepSizeLaw):
            raise InvalidInput("step_size", self.step_size, "one of " + ", ".join(get_args(StepSizeLaw)))
        require_positive("noise_multiplier", self.noise_multiplier)
        if not LEAST_NOISE <= self.noise_multiplier <= MOST_NOISE:
            reason = "between 0.01 and 1e9: with less there is no privacy to speak of, with more nothing is learned"
            raise InvalidInput("noise_multiplier", self.noise_multiplier, reason)
        if isinstance(self.observer, Members):
            self._check_members(self.observer)
        elif isinstance(self.order, FixedRing) and self.order.distance is not None:
            raise InvalidInput.because("distance", self.order.distance, _NO_TURN)
        if isinstance(self.taking_part, SureOthers):
            self._check_others(self.taking_part)

    def _check_members(self, members: Members) -> None:
        if members.observers > self.nodes - 1:
            raise InvalidInput("observers", members.observers, f"at most nodes - 1 = {self.nodes - 1}")
        if isinstance(self.order, FixedRing) and self.order.distance is not None and members.observers > 1:
            raise InvalidInput.because("distance", self.order.distance, "is that of one observer; several have none")
        if members.observer_skip is None:
            return
        if isinstance(self.taking_part, SureOthers):
            reason = "covers an observer that is sent the token at each of its turns; say against node"
            raise InvalidInput.because("others", self.taking_part.others, reason)
        if self.order_is_known:
            reason = "in a known order observers are taken to be always ready; say against node"
            raise InvalidInput.because("against", "skipped-node", reason)

    def _check_others(self, sure: SureOthers) -> None:
        """Refuse what the theorem about nodes that are sure to update does not cover (docs/privacy.md)."""
        if sure.others > self.nodes - 2:
            raise InvalidInput("others", sure.others, f"at most nodes - 2 = {self.nodes - 2}")
        # A node that knows an order can prepare by it, and be missing just between two nodes.
        if not isinstance(self.order, DrawnRing):
            reason = f"needs an order that is drawn anew for each round, and not known before; {self.schedule} has none"
            raise InvalidInput.because("others", sure.others, reason)

    @property
    def schedule(self) -> str:
        """How the order is called."""
        return self.order.schedule.name

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return self.order.nodes

    @property
    def steps(self) -> int:
        """How many hops of the token, skipped ones included."""
        return self.order.steps

    @property
    def rounds(self) -> int:
        """Number of rounds of a ring."""
        return self.order.rounds

    @property
    def order_is_known(self) -> bool:
        """Whether the order is agreed on before the run: all but who takes part."""
        return isinstance(self.order, DesignedOrder | AgreedOrder)

    @property
    def protects(self) -> Unit:
        """What is protected."""
        return self.unit.protects

    @property
    def outside(self) -> bool:
        """Whether the observer is no member of the network."""
        return isinstance(self.observer, Outsider)

    @property
    def skip(self) -> float:
        """Probability that a node is skipped; the largest, where nodes differ."""
        return self.taking_part.skip

    @property
    def others_ready(self) -> float:
        """Probability that another node takes part when it is its turn, rounded down."""
        return self.taking_part.others_ready

    @property
    def target_ready(self) -> float:
        """Probability that the protected node takes part when it is its turn, rounded up."""
        return self.taking_part.target_ready

    @property
    def release(self) -> float:
        """mu^2 of one release that is charged in full: (sensitivity / sigma)^2 with sensitivity 2 k."""
        return (2.0 / self.noise_multiplier) ** 2

    @property
    def keywords(self) -> dict[str, Any]:
        """The keywords from which `planned_run` makes this run."""
        found: dict[str, Any] = {"schedule": self.schedule}
        for part in (self.order, self.taking_part, self.observer, self.unit):
            found |= part.keywords
        own = ("noise_multiplier", "convex", "step_size")
        return found | {name: getattr(self, name) for name in own}

    def replace(self, **changes: Any) -> PlannedRun:
        """Return the same run with some keywords of `planned_run` changed; None takes one away."""
        return planned_run(**(self.keywords | changes))

    def with_noise(self, noise_multiplier: float) -> PlannedRun:
        """Return the same run with another noise."""
        return replace(self, noise_multiplier=noise_multiplier)


_NO_TURN = "an outsider has no turn in the network"
_NO_PLACE = "only the fixed ring has places; on {schedule} all pairs are alike"
_DESIGNED = "is for an order that is still to be designed"
#: Why a keyword does not go with the others.
_WHY_NOT = {
    "skip": "where others are sure to take part they say who does; say skip 0",
    "target_skip": "where others are sure to take part they say who does; leave it out",
    "failure": "is that of others; say how many there are",
    "observers": _NO_TURN,
    "observer_skip": _NO_TURN,
    "distance": _NO_PLACE,
    "position": _NO_PLACE,
    "closing": "{schedule} has no closing hops; use designed-ring",
    "order_seed": _DESIGNED,
    "search": _DESIGNED,
}


def planned_run(**keywords: Any) -> PlannedRun:
    """Return the record of a run from plain keywords; None is the same as leaving one out.

    They are `schedule`, the fields of the order and of the small records, and those of `PlannedRun` with plain values.
    `against` is ``node`` (another node, always ready: `Members`), ``skipped-node`` (one that is itself skipped with
    probability `observer_skip`, by default `skip`) or ``outsider`` (`Outsider`). If learning rate and smoothness are
    both given, learning rate <= 2 / smoothness is checked. `order` is one that is agreed on already, in place of the
    average over orders of the random ring.

    >>> planned_run(schedule="random-ring", nodes=10, steps=1000, skip=0.5, noise_multiplier=10.0).rounds
    100
    >>> run = planned_run(schedule="ring", nodes=4, steps=40, skip=0.0, noise_multiplier=2.0, parts=(6, 4, 9))
    >>> run.unit.parts, run.unit.every, run.replace(parts=(2, 4, 6)).unit.parts
    ((4, 6, 9), 1, (2,))
    """
    # Plain numbers in place of numpy's: a float16 would round every bound made from it, and an int8 overflow.
    plain = {name: value.item() if isinstance(value, np.generic) else value for name, value in keywords.items()}
    given: dict[str, Any] = {name: value for name, value in plain.items() if value is not None}
    _check_step_size(given.pop("learning_rate", None), given.pop("smoothness", None), given.get("convex", True))
    schedule, against = given.pop("schedule"), given.pop("against", "node")
    for parameter, value, names in (("schedule", schedule, FORESEEN), ("against", against, get_args(Against))):
        if value not in names:
            raise InvalidInput(parameter, value, "one of " + ", ".join(names))
    if "others" in given and given.get("skip") == 0.0:
        del given["skip"]
    if against == "node" and "observer_skip" in given:
        reason = "it is for an observer that is itself skipped; say against skipped-node"
        raise InvalidInput.because("observer_skip", given["observer_skip"], reason)
    if against == "skipped-node":
        given.setdefault("observer_skip", given.get("skip", 0.0))
    if against == "outsider" and given.get("observers") == 1:
        del given["observers"]
    if "order" in given and schedule_kind(schedule).turns is not TurnLaw.IN_ROUNDS:
        reason = f"an order that is agreed on is one of random-ring or designed-ring, not of {schedule}"
        raise InvalidInput.because("order", "given", reason)
    kinds = (
        AgreedOrder if "order" in given else ORDERS[schedule],
        SureOthers if "others" in given else IndependentSkips,
        Outsider if against == "outsider" else Members,
        Protected,
    )
    known = {field.name for each in (*kinds, PlannedRun) for field in fields(each)}
    for name, value in given.items():
        if name not in known and name in _WHY_NOT:
            raise InvalidInput.because(name, value, _WHY_NOT[name].format(schedule=schedule))
    parts: list[dict[str, Any]] = [
        {field.name: given.pop(field.name) for field in fields(each) if field.name in given} for each in kinds
    ]
    made: list[Any] = [each(**some) for each, some in zip(kinds, parts, strict=True)]
    return PlannedRun(order=made[0], taking_part=made[1], observer=made[2], unit=made[3], **given)


def _check_step_size(learning_rate: float | None, smoothness: float | None, convex: bool) -> None:
    for parameter, value in (("learning_rate", learning_rate), ("smoothness", smoothness)):
        if value is not None:
            require_positive(parameter, value)
    if convex and learning_rate is not None and smoothness is not None:
        most = 2.0 / smoothness
        if learning_rate > most * (1.0 + 1e-12):
            reason = f"at most 2 / smoothness = {most:g} for the amplified accounting (or say that it is not convex)"
            raise InvalidInput("learning_rate", learning_rate, reason)


def whole_node(run: PlannedRun, rows: int) -> PlannedRun | None:
    """Return what the same run promises for all data of a node, or None where that is nothing.

    `rows` is the most that a node contributes to one update, in units of what one protected unit can: the most records
    (or persons) that an update uses. A whole node moves an update by `rows` times as much, and at every turn. So the
    same noise is `rows` times smaller in its units, and there is no rotation. Below the noise that `PlannedRun` allows
    there is no privacy to speak of.

    >>> run = planned_run(schedule="random-ring", nodes=60, steps=1800, skip=0.3, noise_multiplier=4.0, parts=5)
    >>> whole_node(run, 100).noise_multiplier, whole_node(run, 1000)
    (0.04, None)
    """
    require_integer("rows", rows, 1)
    if run.protects == "node":
        return run
    noise = run.noise_multiplier / rows
    return None if noise < LEAST_NOISE else replace(run, unit=Protected(protects="node"), noise_multiplier=noise)
