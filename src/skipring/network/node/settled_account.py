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
from ..protocol import Ballot, Settled, marks_of, own_stamp, updated_between
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

    `looks` are those of others than the node of a hop, by how many updates the token had.
    """
    first, last = hops
    sizes = np.asarray(terms.step_sizes)[updates : updates + last - first + 1].tolist()
    made_before = updates
    for hop, made in enumerate(updated_between(chain, first, last), start=first):
        node = terms.path[hop - 1]
        if not made:
            run.look(node)
            continue
        closes = terms.closes(hop)
        part = terms.part_at.get(hop)  # of another node's data this account knows nothing
        size, noise = sizes[updates - made_before], terms.noise_multiplier
        run.update(node, step_size=size, noise_multiplier=noise, part=part, closing=closes)
        updates += 1
        for other in looks.get(updates, ()):
            run.look(other)


def on_the_line(terms: AccountTerms, made: Sequence[tuple[Ballot, int, bytes]], found: Settled) -> set[int]:
    """Return the hops of releases on the line to the final model; none if that does not fit to the final chain.

    `made` are all releases: ballot, hop, and digest of the chain after it.
    """
    ends = dict(found.line)
    digests = {hop: digest for ballot, hop, digest in made if ballot >= found.below and hop <= ends.get(ballot, 0)}
    stamp = own_stamp(found.trail, terms.me)
    if not digests or stamp is None or stamp.digest != digests[max(digests)]:
        return set()
    marks = marks_of(found.trail.chain)
    first = min(digests) if found.below > (0, terms.path[0]) else 1  # before it, releases are counted in full anyway
    there = {hop for hop in range(first, terms.steps + 1) if terms.path[hop - 1] == terms.me and marks >> (hop - 1) & 1}
    return there if there == digests.keys() else set()


def line_transcript(terms: AccountTerms, found: Settled, hops: set[int]) -> OwnTranscript:
    """Return the transcript of the final chain from the first of these releases on, with all looks beside it."""
    chain, first = found.trail.chain, min(hops)
    before = (marks_of(chain) & ((1 << (first - 1)) - 1)).bit_count()
    run = new_transcript(terms)
    append_hops(run, terms, (first, terms.steps), chain, before, dict(found.looks))
    return run
