"""Orders by design: chosen before the run so that no pair of nodes is unlucky (docs/privacy.md, "Orders by design").

Let p be the first prime above the number of nodes. Row r of the multiplication table modulo p visits r, 2r, 3r and so
on. The difference of two nodes' places in it is their difference divided by r, and so another one in every row: no pair
meets twice at the same distance. Numbers above the number of nodes are left out. A search then lets nodes change places
as long as the worst pair gains by it.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path as FilePath
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from .._cache import cache_folder
from .._writing import whole_file
from ..errors import InvalidInput, require_integer
from ..timeouts import TurnLaw
from .drawn import Path, Schedule, shuffled

#: Orders are designed for at most this many nodes, and hops.
MOST_NODES = 2000
_MOST_HOPS = 10**6
#: More noise than this at the end hides nothing more.
MOST_CLOSING = 100
#: How many moves of the search are made without being asked for, for few nodes; with more nodes a move costs more.
_USUAL_MOVES = 200_000
_USUAL_WORK = 10_000_000


@dataclass(frozen=True)
class KnownOrder:
    """An order that is agreed on before the run: whom each hop is offered to, and who adds noise alone at the end.

    Parameters
    ----------
    nodes : how many nodes; they are numbered from 0.
    hops : the node of each hop, in whole rounds that visit everyone once.
    closing : the nodes of the hops after that, which add noise and no gradient.

    >>> KnownOrder(3, (0, 1, 2, 2, 0, 1), (1,)).rounds
    2
    """

    nodes: int
    hops: tuple[int, ...]
    closing: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2, MOST_NODES)
        for name in ("hops", "closing"):  # numpy's numbers are no part of a record
            object.__setattr__(self, name, tuple(int(node) for node in getattr(self, name)))
        if not self.hops or len(self.hops) % self.nodes:
            raise InvalidInput("hops", len(self.hops), f"whole rounds of {self.nodes} nodes")
        if (np.sort(self.path.reshape(-1, self.nodes)) != np.arange(self.nodes)).any():
            raise InvalidInput("hops", "an order", "one that visits every node once in each round")
        if len(self.closing) > MOST_CLOSING:
            raise InvalidInput("closing", len(self.closing), f"at most {MOST_CLOSING} hops")
        if any(not 0 <= node < self.nodes for node in self.closing):
            raise InvalidInput("closing", "a node", f"a node from 0 to {self.nodes - 1}")

    @property
    def rounds(self) -> int:
        """How often everyone is visited."""
        return len(self.hops) // self.nodes

    @property
    def path(self) -> Path:
        """The node of each hop, without the closing ones."""
        return np.array(self.hops, dtype=np.int32)

    @property
    def whole_path(self) -> Path:
        """The node of each hop, the closing ones included."""
        return np.array([*self.hops, *self.closing], dtype=np.int32)

    @property
    def places(self) -> NDArray[np.int64]:
        """The place of each node in each round, from 0: an array [round, node]."""
        return np.argsort(self.path.reshape(-1, self.nodes), axis=1).astype(np.int64)

    @property
    def last_looks(self) -> NDArray[np.int64]:
        """The hop before which each node looks for the last time and can still learn something.

        That is the end for all, but for the nodes of the closing hops: they know their own noise, and what comes after
        carries no data.
        """
        steps = len(self.hops)
        looks = np.full(self.nodes, steps + len(self.closing), dtype=np.int64)
        for place in range(len(self.closing) - 1, -1, -1):
            looks[self.closing[place]] = steps + place
        return looks

    def leakages(self) -> NDArray[np.floating[Any]]:
        """Return the leakage X of all pairs [target, observer], if nobody is skipped and step sizes are constant.

        It is what the transcript of such a run says.
        """
        from ._search import all_leakages  # numba is loaded only where it is needed

        return all_leakages(self.places, self.last_looks)


@dataclass(frozen=True)
class DesignedRing(Schedule):
    """Everyone once per round, in an order that is chosen so that the worst pair of nodes is as good as possible.

    The order is known before the run and is the same in all of its simulations. `seed` chooses one of many, and
    `closing` is how many hops at the end add noise and no gradient. `search` is the number of moves that are tried
    (None: as many as take a few seconds; 0: the construction alone).

    >>> ring = DesignedRing(4, search=0)
    >>> np.sort(ring.path(8, np.random.default_rng(0)).reshape(2, 4)).tolist()
    [[0, 1, 2, 3], [0, 1, 2, 3]]
    """

    name: ClassVar[str] = "designed-ring"
    # Nodes are numbered at random: before the design, each place of each round is anyone's.
    turns: ClassVar[TurnLaw | None] = TurnLaw.IN_ROUNDS
    order_is_known: ClassVar[bool] = True
    seed: int = 1
    closing: int = 2
    search: int | None = None

    def order(self, steps: int) -> KnownOrder:
        """Return the order of a run of `steps`, in whole rounds."""
        require_integer("steps", steps, at_least=1)
        if steps % self.nodes:
            below = steps // self.nodes * self.nodes
            nearest = f"{below} or {below + self.nodes}" if below else f"{self.nodes}"
            reason = f"a multiple of nodes = {self.nodes}, such as {nearest} (an order is designed in whole rounds)"
            raise InvalidInput("steps", steps, reason)
        return designed_order(self.nodes, steps // self.nodes, seed=self.seed, closing=self.closing, search=self.search)

    def whole_path(self, steps: int, rng: np.random.Generator) -> Path:
        """Return the node of each hop, the closing ones included."""
        return self.order(steps).whole_path

    @property
    def closing_hops(self) -> int:
        """How many hops at the end add noise and no gradient."""
        return self.closing

    def _path(self, steps: int, rng: np.random.Generator) -> Path:
        return self.order(steps).path


def usual_search(nodes: int) -> int:
    """Return how many moves of the search are made if nobody says how many: they take some seconds."""
    return min(_USUAL_MOVES, _USUAL_WORK // nodes)


def designed_order(
    nodes: int, rounds: int, *, seed: int = 1, closing: int = 2, search: int | None = None
) -> KnownOrder:
    """Return an order in which the pair that leaks most leaks as little as possible.

    It follows from the arguments alone, on every machine. It is looked for once: a process keeps it, and so does a
    file, as those of features (`SKIPRING_CACHE`).

    >>> in_turn = KnownOrder(10, tuple(range(10)) * 10)
    >>> in_turn.leakages().max().round(1), designed_order(10, 10, search=2000).leakages().max().round(0)
    (np.float64(10.0), np.float64(4.0))
    """
    if nodes == 2:
        raise InvalidInput.because("nodes", nodes, "two nodes have one order only; use the schedule ring")
    require_integer("nodes", nodes, 3, MOST_NODES)
    require_integer("rounds", rounds, 1, max(1, _MOST_HOPS // nodes))
    require_integer("seed", seed, 0)
    require_integer("closing", closing, 0, MOST_CLOSING)
    if search is None:
        search = usual_search(nodes)
    require_integer("search", search, 0, 10**9)
    return _designed(int(nodes), int(rounds), _folded(int(seed)), int(closing), int(search))


def _folded(seed: int) -> int:
    """Return a seed of at most 63 bits; a longer one, such as numpy draws, by its digest."""
    if seed < 2**63:
        return seed
    return int.from_bytes(hashlib.sha256(str(seed).encode()).digest()[:8], "big") >> 1


@lru_cache(maxsize=64)
def _designed(nodes: int, rounds: int, seed: int, closing: int, search: int) -> KnownOrder:
    name = f"order-2-{nodes}-{rounds}-{closing}-{seed}-{search}.npz"
    file = None if not search or (folder := cache_folder("orders")) is None else folder / name
    if file is not None and (found := _stored(file, nodes)) is not None:
        return found
    order = _constructed(nodes, rounds, seed, closing)
    if search:
        from ._search import searched  # numba is loaded only where it is needed

        places = order.places
        searched(places, order.last_looks, search, seed)
        order = KnownOrder(nodes, tuple(np.argsort(places, axis=1).ravel().tolist()), order.closing)
        if file is not None:
            with suppress(OSError):
                file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with whole_file(file, synced=False) as whole:
                    np.savez(whole, hops=order.hops, closing=order.closing)
    return order


def _stored(file: FilePath, nodes: int) -> KnownOrder | None:
    """Return the order in a file; None if it is not there, or damaged: the file has a checksum."""
    try:
        with np.load(file, allow_pickle=False) as arrays:
            return KnownOrder(nodes, arrays["hops"], arrays["closing"])
    except (OSError, ValueError, KeyError, EOFError, RuntimeError, zipfile.BadZipFile):
        return None


def _constructed(nodes: int, rounds: int, seed: int, closing: int) -> KnownOrder:
    """Return rows of the multiplication table modulo the next prime, in an order that the seed draws.

    Once all rows are used, they begin again in another order. The nodes are numbered anew by the seed as well, so that
    every place is anyone's with the same probability. The closing hops are the beginning of one more row.
    """
    prime = _prime_above(nodes)
    below = _splitmix(seed)
    names = shuffled(nodes, below)
    rows: list[int] = []
    while len(rows) < rounds + 1:
        rows += [1 + row for row in shuffled(prime - 1, below)]
    visited = [
        [names[number - 1] for place in range(1, prime) if (number := row * place % prime) <= nodes]
        for row in rows[: rounds + 1]
    ]
    hops = tuple(node for row in visited[:-1] for node in row)
    last = visited[-1] if visited[-1][0] != hops[-1] else visited[-1][::-1]
    return KnownOrder(nodes, hops, tuple(last[place % nodes] for place in range(closing)))


def _prime_above(number: int) -> int:
    prime = number + 1
    while any(prime % factor == 0 for factor in range(2, int(prime**0.5) + 1)):
        prime += 1
    return prime


def _splitmix(seed: int) -> Callable[[int], int]:
    """Return what draws numbers below a bound: splitmix64 from a seed, whose stream no library will change."""
    state, mask = seed, 2**64 - 1

    def below(bound: int) -> int:
        nonlocal state
        state = (state + 0x9E3779B97F4A7C15) & mask
        z = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return (z ^ (z >> 31)) % bound

    return below
