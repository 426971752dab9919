"""What a node has given away of its data in a run, and whether it may give away more.

The account is kept from a node's own journal alone. What it rests on:

*Who has seen what.* A node is taken to have seen the token at every hop of the agreed path that was offered to it,
whether it updated it or was skipped (view `offered`: how quick an observer is, is its own choice). The chain that comes
with a token tells which hops were updates. So when this node releases an update, it knows all looks and all noises
between its release before and this one, and appends them to an `OwnTranscript`.

*Until the next release* whatever anybody sees is made from the token just after the last release, from other nodes'
data and from fresh noise: post-processing, as far as this node's data is concerned. "All look right after my last
release" is therefore at least what anybody learns until the next one, the final model included.

*One more release* is one more Gaussian mechanism with mu = 2 / noise multiplier, on an input made from what was counted
so far. By composition it adds at most mu^2 for each observer.

*Forks.* Within one ballot there is one chain: one node goes on under it, and the token of a hop is sent in one state
only, because a holder writes down that it sends it and never goes back behind that hop, not even after a crash. (It may
offer a hop again that was skipped; then nothing had been sent.) After a recovery under a higher ballot there may be two
chains from one point, and an observer may look at both. Then noise that hides a release on one chain need not hide it
on the other. So as soon as a higher ballot is known, all releases so far count in full: give the observer the exact
token before and after each of them, which costs mu^2 each, by composition. Given those, every token on every chain that
has no later release of this node is post-processing. The next release starts from such a token; the transcript begins
anew with it, on one chain again, and by composition its cost is added.

*Parts.* A node with more rows than an update may use deals them into parts, one of which it uses at each of its turns
(turn number mod parts; a turn is a hop of the agreed path that is this node's, whether it was taken or skipped, so
neither a restart nor a recovery changes it). A person or a record is in one part: releases of the others are noise and
post-processing to it. So all of the above holds for each part with its own releases only, and the account is that of
the part about which most is known.

*A journal that was rolled back or lost.* Own updates on the chain of a token that arrives, and that the journal does
not know (`OwnUpdates`), count as releases from that moment on, and all releases so far count in full, as after a fork:
give the observer the exact token before and after each of them, and all tokens on all chains without a later release
are post-processing. That holds whether they were made and forgotten or somebody has forged the chain: a release that
never was only adds to the account. What nobody shows to this node it cannot count: a forgotten update on a chain that
was lost in a recovery, or one that no token with it has brought back yet.

*What it cannot know.* A fork that this node has not heard of, because it is cut off with a minority while a majority
went on, is counted only once it hears of it, and then raises the account at once. (If the final model was decided under
the newest ballot that it knows, there was none: who has promised a higher one does not accept that model.) If that must
not happen, count releases (`epsilon_of_releases`, or `count = "releases"` in the budget): each in full, which holds
whatever happened elsewhere. Coalitions of observers are not accounted for, but that count holds for them, too.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..._digest import digest
from ...errors import InvalidInput, require_integer, require_non_negative
from ...privacy import AMPLIFIED, IN_FULL, Claim, GaussianAccountant, OwnTranscript, Unit, gdp_delta, gdp_epsilon
from ..protocol import Ballot, Entry, Fold, Memory, Token, Trail, check_chain, marks_of, updated_between
from ._account_state import packed, resumed
from ._own_turns import OwnTurns
from .own_updates import OwnUpdates

if TYPE_CHECKING:
    from .config import NodeBudget

__all__ = ["AccountTerms", "OwnAccount", "account_of", "willing"]

#: Step sizes may differ by this factor, and the noise from 1; squares of what is allowed cannot overflow.
_RANGE = 1e50
#: What gives back all that rounding in a product of a few numbers may take away.
_UP = 1.0 + 1e-10
#: Deltas are computed to about 11 digits.
_DELTA_UP = 1.0 + 1e-9


@dataclass(frozen=True, eq=False)
class AccountTerms:
    """What decides the cost of a node's updates, all of it agreed on before the run.

    Parameters
    ----------
    nodes : how many there are; they are numbered from 0.
    me : the node whose account it is.
    path : the node of each hop, the first hop first.
    step_sizes : of each update, the first update first; as many as there are hops.
    noise_multiplier : sigma / k, the same for all; k is the most that one protected unit contributes. Without any (0),
        one release gives everything away, to everybody.
    convex : whether the updates of other nodes bring two tokens no further apart; else each release counts in full.
    parts : into how many parts this node has dealt its persons or records, which take turns.
    protects : what is hidden: all data of a ``node``, all rows of a ``person``, or one ``record``.
    closing : how many hops at the end of the path carry no data: who takes part adds noise alone.
    """

    nodes: int
    me: int
    path: Sequence[int]
    step_sizes: ArrayLike
    noise_multiplier: float
    convex: bool
    parts: int = 1
    protects: Unit = "node"
    closing: int = 0

    def __post_init__(self) -> None:
        require_integer("nodes", self.nodes, 2)
        require_integer("closing", self.closing, 0)
        require_integer("parts", self.parts, 1, 10**6)
        if self.protects not in get_args(Unit):
            raise InvalidInput("protects", self.protects, "one of " + ", ".join(get_args(Unit)))
        if self.parts > 1 and self.protects == "node":
            reason = "a whole node is in all of its parts; only a person or a record is in one of them"
            raise InvalidInput.because("parts", self.parts, reason)
        require_integer("me", self.me, 0)
        if self.me >= self.nodes:
            raise InvalidInput("me", self.me, f"a node from 0 to {self.nodes - 1}")
        path = tuple(int(node) for node in self.path)
        if not path or min(path) < 0 or max(path) >= self.nodes:
            raise InvalidInput("path", f"of {len(path)} hops", f"a node from 0 to {self.nodes - 1} for each hop")
        sizes = np.array(self.step_sizes, dtype=np.float64)
        if sizes.ndim != 1 or len(sizes) < len(path) or not np.all((sizes > 0.0) & np.isfinite(sizes)):
            raise InvalidInput("step_sizes", f"shape {sizes.shape}", f"{len(path)} finite numbers above 0")
        require_non_negative("noise_multiplier", self.noise_multiplier)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        in_range = self.noise_multiplier == 0.0 or 1.0 / _RANGE < self.noise_multiplier < _RANGE
        if sizes.max() / _RANGE > sizes.min() or not in_range:
            raise InvalidInput.because(
                "step_sizes", "of this run", f"or its noise are out of range (a factor of {_RANGE:g})"
            )
        if self.closing >= len(path):
            raise InvalidInput("closing", self.closing, f"fewer than the {len(path)} hops of the run")
        object.__setattr__(self, "path", path)
        sizes.setflags(write=False)  # a copy: what was agreed must not change afterwards
        object.__setattr__(self, "step_sizes", sizes)

    @property
    def steps(self) -> int:
        """The number of hops of the whole run."""
        return len(self.path)

    def closes(self, hop: int) -> bool:
        """Say whether a hop carries no data."""
        return hop > len(self.path) - self.closing

    def turn(self, hop: int) -> int:
        """Return how often the token was offered to this node before a hop of its own, skipped or not."""
        return self._turns.before(hop)

    def part_at(self, hop: int) -> int | None:
        """Return which part of its data this node uses at a hop; None if it is not its turn, or closes the run."""
        return None if self.closes(hop) else self._turns.part_at(hop, self.parts)

    @cached_property
    def _turns(self) -> OwnTurns:
        return OwnTurns(self.path, self.me)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all of it: a journal has it, so that its account is never made with other terms."""
        path = np.asarray(self.path, dtype=np.int64)
        agreed = [self.nodes, self.me, path, self.step_sizes, self.noise_multiplier, self.convex]
        if self.protects != "node":  # else the digest is what it was when nothing less could be protected
            agreed += [self.protects, self.parts]
        if self.closing:
            agreed.append(self.closing)
        return digest(agreed).hex()


