"""Which model ended a run, signed by those who saw it: a majority's votes are a certificate that each reader can check.

A vote is a node's signature of a `Statement`, made with the key of its certificate, which the roster has. With the
roster, a reader needs nothing else to check it, neither the network nor the authority.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ...errors import InvalidInput
from ..protocol import Ballot, Token, check_chain, marks_of, updates_of
from ..storage import digest_of
from .roster import Roster

#: The file with the votes, beside the final model.
CERTIFICATE = "outcome.json"

_TAG = b"skipring: this model ended the run\n"
_PROMISE = b"skipring: no lower ballot is listened to\n"
_STAMP = b"skipring: an update of this node\n"
_WISH = b"skipring: the owner of this node wishes the run to end\n"


@dataclass(frozen=True)
class Statement:
    """What is signed: the run by the digest of what was agreed, the ballot, and the model by its bytes and its way."""

    run: str
    ballot: Ballot
    updates: int
    model: str
    chain: str

    @classmethod
    def of(cls, run: bytes, ballot: Ballot, token: Token) -> Statement:
        """Return what is said of a token that ended a run."""
        chain = hashlib.sha256(token.chain).hexdigest()
        return cls(run.hex(), ballot, token.updates, digest_of(token.parameters), chain)

    @property
    def signed_bytes(self) -> bytes:
        """The bytes under the signature: one spelling for all writers."""
        return _TAG + json.dumps(asdict(self), sort_keys=True, separators=(",", ":")).encode()


class Notary:
    """Signs statements with a node's own key, and checks those of others."""

    def __init__(self, roster: Roster, key_pem: bytes) -> None:
        from . import certificates as known  # an extra

        key = known.private_key(key_pem)
        if key is None:
            raise InvalidInput.because("node.key", "given", "is not a key that `skipring network init` makes")
        self._roster, self._key = roster, key

    def vote(self, statement: Statement) -> bytes:
        """Sign a statement."""
        return self.signed(statement.signed_bytes)

    def signed(self, what: bytes) -> bytes:
        """Return the node's signature of some bytes."""
        from . import certificates as known

        return known.sign(self._key, what)

    def is_signed(self, node: int, what: bytes, signature: bytes) -> bool:
        """Say whether a node has signed some bytes."""
        return is_signed_by(self._roster, node, what, signature)

    def is_vote(self, node: int, statement: Statement, vote: bytes) -> bool:
        """Say whether a vote is that node's, for this statement."""
        return is_vote_of(self._roster, node, statement, vote)


def is_vote_of(roster: Roster, node: int, statement: Statement, vote: bytes) -> bool:
    """Say whether a vote is that of a node of the roster, for this statement."""
    return is_signed_by(roster, node, statement.signed_bytes, vote)


def is_signed_by(roster: Roster, node: int, what: bytes, signature: bytes) -> bool:
    """Say whether a node of the roster has signed some bytes."""
    from . import certificates as known  # an extra

    return 0 <= node < len(roster) and known.is_signature(roster.keys[node], signature, what)


def wish_bytes(run: str) -> bytes:
    """Return the bytes that a node signs whose owner wishes a run to end."""
    return _WISH + run.encode()


class RunSeal:
    """What a node signs in one run (`protocol.Seal`), with its own key; `run` is the digest of what was agreed."""

    def __init__(self, notary: Notary, run: bytes) -> None:
        self._notary, self._run = notary, run

    def vote(self, ballot: Ballot, token: Token) -> bytes:
        """Sign that this node has written down a final model."""
        return self._notary.vote(Statement.of(self._run, ballot, token))

    def is_vote(self, node: int, ballot: Ballot, token: Token, vote: bytes) -> bool:
        """Say whether a node has signed that it has written down this final model."""
        return self._notary.is_vote(node, Statement.of(self._run, ballot, token), vote)

    def promise(self, ballot: Ballot) -> bytes:
        """Sign that this node listens to no lower ballot."""
        return self._notary.signed(self._promised(ballot))

    def is_promise(self, node: int, ballot: Ballot, promise: bytes) -> bool:
        """Say whether a node has signed that it listens to no lower ballot."""
        return self._notary.is_signed(node, self._promised(ballot), promise)

    def stamp(self, what: bytes) -> bytes:
        """Sign an update of this node."""
        return self._notary.signed(self._stamped(what))

    def is_stamp(self, node: int, what: bytes, signature: bytes) -> bool:
        """Say whether a node has signed an update."""
        return self._notary.is_signed(node, self._stamped(what), signature)

    def wish(self) -> bytes:
        """Sign that the owner of this node wishes the run to end."""
        return self._notary.signed(wish_bytes(self._run.hex()))

    def is_wish(self, node: int, wish: bytes) -> bool:
        """Say whether a node has signed that its owner wishes this run to end."""
        return self._notary.is_signed(node, wish_bytes(self._run.hex()), wish)

    def _promised(self, ballot: Ballot) -> bytes:
        return _PROMISE + json.dumps([self._run.hex(), *ballot]).encode()

    def _stamped(self, what: bytes) -> bytes:
        return _STAMP + self._run + what


