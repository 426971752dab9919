"""Own updates, known by few bytes: the same answers as from a plain list of all of them."""

from __future__ import annotations

import random

import pytest
from world import fake_seals

from skipring.network.node._own_turns import OwnTurns
from skipring.network.node.own_updates import OwnUpdates
from skipring.network.protocol import Token, Trail, blank_chain, own_stamp, stamped, updated_hops

NODES = 3
SEALS = fake_seals(NODES)


class PlainUpdates:
    """What is known of own updates, each with all hops before it, and all digests: nothing is left out."""

    def __init__(self, path: list[int], me: int) -> None:
        self._path, self._me = path, me
        self._written: set[tuple[int, ...]] = set()
        self._digests: set[bytes] = set()

    def wrote(self, hop: int, chain: bytes) -> None:
        self._written.add(tuple(at for at in updated_hops(chain) if at <= hop))
        self._digests.add(chain[:32])

    def never_made(self, chain: bytes) -> int:
        known = {hops[-1] for hops in self._written}
        return max((hop for hop in self._own(chain) if hop not in known), default=0)

    def unknown(self, trail: Trail) -> tuple[int, ...]:
        own, found, stamp = self._own(trail.chain), list[int](), own_stamp(trail, self._me)
        if own and stamp is not None and stamp.digest not in self._digests:
            found.append(own.pop())
        while own and tuple(hop for hop in updated_hops(trail.chain) if hop <= own[-1]) not in self._written:
            found.append(own.pop())
        return tuple(found)

    def _own(self, chain: bytes) -> list[int]:
        return [hop for hop in updated_hops(chain) if self._path[hop - 1] == self._me]


@pytest.mark.parametrize("seed", range(80))
def test_the_same_is_known_as_from_a_plain_list(seed: int) -> None:
    """A run that goes several ways, of which the journal has some: after recoveries, and with what it has forgotten."""
    rng = random.Random(seed)
    steps, me = rng.randint(5, 40), 0
    path = [rng.randrange(NODES) for _ in range(steps)]
    updates, plain = OwnUpdates(path, me), PlainUpdates(path, me)
    tokens = [(Token(0, b"", blank_chain(steps, b"run")), 0)]
    answers = set[int]()
    for _ in range(60):
        token, hop = rng.choice(tokens[-3:] if rng.random() < 0.8 else tokens)
        hop += rng.choice([1, 1, 1, 2, 3])
        if hop > steps:
            continue
        node = path[hop - 1]
        ballot = (rng.randrange(2), 0)
        token = stamped(token, ballot, hop, b"", rng.randbytes(32), me=node, seal=SEALS[node])
        tokens.append((token, hop))
        if node == me and rng.random() < 0.8:
            updates.wrote(hop, token.chain)
            plain.wrote(hop, token.chain)
        for other, _ in rng.sample(tokens, min(5, len(tokens))):
            for trail in (other.trail, Trail(other.chain, ())):
                found = updates.unknown(trail)
                answers.add(len(found))
                assert found == plain.unknown(trail)
            marks = int.from_bytes(other.chain[32:], "little")
            assert updates.never_made(marks) == plain.never_made(other.chain)
    assert 0 in answers


def test_turns_are_counted_as_in_the_path() -> None:
    rng = random.Random(5)
    path = [rng.randrange(4) for _ in range(200)]
    turns = OwnTurns(path, 2)
    for hop in range(1, 203):
        assert turns.before(hop) == path[: hop - 1].count(2)
        mine = hop <= len(path) and path[hop - 1] == 2
        assert turns.part_at(hop, 3) == (path[: hop - 1].count(2) % 3 if mine else None)
