"""Updates that their nodes have signed: nobody can put another node's update on a token.

On a token the newest update of each node carries that node's stamp. It has the ballot, the chain's digest right after
the update, and a signature of both, of the hop, and of all marks up to it. So a stamp vouches for the node's earlier
updates, too, and for what others had done before it. A node that has a token can leave out its last updates, and add
own ones; everything else is seen.

Two stamps may contradict each other: under one ballot a run goes one way. If it went two, a node has lied, or was
restored from an old copy; a node that has seen both ways can prove it to all.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from .chain import extended_chain, marks_of
from .messages import Ballot, Parameters, Token, Trail
from .seal import Seal

_BALLOT, _DIGEST = 16, 32


@dataclass(frozen=True)
class Stamp:
    """What is on a token of the newest update of a node."""

    ballot: Ballot
    digest: bytes
    signature: bytes

    @classmethod
    def read(cls, content: bytes) -> Stamp:
        """Read a stamp; what is no stamp is one that nobody has signed."""
        content = content.ljust(_BALLOT + _DIGEST, b"\0")
        number, node = (int.from_bytes(content[at : at + 8], "big") for at in (0, 8))
        return cls((number, node), content[_BALLOT : _BALLOT + _DIGEST], content[_BALLOT + _DIGEST :])

    @property
    def content(self) -> bytes:
        """The stamp as it is on a token."""
        return b"".join(part.to_bytes(8, "big") for part in self.ballot) + self.digest + self.signature

    def signed_bytes(self, marks: int) -> bytes:
        """Return the bytes under the signature; `marks` are those of the chain up to the update, which is the last."""
        return _signed_bytes(self.ballot, self.digest, marks)


def _signed_bytes(ballot: Ballot, digest: bytes, marks: int) -> bytes:
    hop = marks.bit_length()
    before = hashlib.sha256(marks.to_bytes(-(-hop // 8), "little")).digest()
    return b"".join(part.to_bytes(8, "big") for part in (*ballot, hop)) + digest + before


def stamped(
    token: Token, ballot: Ballot, hop: int, parameters: Parameters, commitment: bytes, *, me: int, seal: Seal
) -> Token:
    """Return a token after an update of this node, with its stamp; `commitment` is the update's digest, `sealed`."""
    chain = extended_chain(token.chain, ballot, hop, commitment)
    digest = chain[:_DIGEST]
    signature = seal.stamp(_signed_bytes(ballot, digest, marks_of(chain)))
    stamps = {**dict(token.stamps), me: Stamp(ballot, digest, signature).content}
    return Token(token.updates + 1, parameters, chain, tuple(sorted(stamps.items())))


