"""How messages travel: what is sent arrives as it was, and what is no message is refused in one way only."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipring.network.protocol import (
    KNOWN_BYTES,
    MOST_TURN_BYTES,
    Ballot,
    Final,
    Fork,
    Hello,
    Kind,
    Message,
    Offer,
    Outcome,
    Pass,
    Promise,
    Reject,
    Token,
    Trail,
    message_number,
    numbered,
    on_wire,
)
from skipring.network.transport import Done, Frame, Heading, Malformed, decode, encode, wire

NODES, STEPS = 5, 40
RUN = bytes(range(32))

# A number, once given, is never used for anything else: nodes of two versions must not misunderstand each other.
KINDS = {
    **{"Done": 2, "Offer": 10, "Ready": 11, "Refuse": 12, "Pass": 13, "Accepted": 14, "Ask": 15, "Answer": 16},
    **{"Moved": 17, "Hello": 18, "Here": 19, "Prepare": 20, "Promise": 21, "Reject": 22, "Resume": 23, "Resumed": 24},
    **{"Final": 25, "FinalAccepted": 26, "Decided": 27, "WantOutcome": 28, "Outcome": 29},
    **{"Doubt": 30, "Agree": 31, "Fine": 32, "Ticket": 33, "WantTicket": 34, "Fork": 35, "WishesKnown": 36},
}
FIELDS = {
    "Ballot": "1 number uint64, 2 node uint32",
    "Rank": "1 ballot Ballot, 2 hop uint64, 3 kind uint32",
    "Token": "1 updates uint64, 2 chain bytes, 3 dtype string, 4 size uint64, 5 digest bytes, 6 parameters bytes, "
    "7 stamps Signature",
    "Trail": "1 chain bytes, 2 stamps Signature",
    "Signature": "1 node uint32, 2 signature bytes",
    "Done": "",
    "Offer": "1 ballot Ballot, 2 hop uint64",
    "Ready": "1 ballot Ballot, 2 hop uint64, 3 known bytes",
    "Refuse": "1 ballot Ballot, 2 hop uint64, 3 promised Ballot",
    "Pass": "1 ballot Ballot, 2 hop uint64, 3 token Token, 4 heard bytes, 5 turns bytes, 6 since uint64",
    "Accepted": "1 ballot Ballot, 2 hop uint64",
    "Ask": "1 ballot Ballot, 2 hop uint64",
    "Answer": "1 ballot Ballot, 2 hop uint64, 3 has bool",
    "Moved": "1 ballot Ballot, 2 hop uint64",
    "Hello": "1 ballot Ballot",
    "Here": "1 ballot Ballot",
    "Prepare": "1 ballot Ballot",
    "Promise": "1 ballot Ballot, 2 rank Rank, 3 signature bytes",
    "Reject": "1 promised Ballot",
    "Resume": "1 ballot Ballot, 2 rank Rank, 3 promises Signature",
    "Resumed": "1 ballot Ballot",
    "Final": "1 ballot Ballot, 2 token Token, 3 wishes Signature",
    "FinalAccepted": "1 ballot Ballot, 2 vote bytes",
    "Decided": "1 ballot Ballot, 2 votes Signature",
    "WantOutcome": "",
    "Outcome": "1 token Token, 2 ballot Ballot, 3 votes Signature, 4 wishes Signature",
    "Doubt": "1 ballot Ballot, 2 hop uint64, 3 asked bool",
    "Agree": "1 ballot Ballot, 2 hop uint64",
    "Fine": "1 ballot Ballot, 2 hop uint64",
    "Ticket": "1 ballot Ballot, 2 promises Signature",
    "WantTicket": "1 ballot Ballot",
    "Fork": "1 one Trail, 2 other Trail",
    "WishesKnown": "1 wishes Signature",
}

ballots = st.tuples(st.integers(0, 2**63 - 1), st.integers(0, NODES - 1))
hops = st.integers(0, STEPS + 1)
signatures = st.dictionaries(st.integers(0, NODES - 1), st.binary(max_size=90)).map(
    lambda signed: tuple(sorted(signed.items()))
)
tokens = st.builds(Token, st.integers(0, 2**63 - 1), st.binary(max_size=80), st.binary(max_size=50), signatures)
marks = st.integers(0, 2**STEPS - 1).map(lambda bits: bits.to_bytes(-(-STEPS // 8), "little"))
trails = st.builds(Trail, st.builds(bytes.__add__, st.binary(min_size=32, max_size=32), marks), signatures)
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "ballot": ballots,
    "promised": ballots,
    "hop": hops,
    "has": st.booleans(),
    "asked": st.booleans(),
    "rank": st.tuples(ballots, hops, st.sampled_from(Kind)),
    "token": tokens,
    "heard": st.sampled_from([b"", bytes(range(4 * NODES))]),
    "turns": st.binary(max_size=MOST_TURN_BYTES),
    "known": st.sampled_from([b"", bytes(range(KNOWN_BYTES))]),
    "since": st.integers(0, -(-STEPS // 8) + 1),
    "vote": st.binary(max_size=90),
    "signature": st.binary(max_size=90),
    "votes": signatures,
    "promises": signatures,
    "wishes": signatures,
    "one": trails,
    "other": trails,
}
messages: st.SearchStrategy[Message] = st.one_of(
    [st.builds(kind, **{name: PARTS[name] for name in kind.__dataclass_fields__}) for kind in get_args(Message)]
)


def heading_of(message: Message | Done, digest: bytes = b"") -> Heading | None:
    token: Token | None = getattr(message, "token", None)
    return None if token is None else Heading("<f8", len(token.parameters), digest)


def read(data: bytes) -> Frame:
    return decode(data, nodes=NODES, steps=STEPS)


@settings(max_examples=600, deadline=None, derandomize=True)
@given(messages, st.binary(min_size=32, max_size=32))
def test_what_is_sent_arrives(message: Message, run: bytes) -> None:
    heading = heading_of(message)
    assert read(encode(run, message, heading)) == Frame(run, message, heading)


def test_every_kind_of_message_has_been_thought_of() -> None:
    assert {kind.__name__ for kind in get_args(Message)} | {"Done"} == KINDS.keys()
    assert read(encode(RUN, Done())) == Frame(RUN, Done())


@settings(max_examples=100, deadline=None, derandomize=True)
@given(tokens, st.binary(min_size=32, max_size=32))
def test_large_parameters_follow_their_frame(token: Token, digest: bytes) -> None:
    for message in (Pass((1, 2), 3, token), Final((1, 2), token), Outcome(token, (1, 2), ())):
        heading = heading_of(message, digest)
        found = read(encode(RUN, message, heading))
        assert found == Frame(RUN, replace(message, token=replace(token, parameters=b"")), heading)
        assert found.heading is not None
        assert found.heading.follows


def test_numbers_in_frames_never_change() -> None:
    assert {kind.__name__: message_number(kind) for kind in (Done, *get_args(Message))} == KINDS
    found = {
        name: ", ".join(f"{number} {field} {kind}" for number, (field, kind) in sorted(fields.items()))
        for name, fields in wire.schema().items()
    }
    assert found == FIELDS


def test_no_two_messages_have_one_number() -> None:
    numbers = [message_number(kind) for kind in (Done, *get_args(Message))]
    assert len(set(numbers)) == len(numbers)
    assert 1 not in numbers  # the digest of the run


def test_a_message_or_a_field_without_a_number_of_its_own_is_no_message() -> None:
    @dataclass(frozen=True)
    class Greeting:
        ballot: Ballot = field(metadata=on_wire(1))
        hop: int = field(metadata=on_wire(2))

    @dataclass(frozen=True)
    class Longer(Greeting):
        loud: bool = False

    @dataclass(frozen=True)
    class Doubled(Greeting):
        has: bool = field(metadata=on_wire(2))

    with pytest.raises(TypeError, match="Greeting has no number"):
        message_number(Greeting)
    with pytest.raises(TypeError, match=r"Longer\.loud has no number"):
        numbered(99)(Longer)
    with pytest.raises(TypeError, match="Doubled has two fields of one number"):
        numbered(99)(Doubled)
    assert message_number(numbered(99)(Greeting)) == 99
    with pytest.raises(TypeError, match="Doubled has no number"):
        message_number(Doubled)  # that of another message is not its own


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Done(), "1200"),
        (Offer((0, 0), 0), "52020a00"),
        (Promise((300, 1), ((2, 3), 4, Kind.UPDATED), b"+"), "aa01160a0508ac0210011 20a0a04080210031004 18021a012b"),
        (Reject((7, 4)), "b201060a0408071004"),
        (
            Pass((1, 2), 3, Token(4, b"12345678", b"ch")),
            "6a210a0408011002 1003 1a17 0804 12026368 1a033c6638 2008 32083132333435363738",
        ),
    ],
)
def test_frames_have_the_bytes_that_they_always_had(message: Message | Done, expected: str) -> None:
    assert encode(RUN, message, heading_of(message)).hex() == "0a20" + RUN.hex() + expected.replace(" ", "")


# What is no frame. Whoever sends it, the answer is Malformed, or a message whose numbers are what they can be.


def check_sane_or_malformed(data: bytes) -> None:
    """If bytes are taken for a message, it must be one that can be sent on as it is; if not, the reason is short."""
    found, reason = None, ""
    try:
        found = read(data)
    except Malformed as problem:
        reason = str(problem)
    assert len(reason) < 200
    assert reason.isprintable()
    if found is None:
        return
    assert len(found.run) == 32
    for name in found.message.__dataclass_fields__:
        check_part(name, getattr(found.message, name), found)
    assert read(encode(found.run, found.message, found.heading)) == found


def check_part(name: str, value: Any, found: Frame) -> None:
    if name in ("ballot", "promised"):
        assert 0 <= value[0] < 2**63
        assert 0 <= value[1] < NODES
    elif name == "hop":
        assert 0 <= value <= STEPS + 1
    elif name == "rank":
        check_part("ballot", value[0], found)
        check_part("hop", value[1], found)
        assert isinstance(value[2], Kind)
    elif name == "heard":
        assert len(value) in (0, 4 * NODES)
    elif name == "turns":
        assert len(value) <= MOST_TURN_BYTES
    elif name == "known":
        assert len(value) in (0, KNOWN_BYTES)
    elif name == "since":
        assert 0 <= value <= 6
    elif name in ("has", "asked"):
        assert isinstance(value, bool)
    elif name in ("vote", "signature"):
        assert len(value) <= 256
    elif name in ("one", "other"):
        assert len(value.chain) == 37
        check_part("votes", value.stamps, found)
    elif name in ("votes", "promises", "wishes"):
        assert [node for node, _ in value] == sorted({node for node, _ in value} & set(range(NODES)))
    else:
        assert name == "token"
        assert 0 <= value.updates < 2**63
        assert found.heading is not None
        assert len(found.heading.dtype) <= 8
        assert len(found.heading.digest) in (0, 32)
        assert len(value.parameters) == (0 if found.heading.follows else found.heading.size)


@settings(max_examples=1000, deadline=None, derandomize=True)
@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    check_sane_or_malformed(data)
    check_sane_or_malformed(encode(RUN, Done())[:34] + data)  # with a run in front, so that some of them get further


@settings(max_examples=300, deadline=None, derandomize=True)
@given(messages, st.integers(0, 2**32))
def test_frames_that_were_cut_or_changed_on_their_way(message: Message, seed: int) -> None:
    whole, chance = encode(RUN, message, heading_of(message)), random.Random(seed)
    for _ in range(5):
        check_sane_or_malformed(whole[: chance.randint(0, len(whole))])
        flipped = bytearray(whole)
        for bit in chance.choices(range(8 * 34, 8 * len(whole)), k=chance.randint(1, 4)):  # behind the run
            flipped[bit // 8] ^= 1 << bit % 8
        check_sane_or_malformed(bytes(flipped))
        at = chance.randint(0, len(whole))
        check_sane_or_malformed(whole[:at] + chance.randbytes(chance.randint(1, 30)) + whole[at:])


@settings(max_examples=300, deadline=None, derandomize=True)
@given(messages, st.integers(100, 2**29 - 1), st.integers(0, 2**64 - 1), st.binary(max_size=40))
def test_fields_that_a_later_version_may_have_are_passed_over(
    message: Message, field: int, number: int, text: bytes
) -> None:
    whole = encode(RUN, message, heading_of(message))
    more = varint(field << 3) + varint(number) + varint(field << 3 | 2) + varint(len(text)) + text
    assert read(whole + more) == read(more + whole) == read(whole)


def varint(number: int) -> bytes:
    """Return a number as protocol buffers have it: seven bits at a time."""
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    return bytes([*out, number])


def spoiled(message: Message, change: Callable[[Any], None]) -> bytes:
    """Return a frame with something changed in it that no node would write."""
    frame = wire._frame_class().FromString(encode(RUN, message, heading_of(message)))
    change(getattr(frame, type(message).__name__.lower()))
    data: bytes = frame.SerializeToString()
    return data


TOKEN = Token(1, bytes(16), bytes(40))
FORK = Fork(Trail(bytes(37), ((1, b"stamp"),)), Trail(bytes(37), ()))
PASS = Pass((0, 1), 2, TOKEN)
PROMISE = Promise((1, 1), ((0, 1), 2, Kind.FINAL), b"")


def put(part: str, **values: object) -> Callable[[Any], None]:
    """Return a change of some fields of a part."""

    def change(body: Any) -> None:
        for name in filter(None, part.split(".")):
            body = getattr(body, name)
        for name, value in values.items():
            setattr(body, name, value)

    return change


@pytest.mark.parametrize(
    ("message", "change", "reason"),
    [
        (Hello((0, 0)), put("ballot", node=NODES), "there are only 5 nodes"),
        (Hello((0, 0)), put("ballot", node=2**32 - 1), "there are only 5 nodes"),
        (Hello((0, 0)), put("ballot", number=2**63), "too large"),
        (Hello((0, 0)), put("ballot", number=2**64 - 1), "too large"),
        (PASS, put("", hop=STEPS + 2), "the run has only 40 hops"),
        (PASS, put("", hop=2**64 - 1), "the run has only 40 hops"),
        (PASS, put("token", updates=2**63), "too large"),
        (PASS, put("token", size=17), "16 bytes of parameters: says that it has 17, inside it"),
        (PASS, put("token", size=2**64 - 1), "inside it"),
        (PASS, put("token", parameters=bytes(17)), "17 bytes of parameters: says that it has 16, inside it"),
        (PASS, put("token", digest=bytes(32)), "says that it has 16, behind it"),
        (PASS, put("token", digest=bytes(31), parameters=b""), "says that it has 16, behind it"),
        (PASS, put("token", dtype="<f8<f8<f8"), "too long a name"),
        (PASS, lambda body: body.ClearField("token"), "has no token"),
        (PASS, lambda body: body.ClearField("ballot"), "has no ballot"),
        (Outcome(TOKEN, (0, 0), ()), lambda body: body.ClearField("token"), "has no token"),
        (Reject((0, 0)), lambda body: body.ClearField("promised"), "has no promised"),
        (PROMISE, put("rank", kind=4), "has no rank that means anything"),
        (PROMISE, put("rank", kind=2**32 - 1), "has no rank that means anything"),
        (PROMISE, put("rank", hop=STEPS + 2), "the run has only 40 hops"),
        (PROMISE, put("rank.ballot", node=NODES), "there are only 5 nodes"),
        (PROMISE, lambda body: body.rank.ClearField("ballot"), "has no rank that means anything"),
        (PROMISE, lambda body: body.ClearField("rank"), "has no rank"),
        (FORK, put("one", chain=bytes(36)), "is none of 37 bytes for 40 steps"),
        (FORK, lambda body: body.ClearField("other"), "has no other"),
    ],
)
def test_what_no_node_of_this_run_can_mean(message: Message, change: Callable[[Any], None], reason: str) -> None:
    assert read(encode(RUN, message, heading_of(message))).message == message
    with pytest.raises(Malformed) as refused:
        read(spoiled(message, change))
    assert reason in str(refused.value)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_a_frame_without_the_digest_of_a_run(size: int) -> None:
    with pytest.raises(Malformed, match="no digest of a run"):
        read(encode(bytes(size), Hello((0, 0))))


def test_a_frame_without_a_message() -> None:
    with pytest.raises(Malformed, match="no message of a known kind"):
        read(encode(RUN, Done())[:34])
    with pytest.raises(Malformed, match="no message of a known kind"):
        read(encode(RUN, Done())[:34] + varint(37 << 3 | 2) + varint(0))  # the next kind that somebody invents


def test_names_that_are_no_text_are_refused() -> None:
    data = encode(RUN, PASS, Heading("<f8", 16))
    with pytest.raises(Malformed, match="no protocol buffer"):
        read(data.replace(b"<f8", b"\xff\xfe8"))
