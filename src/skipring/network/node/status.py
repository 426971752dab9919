"""What a node knows about the run and about itself, as its owner sees it: /status, result.json and the live view."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from ..._json import from_json
from ...learning import Guess
from ...privacy import Guarantee
from ..protocol import asked_in_words

#: What a node leaves in its folder at the end of the run, and what when it is told to stop before.
RESULT = "result.json"
STOPPED = "stopped.json"


@dataclass(frozen=True, kw_only=True)
class NodeStatus:
    """The state of one node; nothing of it is sent to other nodes.

    Parameters
    ----------
    name, run : the node's name, and the identity of the run that it takes part in.
    nodes, steps : how many nodes, and how many hops the whole run has.
    hop : the newest hop that the node knows of.
    holding : whether it holds the token.
    over : whether it has the final model, and others know.
    model : the first digits of the final model's digest; None before there is one.
    ballot : number of recoveries so far, and which node led the last one.
    updates : updates of the newest token that the node has seen.
    own_updates : updates that the node has released, on all branches.
    turns, updates_by_node : for each node, how often it was its turn, and how often it updated.
    guarantee : what another node knows of the node's data at most, and what all others do: each release in full.
    budget : the epsilon that the node is ready to give away; None if it has no budget.
    life_runs, life : how many runs the ledger of the node's data has, and what holds for all of them together. It is
        for one observer who knows what the one who knows most knew in each. It protects the least that one of these
        runs protects. None without a ledger.
    refused, refused_for_budget : offers that it refused itself, and those among them for its budget's sake.
    late, declined, cut : own turns without an update because it was not there in time. Turns that were let go at once,
        since it would not have been. Updates of fewer rows than there are, for want of time.
    prepare_time : median seconds to get the rows of an update ready; None before the first time.
    test_error : on the node's own test rows, of the newest token sent to it; None before that.
    guess : what always guessing the same reaches on them; None without any.
    timeout : how long it waits for another node, in seconds.
    hop_time, overhead : median seconds from getting the token to having passed it on, and without the wait for the next
        node; None before the first hop.
    carry_rate, pass_rate : median bytes per second of large tokens, between machines and within a hop.
    recoveries : how many it has started.
    reachable : nodes that messages go through to.
    broken_rules : for each node, how often it has sent what no honest node sends, since this one started.
    peak_memory, running_for : bytes and seconds of its process.
    relay : whether the tunnel to the relay is ``open``, or else why it is not; None without a relay.
    finishing, majority : whose owners have asked for the run to end, and how many are enough.
    ended_early_at : the hop of the final model's last update, if the run ended because they had; None otherwise.
    expires_in, expiring : seconds until the node's certificate or its authority's ends; what to do about it, in one
        line, if that is within a month.
    waits_for, stands_still : what it waits for, in words, and for how many seconds, if nothing moves; None and 0 if
        something does.
    """

    name: str
    run: str
    nodes: int
    steps: int
    hop: int
    holding: bool
    over: bool
    model: str | None
    ballot: tuple[int, int]
    updates: int
    own_updates: int
    turns: tuple[int, ...]
    updates_by_node: tuple[int, ...]
    guarantee: Guarantee
    budget: float | None
    refused: int
    refused_for_budget: int = 0
    late: int = 0
    declined: int = 0
    cut: int = 0
    prepare_time: float | None = None
    test_error: float | None
    guess: Guess | None = None
    timeout: float
    hop_time: float | None
    overhead: float | None
    carry_rate: float | None
    pass_rate: float | None
    recoveries: int
    reachable: int
    broken_rules: tuple[int, ...] = ()
    peak_memory: int
    running_for: float
    relay: str | None = None
    finishing: tuple[str, ...] = ()
    majority: int = 0
    ended_early_at: int | None = None
    expires_in: float | None = None
    expiring: str | None = None
    life_runs: int | None = None
    life: Guarantee | None = None
    waits_for: str | None = None
    stands_still: float = 0.0

    @property
    def epsilon(self) -> float:
        """What the observer who knows most knows of the node's data."""
        assert self.guarantee.epsilon is not None
        return self.guarantee.epsilon

    @property
    def asked_to_finish(self) -> str | None:
        """Who has asked for the run to end, in one line; None if nobody has."""
        return asked_in_words(self.finishing, self.majority) if self.finishing else None

    @property
    def place(self) -> tuple[bool, tuple[int, int], int]:
        """How far the node has come: the largest of all nodes' places is the newest news."""
        return self.over, self.ballot, self.hop


def read_status(path: Path) -> NodeStatus | None:
    """Return what a node left in a file; None if there is none, or it cannot be read."""
    try:
        return from_json(NodeStatus, json.loads(path.read_text()), "status")
    except (OSError, ValueError):
        return None
