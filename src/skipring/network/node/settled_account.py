"""What a node's releases have cost once the run is over, and others have told who can have seen what.

*Theorem* (docs/privacy.md). Let an observer see any tokens of a run that forked, and let a line of tokens lead from the
initial model to the final one. Let it also look, on the line, where each token beside the line branched off. Then mu^2
is at most that of the line with all of these looks, plus (2 / noise multiplier)^2 for each release beside the line.

Which releases are on the line, and who has looked beside it, follows from what all nodes have told (`Settled`). What
does not fit to this node's own journal, down to the digest of its newest release on the final chain, is not believed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ...privacy import OwnTranscript
from ..protocol import Ballot, Parted, Settled, marks_of, own_stamp, updated_between
from .account_terms import AccountTerms

__all__ = ["append_hops", "line_transcript", "new_transcript", "on_the_line"]


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
    """Append hops, from the first to the last, to a transcript; so many updates were made before them.

    `looks` are those of others than the node of a hop, right after a hop.
    """
    first, last = hops
    sizes = iter(np.asarray(terms.step_sizes)[updates : updates + last - first + 1].tolist())
    for hop, made in enumerate(updated_between(chain, first, last), start=first):
        node = terms.path[hop - 1]
        if made:
            part = terms.part_at.get(hop)  # of another node's data this account knows nothing
            noise, closes = terms.noise_multiplier, terms.closes(hop)
            run.update(node, step_size=next(sizes), noise_multiplier=noise, part=part, closing=closes)
        else:
            run.look(node)
        for other in looks.get(hop, ()):
            run.look(other)


def on_the_line(
    terms: AccountTerms, made: Sequence[tuple[Ballot, int, bytes]], found: Settled | Parted, marks: int | None = None
) -> dict[int, bytes]:
    """Return the releases on the line to the newest token: their hops, and the digests of the chain after them.

    `made` are all releases: ballot, hop, and digest. Nothing is returned if that does not fit to the `marks` of the
    chain; those of the final model also have to have the digest of the newest release.
    """
    ends = dict(found.line)
    digests = {hop: digest for ballot, hop, digest in made if ballot >= found.below and hop <= ends.get(ballot, 0)}
    if not digests:
        return {}
    if isinstance(found, Settled):
        stamp, marks = own_stamp(found.trail, terms.me), marks_of(found.trail.chain)
        if stamp is None or stamp.digest != digests[max(digests)]:
            return {}
    assert marks is not None
    first = min(digests) if found.below > (0, terms.path[0]) else 1  # before it, releases are counted in full anyway
    own = (hop for hop in range(first, marks.bit_length() + 1) if terms.path[hop - 1] == terms.me)
    return digests if {hop for hop in own if marks >> (hop - 1) & 1} == digests.keys() else {}


def line_transcript(
    terms: AccountTerms, chain: bytes, first: int, last: int, looks: Mapping[int, Sequence[int]]
) -> OwnTranscript:
    """Return the transcript of a chain from a release on, with all looks beside it."""
    before = (marks_of(chain) & ((1 << (first - 1)) - 1)).bit_count()
    run = new_transcript(terms)
    append_hops(run, terms, (first, last), chain, before, looks)
    return run
