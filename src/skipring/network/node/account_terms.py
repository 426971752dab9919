"""What decides the cost of a node's updates: agreed before the run, and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np
from numpy.typing import ArrayLike

from ..._digest import digest
from ...errors import InvalidInput, require_integer, require_non_negative
from ...privacy import USUAL_UNIT, Unit
from ..protocol import turns_of
from ._own_turns import OwnTurns

#: Step sizes may differ by this factor, and the noise from 1; squares of what is allowed cannot overflow.
_RANGE = 1e50


@dataclass(frozen=True, eq=False)
class AccountTerms:
    """What decides the cost of a node's updates, all of it agreed on before the run.

    Parameters
    ----------
    nodes : how many there are; they are numbered from 0.
    me : the node whose account it is.
    path : the node of each hop, the first hop first.
    step_sizes : of each update, the first update first; as many as there are hops.
    noise_multiplier : sigma / k, the same for all; k is the most that one protected unit contributes. Without any (0),
        one release gives everything away, to all nodes.
    convex : whether the updates of other nodes bring two tokens no further apart; else each release counts in full.
    parts : into how many parts this node has dealt its persons or records, which take turns.
    protects : what is protected: all data of a ``node``, all rows of a ``person``, or one ``record``.
    closing : how many hops at the end of the path carry no data: who takes part adds noise alone.
    """

    nodes: int
    me: int
    path: Sequence[int]
    step_sizes: ArrayLike
    noise_multiplier: float
    convex: bool
    parts: int = 1
    protects: Unit = USUAL_UNIT
    closing: int = 0

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)
        require_integer("closing", self.closing, 0)
        require_integer("parts", self.parts, 1, 10**6)
        if self.protects not in get_args(Unit):
            raise InvalidInput("protects", self.protects, "one of " + ", ".join(get_args(Unit)))
        if self.parts > 1 and self.protects == "node":
            reason = "a whole node is in all of its parts; only a person or a record is in one of them"
            raise InvalidInput.because("parts", self.parts, reason)
        require_integer("me", self.me, 0)
        if self.me >= self.nodes:
            raise InvalidInput("me", self.me, f"a node from 0 to {self.nodes - 1}")
        path = tuple(int(node) for node in self.path)
        if not path or min(path) < 0 or max(path) >= self.nodes:
            raise InvalidInput("path", f"of {len(path)} hops", f"a node from 0 to {self.nodes - 1} for each hop")
        sizes = np.array(self.step_sizes, dtype=np.float64)
        if sizes.ndim != 1 or len(sizes) < len(path) or not np.all((sizes > 0.0) & np.isfinite(sizes)):
            raise InvalidInput("step_sizes", f"shape {sizes.shape}", f"{len(path)} finite numbers above 0")
        require_non_negative("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        in_range = self.noise_multiplier == 0.0 or 1.0 / _RANGE < self.noise_multiplier < _RANGE
        if sizes.max() / _RANGE > sizes.min() or not in_range:
            raise InvalidInput.because(
                "step_sizes", "of this run", f"or its noise are out of range (a factor of {_RANGE:g})"
            )
        if self.closing >= len(path):
            raise InvalidInput("closing", self.closing, f"fewer than the {len(path)} hops of the run")
        object.__setattr__(self, "path", path)
        sizes.setflags(write=False)  # a copy: what was agreed must not change afterwards
        object.__setattr__(self, "step_sizes", sizes)

    @property
    def steps(self) -> int:
        """The number of hops of the whole run."""
        return len(self.path)

    def closes(self, hop: int) -> bool:
        """Say whether a hop carries no data."""
        return hop > len(self.path) - self.closing

    def turn(self, hop: int) -> int:
        """Return how often the token was offered to this node before a hop of its own, skipped or not."""
        return self._turns.before(hop)

    def part_at(self, hop: int) -> int | None:
        """Return which part of its data this node uses at a hop; None if it is not its turn, or closes the run."""
        return None if self.closes(hop) else self._turns.part_at(hop, self.parts)

    @cached_property
    def own_hops(self) -> int:
        """The hops that are this node's, as the marks of a chain: bit h - 1 is hop h."""
        return turns_of(self.path, self.nodes)[self.me]

    @cached_property
    def _turns(self) -> OwnTurns:
        return OwnTurns(self.path, self.me)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it: a journal has it, so that its account is never made with other terms."""
        path = np.asarray(self.path, dtype=np.int64)
        agreed = [self.nodes, self.me, path, self.step_sizes, self.noise_multiplier, self.convex]
        if self.protects != "node":  # else the digest is what it was when nothing less could be protected
            agreed += [self.protects, self.parts]
        if self.closing:
            agreed.append(self.closing)
        return digest(agreed).hex()
