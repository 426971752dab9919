"""What a node's owner has given away of one data set, over all runs: a budget for life.

*Composition.* Each run is mu-GDP against the observer who learned most in it. Members of different runs may put
together what they saw, so these observers count as one and the same, and mu adds in squares. (That is adaptive
composition of Gaussian mechanisms: what was learned in one run may decide what is tried in the next.)

*Units.* A run that protects a node is mu-GDP for any change of its data, also for that of one person's rows, or of one
record. So what was told of a record is the sum over all runs, whatever they protect. What was told of a person is that
over the runs that protect persons or nodes; of a node, over those that protect nodes. What runs that protect less have
told of a person or a node comes on top: their mu says nothing about a change of several units. All totals are within a
budget if that of a record is.

*Two nodes in one run on the same data.* To the account of one of them the other's updates are noise and
post-processing, which they are not if they are made from the same rows. Where a ledger has two nodes in one run, each
release of both counts in full, which holds whatever the others do.

*Order.* An account rises in the ledger, on the disk, before the entry that raises it is in the journal, and that is
before anything is sent. After a crash between the two the ledger is ahead, as it is of a journal that was rolled back
or lost. So that these can be told apart, the ledger also has what the journal was seen to have, written before anything
is sent. That is not synced, and need not be: as long as the machine has not started anew, a process that was killed has
lost nothing of it. If the journal then has just that, what the ledger has beyond was never sent. The ledger stays as it
is, and the account goes on from the journal. Otherwise what the journal lacks counts as seen. All releases of the run
so far count in full, those that the journal lacks among them, and the account goes on from there.

*It never falls.* The account of a run takes it that all nodes look right after the last release, and may fall a little
when the next one shows who did. The ledger keeps the highest. It falls once at most: when the run is over, and what
others have told makes it certain what recoveries have cost. That is in the journal before it is in the ledger, so that
a node which dies in between has counted too much, and counts anew at its next start. If something then turns out to
have gone wrong (a fork that is proven), it rises again, and does so before anything else happens.

*Doubts.* What is proven (a fork, updates that the journal has forgotten) has happened, whether or not the journal comes
to have it. So the ledger also counts how often something was put in doubt, or taken back that had been certain. A
journal that knows of fewer doubts has lost one: all releases so far count in full, and nothing is certain any more. One
that was lost stays so, and is not taken for a later one.

*Several processes.* While one of them makes an update, what that may cost stands in the ledger, so that two nodes
which share a budget cannot both take the last of it. Two processes that are one and the same node, from copies of its
folder, would be counted as one. So the second is refused for as long as the first one runs.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import InvalidInput
from ...privacy import RELATION, Unit, gdp_epsilon
from ..protocol import Account, Ballot, Entry, Memory, Place, Rank, Settled, Starts, Token, Trail
from ..storage import LedgerBroken, LedgerClaim, LedgerFile, LedgerRecord, LedgerRun, LedgerWriter, Spent, boot
from .config import NodeBudget
from .ledger import OwnAccount, willing

if TYPE_CHECKING:
    from .driver import Journal

#: An account that is read back from a journal may differ from the one that was kept by this much.
_ROUNDING = 1.0 + 1e-9


#: The units of the runs that tell of each unit: its own, and those which hold it. The least unit comes last.
_TOLD_BY: dict[Unit, tuple[Unit, ...]] = {
    "node": ("node",),
    "person": ("person", "node"),
    "record": ("record", "person", "node"),
}


@dataclass(frozen=True, kw_only=True)
class LifeTotal:
    """What all runs have given away of one unit: mu^2, and with each release in full.

    These are the runs that protect the unit, or what it is part of: a record is in its person's and in its node's data.
    """

    unit: Unit
    relation: str
    runs: int
    releases: int
    mu2: float
    in_full: float

    def epsilon(self, delta: float) -> float:
        """Return epsilon of one observer who learned, in each run, what the observer who knows most did."""
        return gdp_epsilon(math.sqrt(self.mu2), delta)

    def epsilon_in_full(self, delta: float) -> float:
        """Return epsilon if each release counts in full: for coalitions within a run, and whatever happened there."""
        return gdp_epsilon(math.sqrt(self.in_full), delta)


def known_of(records: Sequence[LedgerRecord]) -> list[float]:
    """Return mu^2 of each account of a ledger; where two nodes took part in one run, with each release in full."""
    nodes = _nodes_in(records)
    return [record.in_full if len(nodes[record.about.run]) > 1 else record.mu2 for record in records]


def life_totals(records: Sequence[LedgerRecord]) -> tuple[LifeTotal, ...]:
    """Add up a ledger for each unit that a run in it protects."""
    known, totals = known_of(records), []
    for unit, relation in dict.fromkeys((record.about.unit, record.about.relation) for record in records):
        places = [at for at, each in enumerate(records) if each.about.unit in _TOLD_BY[unit]]
        totals.append(
            LifeTotal(
                unit=unit,
                relation=relation,
                runs=len({records[at].about.run for at in places}),
                releases=sum(records[at].releases for at in places),
                mu2=math.fsum(known[at] for at in places),
                in_full=math.fsum(records[at].in_full for at in places),
            )
        )
    return tuple(totals)


def _nodes_in(records: Sequence[LedgerRecord]) -> defaultdict[str, set[str]]:
    nodes: defaultdict[str, set[str]] = defaultdict(set)
    for record in records:
        nodes[record.about.run].add(record.about.node)
    return nodes


class Lifetime:
    """The account of a run that is on, kept in the ledger of its owner's data; a journal tells it what is written.

    Parameters
    ----------
    ledger : what all runs have given away.
    account : of this run; it is told of each entry before the ledger is.
    run, node : the run's identity, and the node's name.
    delta : at which the node tells its epsilon.
    not_covered : what no epsilon of this run counts; None if nothing.
    """

    def __init__(
        self,
        ledger: LedgerFile,
        account: OwnAccount,
        *,
        run: str,
        node: str,
        delta: float,
        not_covered: str | None = None,
    ) -> None:
        self._ledger, self._account = ledger, account
        self._about = LedgerRun(
            run=run,
            node=node,
            terms=account.terms.digest,
            unit=account.terms.protects,
            relation=RELATION,
            noise_multiplier=account.terms.noise_multiplier,
            steps=account.terms.steps,
            delta=delta,
            not_covered=not_covered,
        )
        self._of_journal = account  # what its entries add up to: another one, if the ledger knows of more
        self._place = -1  # none before the journal was read
        self._kept = Spent()  # what the journal has
        self._is_written = True  # the journal has what is certain
        self._claim: LedgerClaim | None = None

    @property
    def total(self) -> LifeTotal:
        """What all runs of the ledger have given away, whatever they protect: of the least unit that one of them
        protects.

        Of a larger unit only runs that protect it say anything, so its total would leave the others out.
        """
        totals = {each.unit: each for each in life_totals(self._ledger.records)}
        return next(totals[unit] for unit in reversed(_TOLD_BY) if unit in totals)

    @property
    def _now(self) -> Spent:
        """What the journal alone says: by that it is known again, whatever has become certain after the end."""
        return Spent(self._account.releases, self._account.mu2_by_journal, self._account.plain_mu2)

    @property
    def _settled(self) -> float | None:
        return self._account.mu2 if self._account.is_settled and self._is_written else None

    def begin(self) -> None:
        """Go on from the journal that was read: what the ledger has, and the journal not, counts if it may be seen."""
        account = self._account
        with self._ledger.locked() as writer:
            self._claim = LedgerClaim(self._ledger.path, self._about.run, self._about.node)
            self._place = writer.open_run(self._about)
            known = self._ledger.records[self._place]
            missing = known.releases - account.releases
            ahead = known.mu2 > account.mu2_by_journal * _ROUNDING or known.in_full > account.plain_mu2 * _ROUNDING
            lost = (missing > 0 or ahead) and not _is_whole(known, self._now)
            if lost or known.doubts > account.doubts:
                self._of_journal = copy.deepcopy(account)  # a start adds that to it anew
                account.unrecorded(max(missing, 0), known.doubts)
            self._kept, self._is_written = self._now, True
            self._note(writer, (0.0, 0.0), settled=self._settled)
            writer.sync()  # also what a failed sync may have left in memory only

    def _note(self, writer: LedgerWriter, may: tuple[float, float], *, settled: float | None = None) -> None:
        """Write down what the account has come to."""
        doubts = self._account.doubts
        writer.note(self._place, self._now, kept=self._kept, may=may, doubts=doubts, settled=settled)

    def confirm(self) -> None:
        """Take the news that the journal has all that it was told: it is in the ledger before anything is sent."""
        if self._place < 0:
            return
        self._is_written = True
        if self._kept != self._now:
            self._kept = self._now
            with self._ledger.locked() as writer:
                known = self._ledger.records[self._place]
                self._note(writer, (known.may_mu2, known.may_in_full))
        if self._settled is not None and self._settled < self._ledger.records[self._place].mu2:
            self.end()

    def end(self) -> None:
        """Take back what an update that will not be made might have cost, and what is certain not to have been."""
        if self._place < 0:
            return
        with contextlib.suppress(LedgerBroken, InvalidInput), self._ledger.locked() as writer:  # else it stays there
            self._note(writer, (0.0, 0.0), settled=self._settled)
            writer.sync()

    def release(self) -> None:
        """Let another process take part as this node: nothing is counted any more."""
        if self._claim is not None:
            self._claim.release()

    # What is written into the journal (protocol.Account).

    def heard(self, ballot: Ballot, start: Rank | None = None, before: Starts | None = None) -> None:
        """Take a promise."""
        for account in self._accounts:
            account.heard(ballot, start, before)
        self._settle()

    def released(self, ballot: Ballot, hop: int, chain: bytes, updates: int) -> None:
        """Take an own update: it is in the ledger when this returns."""
        try:
            for account in self._accounts:
                account.released(ballot, hop, chain, updates)
        finally:  # what the account refuses, it has counted
            self._settle()

    def forgotten(self, trail: Trail) -> None:
        """Take own updates that the journal does not know."""
        for account in self._accounts:
            account.forgotten(trail)
        self._settle()

    def forked(self) -> None:
        """Take the news that the run went two ways."""
        for account in self._accounts:
            account.forked()
        self._settle()

    def settled(self, found: Settled) -> None:
        """Take what is certain after the end; the ledger has it once the journal does."""
        self._is_written = False
        for account in self._accounts:
            account.settled(found)

    @property
    def _accounts(self) -> list[OwnAccount]:
        return [self._account] if self._of_journal is self._account else [self._account, self._of_journal]

    def state(self) -> bytes:
        """Return what the journal's entries add up to; what only the ledger knows is not among it."""
        return self._of_journal.state()

    def resume(self, state: bytes) -> bool:
        """Go on from what the journal's entries have added up to; say whether it was of this account."""
        return self._account.resume(state)

    def _settle(self) -> None:
        """See to it that the ledger has what the account has, on the disk."""
        if self._place < 0:
            return
        known = self._ledger.records[self._place]
        taken_back = known.settled and self._settled is None
        if self._now != known.told or taken_back or self._account.doubts > known.doubts:
            made = self._now.releases > known.told.releases
            may = (0.0, 0.0) if made else (known.may_mu2, known.may_in_full)
            with self._ledger.locked() as writer:
                self._note(writer, may)
                writer.sync()

    # Whether there may be more.

    def affords(self, budget: NodeBudget, place: Place, token: Token | None) -> bool:
        """Say whether one more update would stay within a budget for life."""
        self._ledger.read()
        return self._affords(budget, place, token)

    def reserve(self, budget: NodeBudget, place: Place, token: Token) -> bool:
        """Say the same of an update that is made now, and let other processes know what it may cost.

        They live no longer than this machine runs, so that it need not be on the disk.
        """
        if budget.epsilon is None:
            return True
        account, (ballot, hop) = self._account, place
        with self._ledger.locked() as writer:
            if not self._affords(budget, place, token):
                return False
            after = account.mu2_with_one_more(ballot, hop)
            if account.goes_on_under(ballot):
                after = min(after, account.mu2_after(hop, token))
            may = after, account.plain_mu2_after(hop)
            self._note(writer, may)
        return True

    def _affords(self, budget: NodeBudget, place: Place, token: Token | None) -> bool:
        """Decide by what other runs, and other nodes in this one, have given away or are about to."""
        records = self._ledger.records
        shared = _nodes_in(records)
        # All of them, whatever they protect: each has told of a record, and so does this run, whatever it protects.
        others = [record for at, record in enumerate(records) if at != self._place]
        in_full = budget.count == "releases"
        before = math.fsum(
            record.may_in_full if in_full or len(shared[record.about.run]) > 1 else record.may_mu2 for record in others
        )
        if len(shared[self._about.run]) > 1:
            in_full = True
            budget = budget.model_copy(update={"count": "releases"})
        own = records[self._place]
        least = own.in_full if in_full else own.mu2  # it stays, also where the account has fallen
        return willing(self._account, budget, *place, token, before=before, least=least)


