"""Histories with real chains, and what each observer learned in them, computed exactly.

The losses are such that all tokens are Gaussian, so that what an observer knows has a formula; that it sees tokens on
several chains after a recovery is in it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import world

from skipring.network.protocol import Final, Outcome, Pass, Released, Rules, sealed, stamped


class Watched(world.World):
    """A world with real chains that remembers which tokens each node was sent."""

    def __init__(self, *arguments: Any) -> None:
        self.seen: dict[int, set[Any]] = {}
        self.number: dict[Any, int] = {}
        self.hop: dict[Any, int] = {}
        super().__init__(*arguments)

    def compute(self, node: int, life: int, action: Any) -> None:
        made, before = self.rng.randbytes(32), action.token
        self.updates[made] = node, before.parameters
        secret = sealed(made, self.rng.randbytes(32))
        token = stamped(before, action.ballot, action.hop, made, secret, me=node, seal=self.seals[node])
        self.number[made], self.hop[made] = token.updates, action.hop
        told = partial(self.tell, node, life, lambda peer: peer.computed(action.ballot, action.hop, token))
        self.later(self.rng.expovariate(20.0), told)

    def write(self, node: int, entry: Any) -> None:
        if isinstance(entry, Released):
            made = entry.copy.token.parameters
            assert isinstance(made, bytes)
            self.seen.setdefault(node, set()).update((made, self.updates[made][1]))
        super().write(node, entry)

    def check_sent(self, sender: int, to: int, message: Any) -> None:
        if isinstance(message, Pass | Final | Outcome):
            self.seen.setdefault(to, set()).add(message.token.parameters)
        super().check_sent(sender, to, message)


def history(seed: int) -> Watched:
    """A history in which tokens are lost and recovered often."""
    rng = random.Random(seed)
    nodes = rng.randint(4, 6)
    path = [rng.randrange(nodes) for _ in range(6 * nodes)]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=0.3, silence=5.0, short=0 if seed % 2 else 1024)
    stormy = rng.random() < 0.7
    weather = world.Weather(drop=0.02, crash=0.01 if stormy else 0.0, slow=0.1, partitions=4 if stormy else 0)
    found = Watched(seed, rules, weather)
    found.run(until=4000.0)
    found.check_end()
    return found


def exact_mu2(
    found: Any, target: int, observer: int, sizes: Sequence[float], noise: float, hops: set[int] | None = None
) -> float:
    """What an observer learned if gradients are constants, for the worst signs of the target's (at some hops only)."""
    lineage = set()
    for parameters in found.seen.get(observer, ()):
        at = parameters
        while at in found.updates:
            lineage.add(at)
            at = found.updates[at][1]
    names = sorted(lineage, key=lambda name: (found.number[name], name))
    place = {name: index for index, name in enumerate(names)}
    mine = [name for name in names if found.updates[name][0] == target]
    own = [place[name] for name in mine if hops is None or found.hop[name] in hops]
    seen = [place[name] for name in found.seen.get(observer, ()) if name in place]
    if not own or not seen:
        return 0.0
    made_of = np.eye(len(names))  # which updates are in a token
    for name in names:
        before = found.updates[name][1]
        if before in place:
            made_of[place[name]] += made_of[place[before]]
    scale = np.array([sizes[found.number[name] - 1] for name in names])
    tokens = made_of[seen] * scale
    covariance = noise**2 * tokens @ tokens.T
    shifts = 2.0 * tokens[:, own]
    costs = shifts.T @ np.linalg.solve(covariance, shifts)
    choices = [[1.0, -1.0] if 0 < index < 8 else [1.0] for index in range(len(own))]
    signs = np.array(list(itertools.product(*choices)))
    return float(np.einsum("ij,jk,ik->i", signs, costs, signs).max())
