"""What a node's releases have cost once the run is over, and others have told who can have seen what.

*Theorem* (docs/privacy.md). Let an observer see any tokens of a run that forked, and let a line of tokens lead from the
initial model to the final one. Let it also look, on the line, where each token beside the line branched off. Then mu^2
is at most that of the line with all of these looks, plus (2 / noise multiplier)^2 for each release beside the line.

Which releases are on the line, and who has looked beside it, follows from what all nodes have told (`Settled`). What
does not fit to this node's own journal, down to the digest of its newest release on the final chain, is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ...privacy import OwnTranscript
from ..protocol import Ballot, Parted, Settled, marks_of, own_stamp, updated_between
from .account_terms import AccountTerms

_KEPT = 8  # bytes of a digest


def new_transcript(terms: AccountTerms) -> OwnTranscript:
    """Return the transcript of a run in which nothing has happened yet."""
    return OwnTranscript(terms.nodes, terms.me, convex=terms.convex, parts=terms.parts, protects=terms.protects)


def append_hops(
    run: OwnTranscript,
    terms: AccountTerms,
    hops: tuple[int, int],
    chain: bytes,
    updates: int,
    looks: Mapping[int, Sequence[int]],
) -> None:
    """Append hops, from the first to the last, to a transcript, with how many updates were made before them.

    `looks` are those of others than the node of a hop, right after a hop.
    """
    first, last = hops
    sizes = iter(np.asarray(terms.step_sizes)[updates : updates + last - first + 1].tolist())
    for hop, made in enumerate(updated_between(chain, first, last), start=first):
        node = terms.path[hop - 1]
        if made:
            part = terms.part_at(hop)  # of another node's data this account knows nothing
            noise, closes = terms.noise_multiplier, terms.closes(hop)
            run.update(node, step_size=next(sizes), noise_multiplier=noise, part=part, closing=closes)
        else:
            run.look(node)
        for other in looks.get(hop, ()):
            run.look(other)


@dataclass
class Made:
    """The releases under one ballot: their hops (bit h - 1 is hop h), and of each chain's digest the first bytes.

    Nobody can choose the digest of a release: fresh random bytes are in it. Eight of its bytes tell it from others.
    """

    hops: int = 0
    digests: bytearray = field(default_factory=bytearray)

    def add(self, hop: int, digest: bytes) -> bool:
        """Take one more; say whether it comes after the others, as it should."""
        if hop <= self.hops.bit_length():
            return False
        self.hops |= 1 << (hop - 1)
        self.digests += digest[:_KEPT]
        return True

    def upto(self, hop: int) -> int:
        """Return the hops up to one."""
        return self.hops & ((1 << hop) - 1)

    def digest_at(self, hop: int) -> bytes:
        """Return the first bytes of the digest at a hop."""
        at = _KEPT * self.upto(hop - 1).bit_count()
        return bytes(self.digests[at : at + _KEPT])


def on_the_line(
    terms: AccountTerms, made: Mapping[Ballot, Made], found: Settled | Parted, marks: int | None = None
) -> list[int]:
    """Return the hops of the releases on the line to the newest token.

    `made` are all releases. Nothing is returned if that does not fit to the `marks` of the chain; those of the final
    model also have to have the digest of the newest release.
    """
    ends, hops, newest = dict(found.line), 0, b""
    for ballot, under in sorted(made.items()):
        some = under.upto(ends.get(ballot, 0)) if ballot >= found.below else 0
        if some & hops:
            return []  # two releases at one hop cannot both be on it
        if some > hops:
            newest = under.digest_at(some.bit_length())
        hops |= some
    if not hops:
        return []
    if isinstance(found, Settled):
        stamp, marks = own_stamp(found.trail, terms.me), marks_of(found.trail.chain)
        if stamp is None or stamp.digest[:_KEPT] != newest:
            return []
    assert marks is not None
    # Before the first of them, releases are counted in full anyway.
    first = (hops & -hops).bit_length() if found.below > (0, terms.path[0]) else 1
    if marks & terms.own_hops & ~((1 << (first - 1)) - 1) != hops:
        return []
    return _hops_in(hops)


def _hops_in(marks: int) -> list[int]:
    bits = np.frombuffer(marks.to_bytes(-(-marks.bit_length() // 8), "little"), np.uint8)
    return [int(at) + 1 for at in np.flatnonzero(np.unpackbits(bits, bitorder="little"))]


def line_transcript(
    terms: AccountTerms, chain: bytes, first: int, last: int, looks: Mapping[int, Sequence[int]]
) -> OwnTranscript:
    """Return the transcript of a chain from a release on, with all looks beside it."""
    before = (marks_of(chain) & ((1 << (first - 1)) - 1)).bit_count()
    run = new_transcript(terms)
    append_hops(run, terms, (first, last), chain, before, looks)
    return run