@dataclass(frozen=True)
class Way:
    """How a run came to its end: the chain of its model tells at which hops it was updated, of how many.

    If it ended before its last hop by agreement, `wishes` are those of a majority.
    """

    chain: bytes
    steps: int
    wishes: Mapping[int, bytes]

    @property
    def hop(self) -> int:
        """The hop of the last update."""
        return marks_of(self.chain).bit_length()

    def problem(self, statement: Statement, roster: Roster) -> str | None:
        """Say why this is not the way of a model, or no majority asked for its early end; None if all is well."""
        if hashlib.sha256(self.chain).hexdigest() != statement.chain or not self._fits:
            return "what it says of its end is not about this model"
        if not self.wishes:
            return None
        asked = wish_bytes(statement.run)
        good = [node for node, wish in self.wishes.items() if is_signed_by(roster, node, asked, wish)]
        needed = len(roster) // 2 + 1
        if len(good) < needed:
            return f"it ended early, {len(good)} of {len(roster)} nodes have asked for that, and a majority is {needed}"
        return None

    @property
    def _fits(self) -> bool:
        try:
            check_chain(self.chain, self.steps, updates=updates_of(self.chain), before_hop=self.steps + 1)
        except InvalidInput:
            return False
        return True


@dataclass(frozen=True)
class OutcomeCertificate:
    """A statement and the votes for it, node by node; a node keeps it beside the final model."""

    statement: Statement
    votes: Mapping[int, bytes]
    way: Way | None = None
    strangers: tuple[str, ...] = ()

    def to_json(self, roster: Roster) -> str:
        """Return it as the text of a file, with names for people."""
        votes = {roster.names[node]: vote.hex() for node, vote in sorted(self.votes.items())}
        found: dict[str, Any] = {"statement": asdict(self.statement), "votes": votes}
        if (way := self.way) is not None:
            wishes = {roster.names[node]: wish.hex() for node, wish in sorted(way.wishes.items())}
            found["way"] = {"chain": way.chain.hex(), "steps": way.steps, "wishes": wishes}
        return json.dumps(found, indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str, roster: Roster) -> OutcomeCertificate:
        """Read such a file; votes of nodes that the roster does not have do not count, and they are its `strangers`."""
        try:
            found = json.loads(text)
            said = found["statement"]
            number, node = said["ballot"]
            statement = Statement(
                run=str(said["run"]),
                ballot=(int(number), int(node)),
                updates=int(said["updates"]),
                model=str(said["model"]),
                chain=str(said["chain"]),
            )
            votes = {str(name): bytes.fromhex(vote) for name, vote in found["votes"].items()}
            told, way = found.get("way"), None
            wishes = {} if told is None else {str(name): bytes.fromhex(one) for name, one in told["wishes"].items()}
            if told is not None:
                chain, steps = bytes.fromhex(told["chain"]), int(told["steps"])
        except (ValueError, KeyError, TypeError, AttributeError):
            raise InvalidInput.because("certificate", "given", "is not the certificate of an outcome") from None
        strangers = tuple(sorted((votes.keys() | wishes.keys()) - set(roster.names)))

        def known(signed: Mapping[str, bytes]) -> dict[int, bytes]:
            return {roster.index(name): one for name, one in signed.items() if name in roster.names}

        if told is not None:
            way = Way(chain, steps, known(wishes))
        return cls(statement, known(votes), way, strangers)

    def signers(self, roster: Roster) -> list[int]:
        """Return the nodes whose votes are good."""
        return [node for node, vote in sorted(self.votes.items()) if is_vote_of(roster, node, self.statement, vote)]