class OwnAccount(GaussianAccountant):
    """What the others know about this node's data, at most, if all of them looked right after its last release.

    `released` and `heard` are told what goes into the journal, in that order, by the `Fold` of its entries.
    """

    def __init__(self, terms: AccountTerms) -> None:
        self.terms = terms
        self.releases = 0
        self._one = (2.0 / terms.noise_multiplier) ** 2 if terms.noise_multiplier else math.inf
        self._sizes = np.asarray(terms.step_sizes)
        self.updates = OwnUpdates(terms.path, terms.me)
        self._promised: Ballot = (0, terms.path[0])
        self._of_part: Counter[int] = Counter()  # the releases of each part
        self._of_any = 0  # releases of which the part is not known: they count for each
        self._in_full: Counter[int] = Counter()  # so many releases of each part count in full, whatever the others did
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
        try:
            marks = self._checked(hop, chain, updates)
        except InvalidInput:
            self._count_in_full()
            raise
        self.updates.wrote(hop, chain)
        if ballot != self._promised:  # others may have gone on under the higher one, from before this update or after
            self._count_in_full()
            return
        last, known, before = self._last
        if hop <= last or (marks ^ known) & ((1 << last) - 1):
            # Not the chain that went on from here. The protocol does not do this; if it did, it would be a fork.
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

    def heard(self, ballot: Ballot) -> None:
        """Take a promise: of a higher ballot than before, it may mean a fork."""
        if ballot > self._promised:
            self._promised = ballot
            self._count_in_full()

    def forgotten(self, trail: Trail) -> None:
        """Count the own updates on a trail that the journal does not know, each in full and each once."""
        for hop in self.updates.reminded(trail):
            self._count(hop)
        self._count_in_full()

    def forked(self) -> None:
        """Take the news that the run went two ways: somebody may have seen both."""
        self._count_in_full()

    def unrecorded(self, releases: int) -> None:
        """Count so many own updates, each in full and of any part, that the owner's ledger knows and the journal not.

        They may have been seen, on a chain that the journal has forgotten: all releases so far count in full.
        """
        self.releases += releases
        self._of_any += releases
        self._count_in_full()

    # What is written down of it (protocol.Resumable).

    def state(self) -> bytes:
        """Return all that it was told, added up."""
        return packed(self)

    def resume(self, state: bytes) -> bool:
        """Go on from a state, if it is one with these terms; say whether it is."""
        known = resumed(self, state)
        self._settle()
        return known

    # What it has cost.

    def by_observer(self) -> NDArray[np.float64]:
        """Return mu^2 for each observer; 0 for the node itself."""
        return self._mu2.copy()

    @property
    def mu2(self) -> float:
        """What the observer who knows most knows."""
        return float(self._mu2.max())

    @property
    def worst_observer(self) -> int:
        """Who knows most."""
        if not self._mu2.any():
            return 0 if self.terms.me else 1
        return int(np.argmax(self._mu2))

    @property
    def plain_mu2(self) -> float:
        """What it costs if each release counts in full: valid for all observers, whatever happened elsewhere."""
        return self._full(max(self._of_part.values(), default=0) + self._of_any)

    @property
    def plain_mu2_with_one_more(self) -> float:
        """The same after one more release, of whatever part."""
        return self.plain_mu2_after()

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

    @property
    def claim(self) -> Claim:
        """Who is protected from whom, and by which argument."""
        convex = self.terms.convex
        return Claim(
            protected=f"node {self.terms.me}",
            against="any other node, which sees the token when it is its turn, knows the path and sees the final model",
            method="own account",
            view="offered",
            assumptions=(
                "it is about what was released so far, which no data may have decided",
                AMPLIFIED if convex else IN_FULL,
                *(("a fork of the run counts from when this node hears of it",) if convex else ()),
            ),
            unit=self.terms.protects,
        )

    def _worst_mu(self) -> float:
        return math.sqrt(self.mu2)

    def epsilon_with_one_more(self, delta: float) -> float:
        """Return the most that epsilon can be after one more release."""
        return gdp_epsilon(math.sqrt(self.mu2_with_one_more()), delta)

    def epsilon_of_releases(self, delta: float) -> float:
        """Return epsilon if each release counts in full: valid whatever happened elsewhere."""
        return gdp_epsilon(math.sqrt(self.plain_mu2), delta)

    # How it is kept.

    def _full(self, releases: int) -> float:
        return releases * self._one * _UP if releases else 0.0

    def _begin(self) -> None:
        """Begin a transcript: what came before is counted in full, and the next release is the first one in it."""
        terms = self.terms
        self._transcript = OwnTranscript(
            terms.nodes, terms.me, convex=terms.convex, parts=terms.parts, protects=terms.protects
        )
        self._last = (0, 0, 0)
        self._settle()

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
        """Append hops first..last to the transcript; so many updates were made before them."""
        terms = self.terms
        if not terms.noise_multiplier:
            return
        updated = updated_between(chain, first, last)
        for hop, (node, made) in enumerate(zip(terms.path[first - 1 : last], updated, strict=True), start=first):
            if made:
                part = self.terms.part_at(hop)  # of another node's data this account knows nothing
                size, noise = float(self._sizes[updates]), terms.noise_multiplier
                closes = terms.closes(hop)
                self._transcript.update(node, step_size=size, noise_multiplier=noise, part=part, closing=closes)
                updates += 1
            else:
                self._transcript.look(node)


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
    it may be enough; whoever then finds that it is not passes the token on as it is.

    It asks what delta is at the budget's epsilon, which is quick enough for every offer. The answer depends on who took
    part when and on what was agreed, never on data or parameters.
    """
    if budget.epsilon is None or budget.delta is None:
        return True

    def is_kept(mu2: float) -> bool:
        assert budget.epsilon is not None
        assert budget.delta is not None
        return gdp_delta(math.sqrt(before + max(mu2, least)) * _DELTA_UP, budget.epsilon) * _DELTA_UP <= budget.delta

    if budget.count == "releases":
        return is_kept(account.plain_mu2_after(hop))
    if hop is not None and token is not None and account.goes_on_under(ballot):
        return is_kept(account.mu2_after(hop, token))
    if is_kept(account.mu2_with_one_more(ballot, hop)):
        return True
    return hop is not None and account.goes_on_under(ballot) and is_kept(account.mu2_after(hop))


def account_of(terms: AccountTerms, entries: Iterable[Entry]) -> OwnAccount:
    """Return the account that the entries of a node's journal add up to."""
    account = OwnAccount(terms)
    Fold(Memory.blank(terms.path[0], Token(0, b"", b"")), account).add_all(entries)
    return account
