"""The chain of a token: which hops updated it, a digest of its own, and what is refused."""

from __future__ import annotations

import hashlib
import random

import pytest

from skipring.errors import InvalidInput
from skipring.network.protocol import (
    Token,
    blank_chain,
    check_chain,
    extended_chain,
    marks_of,
    sealed,
    updated_between,
    updated_hops,
    updates_of,
    wrong_way,
)

DIGEST = hashlib.sha256(b"parameters").digest()


def made(steps: int, hops: list[int]) -> bytes:
    chain = blank_chain(steps, b"run")
    for hop in hops:
        chain = extended_chain(chain, (0, 1), hop, DIGEST)
    return chain


def test_the_bytes_are_those_of_the_definition() -> None:
    """All nodes must agree on them, whatever their version."""
    blank = blank_chain(20, b"\x01\x02")
    assert blank == hashlib.sha256(b"skipring chain\x01\x02").digest() + bytes(3)
    one = extended_chain(blank, (5, 2), 10, DIGEST)
    place = b"".join(number.to_bytes(8, "big") for number in (5, 2, 10))
    assert one == hashlib.sha256(blank[:32] + place + DIGEST).digest() + bytes([0, 0b10, 0])
    two = extended_chain(one, (6, 0), 17, DIGEST)
    assert two[:32] == hashlib.sha256(one[:32] + (6).to_bytes(8, "big") + bytes(15) + b"\x11" + DIGEST).digest()
    assert two[32:] == bytes([0, 0b10, 0b1])


@pytest.mark.parametrize("steps", [1, 7, 8, 9, 64, 1000])
def test_marks_are_read_as_they_were_made(steps: int) -> None:
    rng = random.Random(steps)
    hops = sorted(rng.sample(range(1, steps + 1), rng.randint(1, steps)))
    chain = made(steps, hops)
    assert len(chain) == 32 + (steps + 7) // 8
    assert updated_hops(chain) == hops
    assert updates_of(chain) == len(hops)
    assert marks_of(chain) == sum(1 << (hop - 1) for hop in hops)
    for _ in range(30):
        first = rng.randint(1, steps)
        last = rng.randint(first - 1, steps)
        assert updated_between(chain, first, last) == [hop in hops for hop in range(first, last + 1)]
    check_chain(chain, steps, updates=len(hops), before_hop=hops[-1] + 1)


def test_a_hundred_thousand_hops() -> None:
    rng = random.Random(1)
    bitmap = rng.randbytes(12_500)
    hops = updated_hops(bytes(32) + bitmap)
    assert hops == [hop for hop in range(1, 100_001) if bitmap[(hop - 1) // 8] >> (hop - 1) % 8 & 1]
    assert len(hops) == updates_of(bytes(32) + bitmap)


def test_other_updates_have_other_digests() -> None:
    blank = blank_chain(9, b"run")
    chains = [blank, blank_chain(9, b"other run")]
    chains += [extended_chain(blank, ballot, 3, DIGEST) for ballot in ((0, 0), (0, 1), (1, 0))]
    chains += [extended_chain(blank, (0, 0), 4, DIGEST), extended_chain(blank, (0, 0), 3, bytes(32))]
    chains += [made(9, [3, 4]), made(9, [3, 5]), made(9, [4, 5])]
    assert len({chain[:32] for chain in chains}) == len(chains)


def test_a_sealed_digest_depends_on_the_secret() -> None:
    secrets = [bytes(32), bytes(31) + b"\x01"]
    assert len({sealed(digest, secret) for digest in (DIGEST, bytes(32)) for secret in secrets}) == 4
    assert sealed(DIGEST, secrets[1]) == hashlib.sha256(secrets[1] + DIGEST).digest()
    for length in (0, 31, 33):
        with pytest.raises(InvalidInput, match=f"secret = {length} bytes: must be 32 random bytes"):
            sealed(DIGEST, bytes(length))
        with pytest.raises(InvalidInput, match=f"digest = {length} bytes: must be 32 bytes"):
            sealed(bytes(length), bytes(32))


@pytest.mark.parametrize("hop", [0, -1, 4, 5, 17, 1000])
def test_a_hop_that_cannot_come_next_is_refused(hop: int) -> None:
    with pytest.raises(InvalidInput, match="hop"):
        extended_chain(made(16, [2, 5]), (0, 0), hop, DIGEST)


@pytest.mark.parametrize("ballot", [(-1, 0), (0, -1), (2**64, 0)])
def test_a_ballot_that_does_not_fit_is_refused(ballot: tuple[int, int]) -> None:
    with pytest.raises(InvalidInput, match="ballot"):
        extended_chain(made(16, []), ballot, 1, DIGEST)


def test_a_digest_of_another_length_is_refused() -> None:
    with pytest.raises(InvalidInput, match="parameters_digest = 31 bytes: must be 32 bytes"):
        extended_chain(made(16, []), (0, 0), 1, bytes(31))


@pytest.mark.parametrize("chain", [b"", bytes(31), bytes(32)])
def test_what_is_no_chain_is_refused(chain: bytes) -> None:
    for read in (updates_of, updated_hops, marks_of):
        with pytest.raises(InvalidInput, match=r"chain = .* bytes: must be a digest of 32 bytes and a bitmap"):
            read(chain)
    with pytest.raises(InvalidInput, match="must be a digest of 32 bytes and a bitmap"):
        extended_chain(chain, (0, 0), 1, DIGEST)


def test_no_run_without_steps() -> None:
    with pytest.raises(InvalidInput, match="steps = 0"):
        blank_chain(0, b"run")


@pytest.mark.parametrize(
    ("chain", "updates", "before", "reason"),
    [
        (made(20, [3, 9])[:-1], 2, 10, "chain = 34 bytes: must be 35 bytes for a run of 20 steps"),
        (made(20, [3, 9]) + b"\x00", 2, 10, "chain = 36 bytes: must be 35 bytes"),
        (b"", 0, 1, "chain = 0 bytes: must be 35 bytes"),
        (made(20, [3, 9]), 2, 9, "chain = an update at hop 9: only hops before 9 can have been"),
        (made(20, [3, 9]), 2, 4, "only hops before 4 can have been"),
        (made(24, [3, 21]), 2, 30, "chain = an update at hop 21: the run has 20 steps"),
        (made(20, [3, 9]), 1, 10, "chain = 2 updates: the token says 1"),
        (made(20, [3, 9]), 3, 10, "chain = 2 updates: the token says 3"),
    ],
)
def test_chains_that_no_token_of_the_run_has_are_refused(chain: bytes, updates: int, before: int, reason: str) -> None:
    check_chain(made(20, [3, 9]), 20, updates=2, before_hop=10)
    with pytest.raises(InvalidInput) as problem:
        check_chain(chain, 20, updates=updates, before_hop=before)
    assert reason in str(problem.value)
    assert "\n" not in str(problem.value)


def test_a_token_without_updates_came_along_the_path_too() -> None:
    """Until a recovery it began with the first node; whoever was never its turn cannot have it."""
    token, path = Token(0, b"", blank_chain(5, b"run")), [0, 1, 2, 3, 4]
    assert wrong_way(token, path, sender=1, hop=3, recovered=False) == ""
    assert "never had" in wrong_way(token, path, sender=2, hop=3, recovered=False)
    assert wrong_way(token, path, sender=2, hop=3, recovered=True) == ""
