"""What a node has given away of its data in a run, and whether it may give away more.

The account is kept from a node's own journal alone. What it rests on:

*Who has seen what.* A node is taken to have seen the token at every hop of the agreed path that was offered to it,
whether it updated it or was skipped. How quick an observer is, is its own choice. The chain that comes
with a token tells which hops were updates. So when this node releases an update, it knows all looks and all noises
between its release before and this one, and appends them to an `OwnTranscript`.

*Until the next release* all that others see is made from the token just after the last release, from other nodes' data
and from fresh noise. That is post-processing, as far as this node's data is concerned. "All look right after my last
release" is therefore at least what any other node or outsider learns until the next one, the final model included.

*One more release* is one more Gaussian mechanism with mu = 2 / noise multiplier, on an input made from what was counted
so far. By composition it adds at most mu^2 for each observer.

*Forks.* Within one ballot there is one chain. One node goes on under it, and the token of a hop is sent in one state
only. A holder writes down that it sends it, and never goes back behind that hop, not even after a crash. (It may offer
a hop again that was skipped; then nothing had been sent.) After a recovery under a higher ballot there may be two
chains from one point, and an observer may look at both. Then noise that hides a release on one chain need not hide it
on the other. So as soon as a higher ballot is known, all releases so far count in full. Give the observer the exact
token before and after each of them, which costs mu^2 each, by composition. Given those, every token on every chain that
has no later release of this node is post-processing. The next release starts from such a token; the transcript begins
anew with it, on one chain again, and by composition its cost is added.

*What can have forked.* Two ways part only where a node goes on under a new ballot. The proof of a ballot says from
which copy, and names all lower ballots that may have been gone on under, with theirs. With it, releases on the way that
is gone on with are in the transcript again; wherever a ballot started, all nodes look; the others stay in full. After
the end it is known who can have looked there (`settled`). docs/privacy.md has the theorem, and what it rests on.

*Parts.* A node with more rows than an update may use deals them into parts, one of which it uses at each of its turns
(turn number mod parts). A turn is a hop of the agreed path that is this node's, whether it was taken or skipped. So
neither a restart nor a recovery changes the part. A person or a record is in one part: releases of the others are noise
and post-processing to it. So all of the above holds for each part with its own releases only, and the account is that
of the part about which most is known.

*A journal that was rolled back or lost.* The chain of a token that arrives may have own updates that the journal does
not know (`OwnUpdates`). They count as releases from that moment on, and all releases so far count in full, as after a
fork. Give the observer the exact token before and after each of them, and all tokens on all chains without a later
release are post-processing. That holds whether they were made and forgotten or the chain was forged: a release that
never was only adds to the account. What nobody shows to this node it cannot count. That may be a forgotten update on a
chain that was lost in a recovery, or one that no token with it has brought back yet.

*What it cannot know.* A node that is cut off with a minority does not hear of a fork while a majority goes on. The fork
is counted once the node hears of it, and then raises the account at once. (If the final model was decided under the
newest ballot that it knows, there was none: who has promised a higher one does not accept that model.) If that must not
happen, count releases (`epsilon_of_releases`, or `count = "releases"` in the budget): each in full, which holds
whatever happened elsewhere. Coalitions of observers are not accounted for, but that count holds for them, too.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput, require_integer
from ...privacy import ROUNDING, GaussianAccountant, Guarantee, OwnTranscript, gdp_delta, gdp_epsilon
from ..protocol import (
    Ballot,
    Parted,
    Rank,
    Settled,
    Starts,
    Token,
    Trail,
    check_chain,
    marks_of,
    parted,
)
from ._account_state import goes_on_from, packed
from .account_terms import AccountTerms
from .claims import own_guarantee
from .own_updates import OwnUpdates
from .settled_account import Made, append_hops, line_transcript, new_transcript, on_the_line

if TYPE_CHECKING:
    from .config import NodeBudget

#: What gives back all that rounding in a product of a few numbers may take away.
_UP = 1.0 + 1e-10


class OwnAccount(GaussianAccountant):
    """What the others know about this node's data, at most, if all of them looked right after its last release.

    `released` and `heard` are told what goes into the journal, in that order, by the `Fold` of its entries.
    """

    def __init__(self, terms: AccountTerms) -> None:
        self.terms = terms
        self.releases = 0
        self.doubts = 0  # so often was something put in doubt, or taken back that was certain
        self._one = (2.0 / terms.noise_multiplier) ** 2 if terms.noise_multiplier else math.inf
        self.updates = OwnUpdates(terms.path, terms.me)
        self._promised: Ballot = (0, terms.path[0])
        self._of_part: Counter[int] = Counter()  # the releases of each part
        self._of_any = 0  # releases of which the part is not known: they count for each
        self._in_full: Counter[int] = Counter()  # how many releases of each part count in full, whatever the others did
        self._marks: dict[Ballot, int] = {}  # of the chain of the newest release under each ballot
        self._made: dict[Ballot, Made] = {}  # all releases
        self._certain: tuple[float, ...] | None = None  # mu^2, once it is certain what recoveries have cost
        self._told = False  # the account is lower than it were without what others have told
        self._doubtful = False  # more than recoveries makes releases count in full, so that nothing will be certain
        self._last = (0, 0, 0)  # hop, marks of the chain, and updates at the last release of the transcript
        self._transcript: OwnTranscript
        self._begin()

    # What happened.

    def released(self, ballot: Ballot, hop: int, chain: bytes, updates: int) -> None:
        """Count an own update that was written down; `chain` and `updates` are of the token with it.

        If something is wrong with it, it is counted in full all the same, and then refused.
        """
        self.heard(ballot)
        self._count(hop)
        self._take_back()  # it was of an end that was none
        if not self._made.setdefault(ballot, Made()).add(hop, chain):
            self._relax_nothing()  # two at one hop, or backwards: the protocol does not do this
        try:
            marks = self._checked(hop, chain, updates)
        except InvalidInput:
            self._doubt()
            raise
        self.updates.wrote(hop, chain)
        self._marks[ballot] = marks
        if ballot != self._promised:  # others may have gone on under the higher one, from before this update or after
            self._count_in_full()
            return
        last, known, before = self._last
        if hop <= last or (marks ^ known) & ((1 << last) - 1):
            # Not the chain that went on from here. The protocol does not do this; if it did, it would be a fork.
            self._relax_nothing()
            self._in_full = self._of_part - Counter({self.terms.part_at(hop) or 0: 0 if self._is_noise(hop) else 1})
            self._begin()
        elif last:
            self._append(last + 1, hop - 1, chain, before)
        self._append(hop, hop, chain, updates - 1)
        self._last = hop, marks, updates
        self._settle()

    def _count(self, hop: int) -> None:
        """Count a release at a hop: for the part that was used there, or for each if it is no hop of this node."""
        self.releases += 1
        part = self.terms.part_at(hop)
        if self._is_noise(hop):
            return
        if part is None:
            self._of_any += 1
        else:
            self._of_part[part] += 1

    def goes_on_under(self, ballot: Ballot | None) -> bool:
        """Say whether a release under a ballot would be on the chain that is accounted for."""
        return ballot is None or ballot == self._promised

    def _is_noise(self, hop: int | None) -> bool:
        """Say whether an own update at a hop carries no data, so that it tells nobody anything."""
        terms = self.terms
        return hop is not None and hop <= terms.steps and terms.closes(hop) and terms.path[hop - 1] == terms.me

    def heard(self, ballot: Ballot, start: Rank | None = None, before: Starts | None = None) -> None:
        """Take a promise: of a higher ballot than before, it may mean a fork.

        It is certain where the run can have forked once two things are known. One is which copy is gone on with
        (`start`). The other is all lower ballots that may have been gone on under, each with its own start (`before`).
        """
        if ballot > self._promised:
            self._promised = ballot
            self._take_back()
            self._count_in_full()
        if ballot == self._promised and start is not None and before is not None:
            found = parted(self.terms.path, ballot, start, before)
            if found is not None and self.terms.noise_multiplier and not self._doubtful:
                self._go_on_from(found)

    def _go_on_from(self, found: Parted) -> None:
        """Count in full only what is beside the way that is gone on with; where another can part, all nodes look."""
        ends = dict(found.line)
        way = [
            (under.upto(ends.get(ballot, 0)).bit_length(), ballot)
            for ballot, under in self._made.items()
            if ballot >= found.below
        ]
        last, ballot = max(way, default=(0, self._promised))
        marks = self._marks.get(ballot, 0) & ((1 << last) - 1)
        hops = on_the_line(self.terms, self._made, found, marks)
        if not hops:
            return
        first, everybody = min(hops), tuple(range(self.terms.nodes))
        looks = {min(place, last): everybody for place in found.places if place >= first}
        chain = bytes(32) + marks.to_bytes(-(-self.terms.steps // 8), "little")
        self._transcript = line_transcript(self.terms, chain, first, last, looks)
        self._in_full = self._of_part - self._parts_at(hops)
        self._last = last, marks, marks.bit_count()
        self._told = True
        self._settle()

    def forgotten(self, trail: Trail) -> None:
        """Count the own updates on a trail that the journal does not know, each in full and each once."""
        for hop in self.updates.reminded(trail):
            self._count(hop)
        self._doubt()

    def forked(self) -> None:
        """Take the news that the run went two ways: an observer may have seen both."""
        self._doubt()

    def settled(self, found: Settled) -> None:
        """Take what is certain after the end: releases on the final chain are hidden by what followed them there.

        The other ones stay counted in full. What does not fit to the releases of this journal is not believed.
        """
        hops = on_the_line(self.terms, self._made, found)
        if self._doubtful or not self.terms.noise_multiplier or not hops:
            return
        in_full = self._of_part - self._parts_at(hops)
        run = line_transcript(self.terms, found.trail.chain, min(hops), self.terms.steps, dict(found.looks))
        parts = {0, *self._of_part}
        known = [run.mu2_by_observer(part) + self._full(in_full[part] + self._of_any) for part in parts]
        mu2 = np.max(known, axis=0)
        mu2[self.terms.me] = 0.0
        self._told = True
        if self._certain is not None:
            mu2 = np.minimum(mu2, self._certain)  # each of them holds
        self._certain = tuple(mu2.tolist())

    def _parts_at(self, hops: Iterable[int]) -> Counter[int]:
        """Return how many of some own hops carry data of each part."""
        return Counter(part for hop in hops if (part := self.terms.part_at(hop)) is not None)

    def unrecorded(self, releases: int, doubts: int) -> None:
        """Count own updates that the owner's ledger knows and the journal does not, each in full and of any part.

        They may have been seen, on a chain that the journal has forgotten: all releases so far count in full. The
        ledger knows of this many `doubts`; those that come are counted after them, so that none is taken for another.
        """
        self.releases += releases
        self._of_any += releases
        self._doubt()
        self.doubts = max(self.doubts, doubts)

    # What is written down of it (protocol.Resumable).

    def state(self) -> bytes:
        """Return all that it was told, added up."""
        return packed(self)

    def resume(self, state: bytes) -> bool:
        """Go on from a state, if it is one with these terms; say whether it is."""
        known = goes_on_from(self, state)
        self._settle()
        return known

    # What it has cost.

    def by_observer(self) -> NDArray[np.float64]:
        """Return mu^2 for each observer; 0 for the node itself."""
        return self._mu2.copy() if self._certain is None else np.minimum(self._mu2, self._certain)

    @property
    def mu2(self) -> float:
        """What the observer who knows most knows."""
        return float(self.by_observer().max())

    @property
    def is_settled(self) -> bool:
        """Whether the run is over, and it is certain what recoveries have cost."""
        return self._certain is not None

    @property
    def mu2_by_journal(self) -> float:
        """The same by this node's journal alone, without what others have told after the end."""
        return float(self._mu2.max())

    @property
    def worst_observer(self) -> int:
        """Who knows most."""
        if not self._mu2.any():
            return 0 if self.terms.me else 1
        return int(np.argmax(self.by_observer()))

    @property
    def plain_mu2(self) -> float:
        """What it costs if each release counts in full: valid for all observers, whatever happened elsewhere."""
        return self._full(max(self._of_part.values(), default=0) + self._of_any)

    def plain_mu2_after(self, hop: int | None = None) -> float:
        """Return the same after one more release at a hop (None: of whatever part)."""
        if self._is_noise(hop):
            return self.plain_mu2
        part = None if hop is None else self.terms.part_at(hop)
        if part is None:
            return self._full(max(self._of_part.values(), default=0) + self._of_any + 1)
        return max(self.plain_mu2, self._full(self._of_part[part] + self._of_any + 1))

    def mu2_with_one_more(self, ballot: Ballot | None = None, hop: int | None = None) -> float:
        """Return the most that the account can be after one more release, under a ballot (None: the same as before).

        A release under a higher ballot tells of that ballot, and so makes those before it count in full. Only the part
        that is used at the hop (None: any) gives away more; to the others the release is noise.
        """
        most = self.plain_mu2_after(hop)
        if ballot is not None and ballot != self._promised:
            return most
        if self._is_noise(hop):
            return self.mu2
        part = None if hop is None else self.terms.part_at(hop)
        known = self.mu2 if part is None else float(self._mu2_of_part(part).max())
        # The allowance is above what `OwnTranscript` adds for the rounding of all updates that may come in between.
        return min(max(self.mu2, known + self._one) * (1.0 + 1e-9 + 1e-14 * self.terms.steps), most)

    def mu2_after(self, hop: int, token: Token | None = None) -> float:
        """Return the account right after one more release at a hop, on a token that is here.

        Without a token it is the least that it can be: as if all others had made their updates since the last release.
        """
        last, known, before = self._last
        marks = marks_of(token.chain) if token is not None else known | self._others_between(last + 1, hop - 1)
        part = self.terms.part_at(hop)
        if hop <= last or (marks ^ known) & ((1 << last) - 1):
            return self.plain_mu2_after(hop)  # not the chain that went on from here: it would count as a fork
        if part is None:
            return self.mu2_with_one_more(None, hop)
        length = -(-self.terms.steps // 8)
        chain = bytes(32) + (marks | 1 << (hop - 1)).to_bytes(length, "little")
        kept: OwnTranscript = self._transcript
        self._transcript = copy.deepcopy(kept)
        try:
            if last:
                self._append(last + 1, hop - 1, chain, before)
            self._append(hop, hop, chain, marks.bit_count())
            self._of_part[part] += 1
            return max(float(self._mu2_of_part(each).max()) for each in {part, *self._of_part})
        finally:
            self._of_part[part] -= 1
            self._transcript = kept

    def _others_between(self, first: int, last: int) -> int:
        """Return the marks of all hops of others from `first` to `last`."""
        path, me = self.terms.path, self.terms.me
        return sum(1 << (hop - 1) for hop in range(first, last + 1) if path[hop - 1] != me)

    def guarantee(self, delta: float) -> Guarantee:
        """Return what another node knows of this one's data at most, and what all others do together."""
        return own_guarantee(self, delta, told=self._told)

    def _worst_mu(self) -> float:
        return math.sqrt(self.mu2)

    def epsilon_of_releases(self, delta: float) -> float:
        """Return epsilon if each release counts in full: valid whatever happened elsewhere."""
        return gdp_epsilon(math.sqrt(self.plain_mu2), delta)

    # How it is kept.

    def _full(self, releases: int) -> float:
        return releases * self._one * _UP if releases else 0.0

    def _begin(self) -> None:
        """Begin a transcript: what came before is counted in full, and the next release is the first one in it."""
        self._transcript = new_transcript(self.terms)
        self._last = (0, 0, 0)
        self._settle()

    def _doubt(self) -> None:
        """Count all so far in full, whatever becomes known after the end."""
        self._relax_nothing()
        self._certain = None
        self._count_in_full()

    def _relax_nothing(self) -> None:
        self._doubtful = True
        self.doubts += 1

    def _take_back(self) -> None:
        if self._certain is not None:
            self._certain = None
            self.doubts += 1

    def _count_in_full(self) -> None:
        self._in_full = self._of_part.copy()
        self._begin()

    def _settle(self) -> None:
        self._mu2 = np.max([self._mu2_of_part(part) for part in {0, *self._of_part}], axis=0)

    def _mu2_of_part(self, part: int) -> NDArray[np.float64]:
        in_full = self._full(self._in_full[part] + self._of_any)
        if not self.terms.noise_multiplier:  # there is no noise of others to count, either
            mu2 = np.full(self.terms.nodes, self._full(self._of_part[part] + self._of_any))
        else:
            mu2 = in_full + self._transcript.mu2_by_observer(part)
        mu2 = np.minimum(mu2, self._full(self._of_part[part] + self._of_any))
        mu2[self.terms.me] = 0.0
        return mu2

    def _checked(self, hop: int, chain: bytes, updates: int) -> int:
        """Return the marks of the chain of an own release, or refuse it."""
        terms = self.terms
        require_integer("hop", hop, 1)
        if hop > terms.steps or terms.path[hop - 1] != terms.me:
            raise InvalidInput("hop", hop, f"a hop of node {terms.me}")
        check_chain(chain, terms.steps, updates=updates, before_hop=hop + 1)
        marks = marks_of(chain)
        if not marks >> (hop - 1) & 1:
            raise InvalidInput.because("chain", f"no update at hop {hop}", "it was released there")
        before = marks ^ 1 << (hop - 1)
        if unknown := self.updates.never_made(before):  # such a token is not let in, so this does not happen
            length = len(chain) - len(chain[:32])
            for forgotten in self.updates.reminded(Trail(chain[:32] + before.to_bytes(length, "little"), ())):
                self._count(forgotten)
            raise InvalidInput.because("chain", f"an own update at hop {unknown}", "the journal has forgotten it")
        return marks

    def _append(self, first: int, last: int, chain: bytes, updates: int) -> None:
        """Append hops first..last to the transcript, with how many updates were made before them."""
        if self.terms.noise_multiplier and first <= last:
            append_hops(self._transcript, self.terms, (first, last), chain, updates, {})


def willing(
    account: OwnAccount,
    budget: NodeBudget,
    ballot: Ballot | None = None,
    hop: int | None = None,
    token: Token | None = None,
    *,
    before: float = 0.0,
    least: float = 0.0,
) -> bool:
    """Say whether one more release, under the ballot and at the hop it is offered with, would stay within a budget.

    `before` is mu^2 of what was given away elsewhere, and counts against the same budget; this run counts for `least`.

    How much others have added since the last release is known once the token is here. Until then the answer is yes if
    it may be enough; a holder that then finds that it is not passes the token on as it is.

    It asks what delta is at the budget's epsilon, which is quick enough for every offer. The answer depends on who took
    part when and on what was agreed, never on data or parameters.
    """
    if budget.epsilon is None or budget.delta is None:
        return True

    def is_kept(mu2: float) -> bool:
        assert budget.epsilon is not None
        assert budget.delta is not None
        return gdp_delta(math.sqrt(before + max(mu2, least)) * ROUNDING, budget.epsilon) * ROUNDING <= budget.delta

    if budget.count == "releases":
        return is_kept(account.plain_mu2_after(hop))
    if hop is not None and token is not None and account.goes_on_under(ballot):
        return is_kept(account.mu2_after(hop, token))
    if is_kept(account.mu2_with_one_more(ballot, hop)):
        return True
    return hop is not None and account.goes_on_under(ballot) and is_kept(account.mu2_after(hop))
