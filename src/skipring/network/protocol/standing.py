"""What a node waits for, in words: for the people who run it, if nothing moves for a while."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, assert_never

from ._state import Computing, Deciding, Ended, Idle, Offering, Rules, Unconfirmed, Waiting, Watching
from .messages import Place

if TYPE_CHECKING:
    from ._core import Core


class Stand(StrEnum):
    """What a node waits for."""

    READY = "ready"  # the token is offered, and its node is not ready yet
    BATCH = "batch"  # this node prepares for an own hop
    UPDATE = "update"  # an update is being made here
    RECEIPT = "receipt"  # the token was sent, and its receiver has not said that it has it
    QUORUM = "quorum"  # too few nodes answer
    VOTES = "votes"  # of the others for the final model
    PROMISES = "promises"  # of the others, for a recovery
    TOKEN = "token"  # another node has it


@dataclass(frozen=True)
class Standing:
    """What a node waits for.

    Parameters
    ----------
    stand : which kind of wait it is.
    since : changes whenever something has moved: as long as it is the same, the node stands still.
    nodes : those that are waited for.
    what : the same in words.
    """

    stand: Stand
    since: tuple[Place, int]
    nodes: tuple[int, ...]
    what: str


def too_few(rules: Rules, heard: Set[int]) -> str:
    """Say that too few nodes answer, and who is waited for."""
    missing = sorted(set(range(rules.nodes)) - heard)
    count = f"({len(heard)} of {rules.nodes})"
    if len(heard) < rules.majority:
        return f"no majority answers {count}: waiting for {_names(rules, missing)}"
    if len(heard) < rules.quorum:
        return f"fewer nodes answer than network.quorum = {rules.quorum} {count}: waiting for {_names(rules, missing)}"
    needed = sorted(rules.needed - heard)
    return f"not all nodes of network.quorum answer {count}: waiting for {_names(rules, needed)}"


def asked_in_words(names: Sequence[str], needed: int) -> str:
    """Say who has asked for the run to end, and how many are enough.

    >>> asked_in_words(["a", "c"], 3), asked_in_words(["a", "b", "c"], 2)
    ('2 of 3 needed have asked to finish: a, c', '3 have asked to finish, 2 are needed: a, b, c')
    """
    if len(names) > needed:
        return f"{len(names)} have asked to finish, {needed} are needed: {', '.join(names)}"
    return f"{len(names)} of {needed} needed have asked to finish: {', '.join(names)}"


def standing_of(core: Core) -> Standing | None:
    """Return what a node waits for; None if the run is over."""
    rules, state, copy = core.rules, core.state, core.memory.copy
    others = set(core.others)

    def standing(stand: Stand, hop: int, nodes: Iterable[int], what: str, signs: int = 0) -> Standing:
        return Standing(stand, ((copy.ballot, hop), signs), tuple(sorted(nodes)), what)

    match state.doing:
        case Offering(hop):
            node = rules.node_of(hop)
            if node == core.me:
                return standing(Stand.BATCH, hop, (), f"preparing its own update of hop {hop}")
            return standing(Stand.READY, hop, {node}, f"offering hop {hop}: waiting for {rules.name_of(node)}")
        case Computing(hop):
            return standing(Stand.UPDATE, hop, (), f"making its own update of hop {hop}")
        case Waiting(hop, heard):
            return standing(Stand.QUORUM, hop, others - heard, too_few(rules, heard))
        case Deciding(votes):
            missing = others - votes.keys()
            names = _names(rules, sorted(missing))
            return standing(
                Stand.VOTES, rules.steps + 1, missing, f"the final model needs a majority: waiting for {names}"
            )
        case Unconfirmed(hop):
            node = rules.node_of(hop)
            what = f"the token of hop {hop} was sent to {rules.name_of(node)}, which has not confirmed it"
            if state.recovering is None:
                return standing(Stand.RECEIPT, hop, {node}, what + _lost(core))
        case Idle() | Watching():
            pass
        case Ended():
            return None
        case _:
            assert_never(state.doing)
    if state.recovering is not None:
        missing = others - set(state.recovering.promises)
        what = f"recovering the token: waiting for {_names(rules, sorted(missing))}"
        return standing(Stand.PROMISES, state.recovering.ballot[0], missing, what, state.signs)
    hop = core.furthest[1]
    last = (
        f"last seen at hop {hop} with {rules.name_of(rules.node_of(hop))}" if 0 < hop <= rules.steps else "not seen yet"
    )
    return standing(Stand.TOKEN, hop, (), f"no sign of the token, {last}" + _lost(core), state.signs)


def _lost(core: Core) -> str:
    """Say who would have to agree that the token is lost."""
    doubted = core.state.doubted
    if doubted is None or len(doubted.agreed) >= core.rules.majority:
        return ""
    missing = sorted(set(core.others) - doubted.agreed)
    return f"; a majority must agree that it is lost: waiting for {_names(core.rules, missing)}"


def _names(rules: Rules, nodes: Iterable[int]) -> str:
    return ", ".join(rules.name_of(node) for node in nodes)
