"""Who is offered the token next.

`SCHEDULES` and `RIVALS` hold all schedules by name, and each says itself what others ask of it. `Ring` is a fixed
order, `RandomRing` and `RandomWalk` draw theirs, and `DesignedRing` chooses one in which no pair of nodes is unlucky.
`KnownOrder` is an order that all agreed on before the run, whatever made it. `Laps`, `Gossip` and
`Federated` have no token.
"""

from __future__ import annotations

from ..errors import InvalidInput
from .designed import DesignedRing as DesignedRing
from .designed import KnownOrder as KnownOrder
from .designed import designed_order as designed_order
from .designed import usual_search as usual_search
from .drawn import RandomRing as RandomRing
from .drawn import RandomWalk as RandomWalk
from .drawn import Ring as Ring
from .drawn import Schedule as Schedule
from .laps import Laps as Laps
from .rivals import Federated as Federated
from .rivals import Gossip as Gossip
from .rivals import Rival as Rival

SCHEDULES: dict[str, type[Schedule]] = {kind.name: kind for kind in (Ring, RandomRing, RandomWalk, DesignedRing)}
#: What has no token; their sections of a run file are called as they are.
RIVALS: dict[str, type[Rival]] = {kind.name: kind for kind in (Gossip, Federated, Laps)}
#: Names of schedules about which something is known before a run.
FORESEEN = tuple(SCHEDULES)
#: The walk that is used where nobody asks for another schedule.
USUAL_SCHEDULE = RandomRing.name
#: What a run file says that leaves it to `usual_schedule`.
AUTO = "auto"
#: Whether networks, too, learn by laps where nobody asks for another schedule.
_NETWORKS_TAKE_LAPS = False


def usual_schedule(protects: str, *, network: bool = False) -> str:
    """Return the schedule of a simulation that names none: laps, where there are some for what it protects.

    >>> usual_schedule("record"), usual_schedule("node")
    ('laps', 'random-ring')
    """
    return USUAL_SCHEDULE if protects == "node" or (network and not _NETWORKS_TAKE_LAPS) else Laps.name


def register_schedule(kind: type[Schedule]) -> type[Schedule]:
    """Make a schedule of your own known by its name, for run files too; use it as a decorator.

    Nothing is promised for it; the privacy of the path that was taken is accounted for all the same.
    """
    if not isinstance(getattr(kind, "name", None), str) or not issubclass(kind, Schedule):
        raise InvalidInput("schedule", kind, "a subclass of Schedule with a name")
    if SCHEDULES.get(kind.name, kind).__qualname__ != kind.__qualname__:
        raise InvalidInput.because("schedule", kind.name, "is the name of another schedule")
    SCHEDULES[kind.name] = kind
    return kind


def schedule_kind(name: str) -> type[Schedule]:
    """Return the kind of schedule that has this name, which says what is known of all of its orders.

    >>> schedule_kind("ring").unit(nodes=10)
    10
    """
    if name not in SCHEDULES:
        raise InvalidInput("schedule", name, f"one of {', '.join(SCHEDULES)}")
    return SCHEDULES[name]


def schedule(name: str, nodes: int) -> Schedule:
    """Return the schedule of this name.

    >>> schedule("random-ring", 10)
    RandomRing(nodes=10)
    """
    return schedule_kind(name)(nodes)
