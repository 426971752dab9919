"""How messages travel: as protocol buffers, one frame each, with the digest of the run in every frame.

The schema follows from the numbers beside each message (`protocol.numbers`) and from the table below. It is built when
it is first needed, so that no generated code has to fit the installed version of protobuf. Parameters are raw
little-endian numbers; nothing that arrives is ever unpickled. Small ones travel inside their frame, large ones in
chunks behind it (`Heading` stands for them until they are there).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from ...errors import InvalidInput
from ..protocol import (
    HOP_BYTES,
    KNOWN_BYTES,
    MOST_PLACES,
    MOST_TURN_BYTES,
    Ballot,
    Kind,
    Message,
    Signatures,
    Token,
    Trail,
    blank_chain,
    field_numbers,
    marks_of,
    message_number,
    numbered,
)

PACKAGE = "skipring.network.v1"
DIGEST_BYTES = 32
#: Parameters of at most this many bytes travel inside their frame.
INLINE = 1 << 18
_MOST_NUMBER = 2**63
#: No signature, and no stamp, comes near.
_MOST_SIGNATURE = 256

#: What messages are made of, each field with its number. A number is never used again for something else.
_PARTS: dict[str, dict[int, tuple[str, str]]] = {
    "Ballot": {1: ("number", "uint64"), 2: ("node", "uint32")},
    "Rank": {1: ("ballot", "Ballot"), 2: ("hop", "uint64"), 3: ("kind", "uint32")},
    "Signature": {1: ("node", "uint32"), 2: ("signature", "bytes")},
    "Token": {
        1: ("updates", "uint64"),
        2: ("chain", "bytes"),
        3: ("dtype", "string"),
        4: ("size", "uint64"),
        5: ("digest", "bytes"),
        6: ("parameters", "bytes"),
        7: ("stamps", "Signature"),
    },
    "Trail": {1: ("chain", "bytes"), 2: ("stamps", "Signature")},
}
_RUN = 1  # the number of the run's digest in a frame, beside those of the messages
#: What the fields of messages are, by their name.
_FIELDS = {
    "ballot": "Ballot",
    "promised": "Ballot",
    "hop": "uint64",
    "has": "bool",
    "asked": "bool",
    "rank": "Rank",
    "token": "Token",
    "heard": "bytes",
    "turns": "bytes",
    "known": "bytes",
    "since": "uint64",
    "places": "bytes",
    "vote": "bytes",
    "signature": "bytes",
    "votes": "Signature",
    "promises": "Signature",
    "wishes": "Signature",
    "one": "Trail",
    "other": "Trail",
}
#: Fields of which there are several, one for each node at most.
_REPEATED = {"votes", "promises", "stamps", "wishes"}


#: Fields that say how a token came to be.
_TRAILS = {"one", "other"}


class Malformed(InvalidInput):
    """Something arrived that is no frame of this protocol."""


@numbered(2)
@dataclass(frozen=True)
class Done:
    """I have the final model: a courtesy between nodes that wait for each other before they stop."""


#: Messages, by the names of their fields in a frame.
_MESSAGES: dict[str, type[Message | Done]] = {kind.__name__.lower(): kind for kind in (Done, *get_args(Message))}


@dataclass(frozen=True)
class Heading:
    """What a frame says about the parameters of its token: their type and size, and their SHA-256 if they follow."""

    dtype: str
    size: int
    digest: bytes = b""

    @property
    def follows(self) -> bool:
        """Whether the parameters come behind the frame, in chunks."""
        return bool(self.digest)


@dataclass(frozen=True)
class Frame:
    """A message as it arrived; if parameters follow, the token in it has none yet."""

    run: bytes
    message: Message | Done
    heading: Heading | None = None


@cache
def _frame_class() -> Any:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory  # an extra

    field = descriptor_pb2.FieldDescriptorProto
    types = {"uint64": field.TYPE_UINT64, "uint32": field.TYPE_UINT32, "bool": field.TYPE_BOOL}
    types |= {"bytes": field.TYPE_BYTES, "string": field.TYPE_STRING}
    file = descriptor_pb2.FileDescriptorProto(name="skipring/network/v1.proto", package=PACKAGE, syntax="proto3")

    def add(to: Any, name: str, number: int, kind: str) -> Any:
        label = field.LABEL_REPEATED if name in _REPEATED else field.LABEL_OPTIONAL
        added = to.field.add(name=name, number=number, label=label)
        if kind in types:
            added.type = types[kind]
        else:
            added.type, added.type_name = field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"
        return added

    for name, fields in schema().items():
        part = file.message_type.add(name=name)
        for number, (field_name, kind) in fields.items():
            add(part, field_name, number, kind)
    frame = file.message_type.add(name="Frame")
    frame.oneof_decl.add(name="message")
    add(frame, "run", _RUN, "bytes")
    for name, message in _MESSAGES.items():
        add(frame, name, message_number(message), message.__name__).oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{PACKAGE}.Frame"))


def schema() -> Mapping[str, Mapping[int, tuple[str, str]]]:
    """Return the fields of all messages by number, in the words of protocol buffers."""
    return _PARTS | {
        kind.__name__: {number: (name, _FIELDS[name]) for name, number in field_numbers(kind).items()}
        for kind in _MESSAGES.values()
    }


def encode(run: bytes, message: Message | Done, heading: Heading | None = None) -> bytes:
    """Return a message as bytes. A token needs a heading; if its parameters follow, they are left out."""
    frame = _frame_class()(run=run)
    body = getattr(frame, type(message).__name__.lower())
    body.SetInParent()
    for name in message.__dataclass_fields__:
        value = getattr(message, name)
        if name in ("ballot", "promised"):
            _put_ballot(getattr(body, name), value)
        elif name == "rank":
            _put_ballot(body.rank.ballot, value[0])
            body.rank.hop, body.rank.kind = value[1], int(value[2])
        elif name == "token":
            _put_token(body.token, value, heading)
        elif name in _TRAILS:
            getattr(body, name).chain = value.chain
            _put_signatures(getattr(body, name).stamps, value.stamps)
        elif name in _REPEATED:
            _put_signatures(getattr(body, name), value)
        else:
            setattr(body, name, value)
    data: bytes = frame.SerializeToString()
    return data


def _put_ballot(body: Any, ballot: Ballot) -> None:
    body.number, body.node = ballot
    body.SetInParent()  # (0, 0) must be seen to be there


def _put_signatures(body: Any, signatures: Signatures) -> None:
    for node, signature in signatures:
        body.add(node=node, signature=signature)


def _put_token(body: Any, token: Token, heading: Heading | None) -> None:
    assert heading is not None
    body.updates, body.chain = token.updates, token.chain
    _put_signatures(body.stamps, token.stamps)
    body.dtype, body.size, body.digest = heading.dtype, heading.size, heading.digest
    if not heading.follows:
        body.parameters = token.parameters


def decode(data: bytes, *, nodes: int, steps: int) -> Frame:
    """Read a frame, or say in one line why it is none; nothing else can go wrong here, even if a liar sent it."""
    from google.protobuf.message import DecodeError  # an extra

    try:
        frame = _frame_class().FromString(data)
    except DecodeError as error:
        raise Malformed.because("frame", f"{len(data)} bytes", "is no protocol buffer of this protocol") from error
    kind = frame.WhichOneof("message")
    if kind is None or len(frame.run) != DIGEST_BYTES:
        raise Malformed.because("frame", f"{len(data)} bytes", "has no message of a known kind, or no digest of a run")
    body, made = getattr(frame, kind), _MESSAGES[kind]
    name, heading = made.__name__, None
    fields: dict[str, Any] = {}
    for field in made.__dataclass_fields__:
        if _FIELDS[field] in _PARTS and field not in _REPEATED and not body.HasField(field):
            raise Malformed.because(name, "incomplete", f"has no {field}")
        value = getattr(body, field)
        if field in ("ballot", "promised"):
            fields[field] = _ballot(value, nodes)
        elif field == "rank":
            if not value.HasField("ballot") or value.kind > max(Kind):
                raise Malformed.because(name, "incomplete", "has no rank that means anything")
            fields[field] = _ballot(value.ballot, nodes), _hop(value.hop, steps + 1), Kind(value.kind)
        elif field == "hop":
            fields[field] = _hop(value, steps + 1)
        elif field == "token":
            stamps = _signatures(value.stamps, nodes)
            fields[field] = Token(_number(value.updates), value.parameters, value.chain, stamps)
            heading = _heading(value)
        elif field in _TRAILS:
            fields[field] = Trail(_chain(value.chain, steps), _signatures(value.stamps, nodes))
        elif field == "heard":
            fields[field] = _heard(value, nodes)
        elif field == "turns":
            fields[field] = _turns(value)
        elif field == "known":
            fields[field] = _known(value)
        elif field == "since":
            fields[field] = _since(value, steps)
        elif field == "places":
            fields[field] = _places(value)
        elif field in ("vote", "signature"):
            fields[field] = _signature(value)
        elif field in _REPEATED:
            fields[field] = _signatures(value, nodes)
        else:
            fields[field] = value
    return Frame(frame.run, made(**fields), heading)


def _number(number: int) -> int:
    if number >= _MOST_NUMBER:
        raise Malformed.because("number", number, "is too large")
    return number


def _ballot(body: Any, nodes: int) -> Ballot:
    if body.node >= nodes:
        raise Malformed.because("ballot", (body.number, body.node), f"there are only {nodes} nodes")
    return _number(body.number), body.node


def _signature(signature: bytes) -> bytes:
    if len(signature) > _MOST_SIGNATURE:
        raise Malformed.because("signature", f"{len(signature)} bytes", f"none has more than {_MOST_SIGNATURE}")
    return signature


def _signatures(body: Any, nodes: int) -> Signatures:
    """Return who has signed something: each node once, in order, as such a list is always written."""
    signers = [each.node for each in body]
    if signers != sorted(set(signers)) or (signers and signers[-1] >= nodes):
        raise Malformed.because("signatures", f"{len(signers)}", f"are not of different nodes among {nodes}, in order")
    return tuple((each.node, _signature(each.signature)) for each in body)


def _chain(chain: bytes, steps: int) -> bytes:
    """Return a chain that comes without a token, with which it would be checked."""
    wanted = len(blank_chain(steps, b""))
    if len(chain) != wanted or marks_of(chain).bit_length() > steps:
        raise Malformed.because("chain", f"{len(chain)} bytes", f"is none of {wanted} bytes for {steps} steps")
    return chain


def _hop(hop: int, most: int) -> int:
    if hop > most:
        raise Malformed.because("hop", hop, f"the run has only {most - 1} hops")
    return hop


def _heard(heard: bytes, nodes: int) -> bytes:
    if len(heard) not in (0, HOP_BYTES * nodes):
        raise Malformed.because("heard", f"{len(heard)} bytes", f"there are {nodes} nodes, {HOP_BYTES} bytes for each")
    return heard


def _heading(body: Any) -> Heading:
    """Return what a token says about its parameters, if it does not contradict itself."""
    if len(body.dtype) > 8:
        raise Malformed.because("dtype", f"{len(body.dtype)} letters", "is too long a name")
    if len(body.digest) not in (0, DIGEST_BYTES) or len(body.parameters) != (0 if body.digest else body.size):
        reason = f"says that it has {body.size}, {'behind' if body.digest else 'inside'} it"
        raise Malformed.because("token", f"{len(body.parameters)} bytes of parameters", reason)
    return Heading(body.dtype, body.size, body.digest)


def _since(since: int, steps: int) -> int:
    most = -(-steps // 8) + 1
    if since > most:
        raise Malformed("since", since, f"at most {most}")
    return since


def _known(known: bytes) -> bytes:
    if len(known) not in (0, KNOWN_BYTES):
        raise Malformed("known", f"{len(known)} bytes", f"{KNOWN_BYTES}, or none")
    return known


def _places(places: bytes) -> bytes:
    if len(places) > MOST_PLACES:
        raise Malformed("places", f"{len(places)} bytes", f"at most {MOST_PLACES}")
    return places


def _turns(turns: bytes) -> bytes:
    if len(turns) > MOST_TURN_BYTES:
        raise Malformed("turns", f"{len(turns)} bytes", f"at most {MOST_TURN_BYTES}")
    return turns
