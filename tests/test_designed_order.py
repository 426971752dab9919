"""Orders by design: what they promise, and that they are the same everywhere."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.privacy import Transcript, TranscriptAccountant
from skipring.schedules import DesignedRing, KnownOrder, designed_order
from skipring.schedules.designed import _designed


@pytest.fixture(autouse=True)
def no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPRING_CACHE", "off")


def random_order(nodes: int, rounds: int, seed: int, closing: int = 0) -> KnownOrder:
    rng = np.random.default_rng(seed)
    hops = [int(node) for _ in range(rounds) for node in rng.permutation(nodes)]
    return KnownOrder(nodes, tuple(hops), tuple(int(node) for node in rng.integers(nodes, size=closing)))


@pytest.mark.parametrize(("nodes", "rounds"), [(3, 1), (3, 7), (4, 9), (10, 12), (12, 30), (30, 5)])
@pytest.mark.parametrize("search", [0, 500])
def test_every_round_visits_everyone_once(nodes: int, rounds: int, search: int) -> None:
    order = designed_order(nodes, rounds, search=search)
    assert order.rounds == rounds
    assert (np.sort(order.path.reshape(rounds, nodes)) == np.arange(nodes)).all()
    assert len(order.closing) == 2


@pytest.mark.parametrize("nodes", [4, 6, 10, 12, 30])
def test_rows_of_the_table_bring_no_pair_together_twice_at_the_same_distance(nodes: int) -> None:
    # Of as many nodes as a prime less one, rounds up to that number are rows of a Vatican square.
    places = designed_order(nodes, nodes, search=0).places
    for u in range(nodes):
        for v in range(nodes):
            if u != v:
                assert len(set((places[:, v] - places[:, u]).tolist())) == nodes


@pytest.mark.parametrize("closing", [0, 1, 2, 5])
@pytest.mark.parametrize(("nodes", "rounds"), [(3, 1), (3, 6), (5, 4), (11, 7)])
def test_the_search_is_judged_by_what_the_transcript_says(nodes: int, rounds: int, closing: int) -> None:
    for order in (random_order(nodes, rounds, 5, closing), designed_order(nodes, rounds, closing=closing, search=300)):
        path = order.whole_path
        run = Transcript(
            nodes=nodes,
            offered=path,
            updated=np.ones(len(path), dtype=bool),
            step_sizes=1.0,
            noise_multiplier=2.0,  # one release then has mu = 1
            closing=closing,
        )
        np.testing.assert_allclose(order.leakages(), TranscriptAccountant(run).matrix() ** 2, rtol=1e-9)


@pytest.mark.parametrize(("nodes", "rounds", "most"), [(4, 20, 12.9), (10, 30, 10.6), (30, 30, 5.2)])
def test_the_worst_pair_is_as_good_as_was_asked_for(nodes: int, rounds: int, most: float) -> None:
    for closing in (0, 2):
        assert designed_order(nodes, rounds, closing=closing, search=40_000).leakages().max() <= most


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "rounds", "most"), [(90, 30, 3.4), (112, 30, 3.0), (1000, 24, 2.1)])
def test_the_worst_pair_among_many_nodes_is_as_good_as_was_asked_for(nodes: int, rounds: int, most: float) -> None:
    assert designed_order(nodes, rounds, closing=0).leakages().max() <= most
    assert designed_order(nodes, rounds).leakages().max() <= most


def test_a_designed_order_is_better_than_drawn_ones_for_its_worst_pair() -> None:
    drawn = min(random_order(20, 15, seed).leakages().max() for seed in range(10))
    constructed = designed_order(20, 15, closing=0, search=0).leakages().max()
    found = designed_order(20, 15, closing=0, search=5000).leakages().max()
    assert found < constructed
    assert found < 0.85 * drawn


def test_more_moves_never_make_the_worst_pair_worse_by_much() -> None:
    # The sum of high powers never grows; the largest of 90 pairs is within 90^(1/32) of it.
    before = designed_order(10, 12, search=0).leakages().max()
    assert designed_order(10, 12, search=50).leakages().max() <= before * 90 ** (1 / 32)


def test_the_order_is_the_same_on_every_machine() -> None:
    order = designed_order(9, 11, seed=3, search=2000)
    _designed.cache_clear()
    assert designed_order(9, 11, seed=3, search=2000) == order
    digest = hashlib.sha256(order.whole_path.astype("<i4").tobytes()).hexdigest()
    assert digest[:16] == "b1261ff03715e0a9"
    assert designed_order(9, 11, seed=4, search=2000) != order


def test_a_seed_may_be_of_any_length() -> None:
    orders = {designed_order(6, 3, seed=seed, search=20).hops for seed in (0, 2**63 - 1, 2**63, 2**64, 2**127)}
    assert len(orders) == 5


def test_orders_that_took_a_while_are_kept_in_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPRING_CACHE", str(tmp_path))
    _designed.cache_clear()
    order = designed_order(7, 6, search=300)
    (file,) = (tmp_path / "orders").iterdir()
    _designed.cache_clear()
    assert designed_order(7, 6, search=300) == order
    whole = file.read_bytes()
    for place in range(0, len(whole), 97):
        content = bytearray(whole)
        content[place] ^= 0xFF  # damaged: looked for again
        file.write_bytes(content)
        _designed.cache_clear()
        assert designed_order(7, 6, search=300) == order


def test_the_schedule_is_the_order() -> None:
    ring = DesignedRing(6, seed=2, closing=3, search=100)
    order = designed_order(6, 4, seed=2, closing=3, search=100)
    assert ring.path(24, np.random.default_rng(0)).tolist() == list(order.hops)
    assert ring.order(24) == order


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ("nodes = 2: two nodes have one order only", {"nodes": 2}),
        ("rounds", {"rounds": 0}),
        ("rounds", {"rounds": 2.5}),
        ("closing", {"closing": -1}),
        ("closing", {"closing": 101}),
        ("search", {"search": -1}),
        ("search", {"search": 0.5}),
        ("seed", {"seed": -1}),
        ("nodes", {"nodes": 2001}),
    ],
)
def test_what_cannot_be_designed_is_refused(words: str, wrong: dict[str, float]) -> None:
    values = {"nodes": 5, "rounds": 3, "seed": 1, "closing": 2, "search": 0} | wrong
    nodes, rounds = values.pop("nodes"), values.pop("rounds")
    with pytest.raises(InvalidInput, match=words):
        designed_order(nodes, rounds, **values)  # type: ignore[arg-type]


def test_rounds_must_be_whole() -> None:
    with pytest.raises(InvalidInput, match=r"steps = 13: .*such as 10 or 15"):
        DesignedRing(5).path(13, np.random.default_rng(0))


@pytest.mark.parametrize("hops", [(), (0, 1), (0, 1, 1), (0, 1, 3)])
def test_an_order_visits_everyone_in_every_round(hops: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="hops"):
        KnownOrder(3, hops)


@pytest.mark.parametrize("closing", [(0,) * 101, (3,), (-1,)])
def test_closing_hops_are_few_and_at_nodes_that_there_are(closing: tuple[int, ...]) -> None:
    with pytest.raises(InvalidInput, match="closing"):
        KnownOrder(3, (0, 1, 2), closing)
