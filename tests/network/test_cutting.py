"""A token without the marks that its receiver has: what is put together is the token, byte for byte, or nothing."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from skipring.network.protocol import KNOWN_BYTES, Copy, Kind, Pass, Token, blank_chain, extended_chain
from skipring.network.protocol._cutting import cut_marks, known, marks_before, whole
from skipring.network.transport import decode, encode
from skipring.network.transport.wire import Heading, Malformed

STEPS = 100
BALLOT = (0, 0)


def token_after(hop: int, rng: random.Random, begin: Token | None = None, since: int = 0) -> Token:
    """Return a token that has come to a hop, with and without updates, or has gone on since another."""
    token = begin or Token(0, b"model", blank_chain(STEPS, b"run"))
    for at in range(since + 1, hop + 1):
        if rng.random() < 0.7:
            token = Token(token.updates + 1, b"model", extended_chain(token.chain, BALLOT, at, rng.randbytes(32)))
    return token


def sent(token: Token, hop: int, told: bytes) -> Pass:
    """Return what arrives, having gone over the wire."""
    left, since = cut_marks(token, told)
    message = Pass(BALLOT, hop, left, b"", b"", since)
    frame = decode(encode(bytes(32), message, Heading("<f8", 5)), nodes=3, steps=STEPS)
    assert isinstance(frame.message, Pass)
    return frame.message


@pytest.mark.parametrize("seed", range(60))
def test_what_is_put_together_is_what_was_sent(seed: int) -> None:
    rng = random.Random(seed)
    had, now = sorted(rng.sample(range(STEPS + 1), 2))
    before = token_after(had, rng)
    token = token_after(now, rng, before, had)
    marks = marks_before(Copy(BALLOT, had, Kind.UPDATED, before), 0)
    assert marks is not None
    arrived = sent(token, now, known(marks))
    assert arrived.since == had // 8 + 1
    assert len(arrived.token.chain) <= 32 + (now - had) // 8 + 2
    assert whole(arrived, marks, STEPS) == Pass(BALLOT, now, token)


def test_who_has_been_on_another_way_is_sent_all_of_it() -> None:
    rng = random.Random(1)
    token, other = token_after(80, rng), token_after(80, rng)
    marks = marks_before(Copy(BALLOT, 80, Kind.UPDATED, other), 0)
    arrived = sent(token, 81, known(marks))
    assert (arrived.since, arrived.token) == (0, token)
    assert whole(arrived, marks, STEPS) == arrived
    for odd in (b"", bytes(KNOWN_BYTES), b"\xff" * KNOWN_BYTES, known(marks)[:-1], rng.randbytes(KNOWN_BYTES)):
        assert cut_marks(token, odd) == (token, 0)


def test_short_runs_are_sent_whole() -> None:
    copy = Copy(BALLOT, 80, Kind.UPDATED, token_after(80, random.Random(2)))
    assert marks_before(copy, 1024) is None
    assert known(None) == b""


def test_what_fits_nothing_is_lost() -> None:
    rng = random.Random(3)
    before = token_after(40, rng)
    marks = marks_before(Copy(BALLOT, 40, Kind.UPDATED, before), 0)
    arrived = sent(token_after(60, rng, before, 40), 61, known(marks))
    assert marks is not None
    assert whole(arrived, None, STEPS) is None
    assert whole(arrived, marks[:-1], STEPS) is None
    long = replace(arrived.token, chain=arrived.token.chain + bytes(20))
    for token in (long, replace(arrived.token, chain=b"")):
        assert whole(replace(arrived, token=token), marks, STEPS) is None


@pytest.mark.parametrize("since", [15, 2**40])
def test_more_than_a_run_has_is_refused(since: int) -> None:
    message = Pass(BALLOT, 5, Token(0, b"model", blank_chain(STEPS, b"run")), b"", b"", since)
    with pytest.raises(Malformed, match="at most 14"):
        decode(encode(bytes(32), message, Heading("<f8", 5)), nodes=3, steps=STEPS)