def turns_of(path: Sequence[int], nodes: int) -> list[int]:
    """Return the hops of each node as the marks of a chain: bit h - 1 is hop h."""
    hops = [bytearray(-(-len(path) // 8)) for _ in range(nodes)]
    for at, node in enumerate(path):
        hops[node][at // 8] |= 1 << at % 8
    return [int.from_bytes(own, "little") for own in hops]


def own_stamp(trail: Trail | Token, node: int) -> Stamp | None:
    """Return the stamp of a node, if there is one."""
    return next((Stamp.read(content) for signer, content in trail.stamps if signer == node), None)


class StampCheck:
    """Says whether each update on a token was signed by its node.

    Parameters
    ----------
    turns : the hops of each node (`turns_of`).
    steps : of the run.
    seal : checks signatures.
    """

    def __init__(self, turns: Sequence[int], steps: int, seal: Seal) -> None:
        self._turns, self._seal = turns, seal
        self._length = _DIGEST - (-steps // 8)
        self._good: dict[int, tuple[bytes, int]] = {}  # the last good stamp of each node, and the marks up to it
        self._passed: Token | None = None  # the last token that nothing was found on

    def made(self, token: Token, me: int) -> None:
        """Take note of a token that this node has just stamped: when it comes back, that signature needs no check."""
        content = dict(token.stamps).get(me)
        if content is not None:
            self._good[me] = content, marks_of(token.chain)  # the own update is the last on it

    def problem(self, trail: Trail | Token) -> str:
        """Say why nobody can have come by this chain honestly; nothing if each of its updates is signed."""
        return self._problem(trail, len(self._turns))

    def problem_on_its_way(self, token: Token, me: int, last: Token) -> str:
        """Say the same of a token that is passed on, by the stamps of the last two nodes that updated it.

        That is enough where one node lies. Of those two one is honest, and has checked what was there before it, which
        its own stamp vouches for. After its update there are updates of the other one only. A stamp of this node is
        looked at, too, unless it is the one on the `last` token that it had.
        """
        if token is self._passed:
            return ""
        found = self._problem(token, 2, me if dict(last.stamps).get(me) != dict(token.stamps).get(me) else None)
        if not found:
            self._passed = token
        return found

    def _problem(self, trail: Trail | Token, looks: int, more: int | None = None) -> str:
        if len(trail.chain) != self._length:
            return "has no chain of this run"
        marks, stamps = marks_of(trail.chain), dict(trail.stamps)
        newest = [((marks & own).bit_length(), node) for node, own in enumerate(self._turns)]
        for hop, node in newest:
            if not hop and node in stamps:
                return f"has a stamp of node {node}, and no update of it"
            if hop and node not in stamps:
                return f"has an update of hop {hop} that its node has not signed"
        for at, (hop, node) in enumerate(sorted(newest, reverse=True)):
            if not hop or (at >= looks and node != more):
                continue
            if not self._is_good(node, stamps[node], marks & ((1 << hop) - 1)):
                return f"has an update of hop {hop} that its node has not signed"
            if not at and Stamp.read(stamps[node]).digest != trail.chain[:_DIGEST]:
                return "has a digest that the node of its last update has not signed"
        return ""

    def _is_good(self, node: int, content: bytes, marks: int) -> bool:
        if self._good.get(node) == (content, marks):
            return True
        stamp = Stamp.read(content)
        good = self._seal.is_stamp(node, stamp.signed_bytes(marks), stamp.signature)
        if good:
            self._good[node] = content, marks
        return good


@dataclass(frozen=True)
class Split:
    """A ballot under which the run went two ways, and who signed two updates at one hop, if a node did."""

    ballot: Ballot
    culprit: int | None = None


def split(one: Trail | Token, other: Trail | Token, turns: Sequence[int]) -> Split | None:
    """Return whether two trails, all of whose stamps are good, show that the run went two ways under one ballot.

    Each stamp vouches for all marks up to it. Under one ballot there is one way. Of two stamps the later one has all
    marks that the earlier one has, up to it, and if they are of the same hop, they are the same update.
    """
    marks, other_marks, stamps = marks_of(one.chain), marks_of(other.chain), dict(other.stamps)
    for node, content in one.stamps:
        hop = (marks & turns[node]).bit_length()
        if content != stamps.get(node, content) and hop == (other_marks & turns[node]).bit_length():
            first, second = Stamp.read(content), Stamp.read(stamps[node])
            if first.ballot == second.ballot and first.digest != second.digest:
                return Split(first.ballot, node)
    if not (marks ^ other_marks) & ((1 << min(marks.bit_length(), other_marks.bit_length())) - 1):
        return None
    for ballot, hop, upto in _signed(one, turns):
        for other_ballot, other_hop, other_upto in _signed(other, turns):
            if ballot == other_ballot and (upto ^ other_upto) & ((1 << min(hop, other_hop)) - 1):
                return Split(ballot)
    return None


def _signed(trail: Trail | Token, turns: Sequence[int]) -> list[tuple[Ballot, int, int]]:
    """Return of each stamp its ballot, its hop, and the marks up to it."""
    marks, found = marks_of(trail.chain), []
    for node, content in trail.stamps:
        hop = (marks & turns[node]).bit_length()
        found.append((Stamp.read(content).ballot, hop, marks & ((1 << hop) - 1)))
    return found
