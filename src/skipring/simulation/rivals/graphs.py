"""Random graphs of neighbours, and the random access by which neighbours hear each other, compiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..._arrays import Ints
from ...errors import InvalidInput
from ._kernel import Graph, random_graph

if TYPE_CHECKING:
    from ..setup import Setup

#: Beyond this many nodes the slots are those of a smaller graph of the same degree: they grow with ln(nodes) only.
_MOST_NODES = 20_000
#: If the busiest node hears a neighbour in less than one slot of this many, a simulation of all slots would take hours.
_MOST_SILENCE = 1e5


@njit(nogil=True, cache=True)
def slots_until_heard(rng: np.random.Generator, start: Ints, neighbours: NDArray[np.int32], q: float) -> int:
    """Return how many slots pass until all have heard all of their neighbours; below 0 if that may take for ever."""
    nodes = len(start) - 1
    heard = np.zeros(len(neighbours), np.bool_)
    speaks = np.empty(nodes, np.bool_)
    left = len(neighbours)
    missing, most = np.empty(nodes, np.int64), 0
    for v in range(nodes):  # why this is a loop is said in `random_graph`
        missing[v] = start[v + 1] - start[v]
        most = max(most, missing[v])
    if left > 0 and q * (1.0 - q) ** most * _MOST_SILENCE < 1.0:
        return -1
    slots = 0
    while left > 0:
        for v in range(nodes):
            speaks[v] = rng.random() < q
        for u in range(nodes):
            if speaks[u] or missing[u] == 0:
                continue
            speaker, speakers = -1, 0
            for e in range(start[u], start[u + 1]):
                if speaks[neighbours[e]]:
                    speaker = e
                    speakers += 1
                    if speakers > 1:
                        break
            if speakers == 1 and not heard[speaker]:
                heard[speaker] = True
                missing[u] -= 1
                left -= 1
        slots += 1
    return slots


def access_slots(nodes: int, degree: float, q: float, rng: np.random.Generator, *, graphs: int = 10) -> NDArray[Any]:
    """Simulate random access on fresh graphs; return for each the slots until all have reached all neighbours.

    In every slot a node speaks with probability q. A node hears a neighbour if that one alone of its neighbours speaks,
    and it is silent itself. The paper's 175 slots (1000 nodes, degree ln 1000, q = 0.15) are those of graphs whose
    nodes have all the same degree. In a random graph the busiest nodes take far longer.
    """
    if not 0.0 < q < 1.0:
        raise InvalidInput("access", q, "above 0 and below 1")
    probability = min(1.0, degree / (nodes - 1))
    found = []
    for _ in range(graphs):
        found.append(slots_until_heard(rng, *random_graph(rng, nodes, probability), q))
        if found[-1] < 0:
            raise InvalidInput.because("access", q, "neighbours speak at the same time nearly always; use less")
    return np.array(found)


def best_access(nodes: int, degree: float, rng: np.random.Generator) -> tuple[float, float]:
    """Return the probability of speaking with the fewest slots on average, and that average."""
    nodes = min(nodes, _MOST_NODES)
    graphs = int(np.clip(30_000 // nodes, 2, 40))
    # The busiest nodes decide: q (1 - q)^degree is largest at 1 / (degree + 1), and theirs is some times the mean.
    tried = np.clip(np.geomspace(0.3, 1.2, 6) / (degree + 1.0), 0.005, 0.5)
    for _ in range(2):
        means = [float(access_slots(nodes, degree, float(q), rng, graphs=graphs).mean()) for q in tried]
        best = float(tried[int(np.argmin(means))])
        tried, graphs = best * np.geomspace(0.8, 1.25, 5), 2 * graphs
    return best, float(access_slots(nodes, degree, best, rng, graphs=2 * graphs).mean())


def acceleration(nodes: int, probability: float, rng: np.random.Generator, *, graphs: int = 3) -> float:
    """Return Chebyshev's weight for such graphs, from the mean spectral gap of some of them.

    Graphs may have nodes without neighbours; the gap is that of the largest part.
    """
    from scipy.sparse import csr_matrix, diags
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import eigsh

    gaps = []
    for _ in range(graphs):
        start, neighbours = random_graph(rng, nodes, probability)
        links = csr_matrix((np.ones(len(neighbours)), neighbours, start), shape=(nodes, nodes))
        _, part = connected_components(links, directed=False)
        largest = np.flatnonzero(part == np.bincount(part).argmax())
        if len(largest) < 3:
            raise InvalidInput.because("acceleration", "true", "the graphs have hardly any links")
        inner = links[largest][:, largest]
        degrees = np.asarray(inner.sum(axis=1)).ravel()
        laplacian = (diags(degrees) - inner) / (1.0 + degrees.max())
        # The smallest eigenvalue is 0; the next one is the gap. Seen from the other end, for a quick answer.
        top = eigsh(diags(np.ones(len(largest))) - laplacian, k=2, which="LA", return_eigenvectors=False, v0=degrees)
        gaps.append(1.0 - float(top.min()))
    gap = float(np.mean(gaps))
    return float(2.0 * (1.0 - np.sqrt(gap * (1.0 - 0.25 * gap))) / (1.0 - 0.5 * gap) ** 2)


def graph_stream(seed: int, number: int) -> np.random.Generator:
    """Return the random numbers of a run's graphs: a stream of their own, so that accountants can draw them again."""
    return np.random.Generator(np.random.SFC64(np.random.SeedSequence(seed, spawn_key=(number, 1))))


def gossip_graphs(setup: Setup, number: int) -> Iterator[Graph]:
    """Yield the graphs of all iterations of a run, the same as in its simulation."""
    from ...schedules import Gossip
    from ...timeouts import skip_probability

    assert isinstance(setup.schedule, Gossip)
    rng = graph_stream(setup.run.simulation.seed, number)
    probability = setup.schedule.edge_probability(skip_probability(setup.delay, setup.timeout))
    for _ in range(setup.steps):
        yield random_graph(rng, setup.data.nodes, probability)