class CountedJournal:
    """A journal whose ledger is told what it has, before anything is sent."""

    def __init__(self, journal: Journal, lifetime: Lifetime) -> None:
        self._journal, self._lifetime = journal, lifetime

    @property
    def memory(self) -> Memory:
        """What the protocol goes on from."""
        return self._journal.memory

    def follow(self, account: Account) -> None:
        """Tell an account of all entries so far, and from now on of each that is written."""
        self._journal.follow(account)

    def append(self, *entries: Entry) -> None:
        """Write entries, all or none of them, and tell the ledger."""
        self._journal.append(*entries)
        self._lifetime.confirm()


def _is_whole(known: LedgerRecord, account: Spent) -> bool:
    """Say whether a journal with this account lacks nothing that was sent, by what the ledger knows of it."""
    if _same(account, known.told):
        return True
    # Whatever is sent has its line in the ledger before, which only a new start of the machine can have swallowed; and
    # then the line before it, which was synced, tells of something that the journal was not seen to have.
    nothing_lost = known.told == known.kept or known.boot == boot() != ""
    return nothing_lost and _same(account, known.kept)


def _same(one: Spent, other: Spent) -> bool:
    """Say whether two accounts of the same entries may be one, up to rounding."""
    near = math.isclose(one.mu2, other.mu2, rel_tol=1e-9) and math.isclose(one.in_full, other.in_full, rel_tol=1e-9)
    return one.releases == other.releases and near
