"""What a node has given away, told from its journal alone: for its owner, with the node running or not."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import InvalidInput
from ...models import ModelFacts
from ...privacy import ALL_OTHERS, ROUNDING, Guarantee, gdp_epsilon
from ...runs import RunFile, no_noise, not_covered, read_run_file
from ..node import (
    AccountTerms,
    NodeConfig,
    NodeFacts,
    OwnAccount,
    model_guarantee,
    node_rows,
    write_node_model,
)
from ..protocol import marks_of
from ..storage import JournalSum, digest_of, size_of, sum_journal
from ..transport import Roster, read_roster
from .agreed_values import agreement_of
from .earlier import files_of, why_no_journal
from .hooks import admit_hooks
from .load import require_reach, terms_of
from .run_mark import RunMark

#: So often a token may move on while it is being read.
_MOVED = 20
#: What it means to show a token in the middle of a run; the final model is seen by all nodes.
_NOT_OVER = "the run is not over, so this is what one node has seen: shown to another node, the two look together"


@dataclass(frozen=True, kw_only=True)
class KnownByObserver:
    """What one other node knows of a node's data: its view is mu-GDP, which is epsilon at the account's delta."""

    name: str
    turns: int
    mu: float
    epsilon: float


@dataclass(frozen=True, kw_only=True)
class GivenAway:
    """A node's account: what it has released, and what others know from it.

    The epsilon of its `guarantee` is that of the observer who knows most (`worst_observer`; None where everything
    counts in full). Beside it are those against all others, for all data of the node, and against an outsider once
    there is a final model. `budget` and its own `budget_delta` are None if the node has none, and `parts` is how many
    parts the node's rows rotate through.
    """

    node: str
    run: str
    releases: int
    hop: int
    steps: int
    over: bool
    noise_multiplier: float
    guarantee: Guarantee
    worst_observer: str | None
    budget: float | None
    observers: tuple[KnownByObserver, ...]
    notes: tuple[str, ...]
    parts: int = 1
    budget_delta: float | None = None


class _Read(NamedTuple):
    """A node's folder, and what its journal adds up to."""

    folder: Path
    config: NodeConfig
    roster: Roster
    run: RunFile
    me: int
    journal: JournalSum
    terms: AccountTerms
    account: OwnAccount
    parts: int
    units: int

    @property
    def delta(self) -> float:
        given = self.config.budget.delta
        return self.run.privacy.delta if given is None else given

    @property
    def run_digest(self) -> str:
        return RunMark.parse(self.journal.run_digest).agreement


def _read(folder: str | Path) -> _Read:
    """Read the folder of a node, running or not, or of an earlier run of it; one line says what is wrong with it."""
    folder = Path(folder)
    config, beside = files_of(folder)
    roster = read_roster(beside)
    if config.run is None:
        raise InvalidInput.because("DIR", folder, "its node.toml says no run")
    run = read_run_file(config.run)
    me = roster.index(config.name)
    if not config.journal.exists():
        raise InvalidInput.because("DIR", folder, why_no_journal(folder, config))
    made: list[tuple[AccountTerms, OwnAccount]] = []

    def account_for(run_digest: str) -> OwnAccount:
        terms = _terms(config, run, roster, me, RunMark.parse(run_digest))
        made.append((terms, OwnAccount(terms)))
        return made[-1][1]

    journal = sum_journal(config.journal, node=config.name, account=account_for)
    parts, units = _parts_and_units(RunMark.parse(journal.run_digest))
    terms, account = made[-1]
    home = folder if (folder / "node.toml").is_file() else folder.absolute().parent.parent
    return _Read(home, config, roster, run, me, journal, terms, account, parts, units)


def _parts_and_units(mark: RunMark) -> tuple[int, int]:
    return (int(mark.rows[0]), int(mark.rows[1])) if mark.rows else (1, 1)


def _terms(config: NodeConfig, run: RunFile, roster: Roster, me: int, known: RunMark) -> AccountTerms:
    """Return what decides the cost of the updates in a journal, if the run file is the one that it was begun with."""
    assert config.run is not None
    if known.identity != run.network.identity:
        now = RunMark("", "", identity=run.network.identity)
        reason = f"is of {now.name}; {config.journal.name} is of {known.name}"
        raise InvalidInput.because("FILE", config.run, reason)
    terms = terms_of(run, config.run, roster, me, parts=_parts_and_units(known)[0])
    if known.terms != terms.digest:
        # The journal also knows what the file leaves open, under keys of its own: those are not the file's.
        given = agreement_of(run, roster, {})
        keys = [key for key in given.differing(known.marks) if given.values.get(key) is not None]
        changed = ", ".join(keys) or "what an update costs"
        reason = f"is not the run file of {config.journal.name}; changed since the run began: {changed}"
        raise InvalidInput.because("FILE", config.run, reason)
    return terms


@dataclass(frozen=True, kw_only=True)
class NodeModel:
    """The newest model that a node has, as a file.

    Parameters
    ----------
    file : where it is.
    facts : what the file says of itself, with what it means for privacy to show it to an outsider.
    hop, steps, over : where in the run the token was that it is from, and whether it is the final model.
    digest : the SHA-256 of its parameters.
    """

    file: str
    facts: ModelFacts
    hop: int
    steps: int
    over: bool
    digest: str


def save_node_model(folder: str | Path, out: str | Path | None = None) -> NodeModel:
    """Write the newest token of a node, running or not, as a model that one can use, with its epsilon so far.

    By default the file is model.npz in the node's folder.
    """
    for again in range(_MOVED, -1, -1):
        try:
            return _save(_read(folder), out)
        except FileNotFoundError as error:
            # A large model is a file beside the journal, which goes when the token moves on: the next one is there.
            path = Path(error.filename or "")
            if not path.parent.name.endswith("-models"):
                reason = f"cannot be written: {error.strerror}"
                raise InvalidInput.because("out", path if out is None else out, reason) from None
            if not again:
                reason = "the token has moved on each time while its model was read; ask again"
                raise InvalidInput.because("DIR", folder, reason) from None
            time.sleep(0.05)
    raise AssertionError


def _save(read: _Read, out: str | Path | None) -> NodeModel:
    config, run, memory = read.config, read.run, read.journal.memory
    token, over = memory.outcome or memory.copy.token, memory.outcome is not None
    admit_hooks(read.folder, config, run)
    _, inputs = node_rows(run, index=read.me, nodes=len(read.roster), name=config.name, data=config.data)
    uncovered = [not_covered(run)] if config.data.path is None else []
    if not over:
        uncovered.append(_NOT_OVER)
    require_reach(read.terms, size_of(token.parameters), read.delta)
    beside = "; ".join(each for each in uncovered if each) or None
    guarantee = model_guarantee(read.account, config.name, read.delta, token, over=over, not_covered=beside)
    about = NodeFacts(config.name, run, read.run_digest, guarantee, over)
    dtype = "<f4" if run.model.is_network else "<f8"
    path = config.journal.parent / "model.npz" if out is None else Path(out)
    try:
        facts = write_node_model(path, token, inputs, about, dtype)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InvalidInput.because("out", path, f"cannot be written: {error.strerror}") from None
    return NodeModel(
        file=str(path),
        facts=facts,
        hop=_hop_of(read),
        steps=read.terms.steps,
        over=over,
        digest=digest_of(token.parameters),
    )


def _hop_of(read: _Read) -> int:
    """Return the hop that a node's newest token has come to; of a run that ended early, that of its last update."""
    memory = read.journal.memory
    if memory.outcome is not None and memory.asked:
        return marks_of(memory.outcome.chain).bit_length()
    if memory.outcome is not None:
        return read.terms.steps  # the node may not have seen the last ones
    return min(memory.copy.hop, read.terms.steps)


def given_away(folder: str | Path, delta: float | None = None) -> GivenAway:
    """Return a node's account: epsilon of every other node's view of its data, and of the one that knows most."""
    read = _read(folder)
    config, roster, terms, account = read.config, read.roster, read.terms, read.account
    memory = read.journal.memory
    used = read.delta if delta is None else delta
    require_reach(terms, size_of(memory.copy.token.parameters), used)  # bytes: more than there are parameters
    # All of a node's units may change at once, in each of its releases.
    one = 2.0 * read.units / terms.noise_multiplier if terms.noise_multiplier else math.inf
    whole = gdp_epsilon(math.sqrt(account.releases) * one * ROUNDING if account.releases else 0.0, used)
    guarantee = model_guarantee(account, config.name, used, memory.outcome)
    if terms.protects != "node":
        together = guarantee.beside(ALL_OTHERS)
        assert together is not None
        guarantee = replace(guarantee, also=(*guarantee.also, replace(together, protects="node", epsilon=whole)))
    return GivenAway(
        node=config.name,
        run=read.run_digest,
        releases=account.releases,
        hop=_hop_of(read),
        steps=terms.steps,
        over=memory.outcome is not None,
        noise_multiplier=terms.noise_multiplier,
        guarantee=guarantee,
        parts=read.parts,
        worst_observer=roster.names[account.worst_observer] if math.isfinite(account.mu2) else None,
        budget=config.budget.epsilon,
        budget_delta=config.budget.delta,
        observers=_observers(read, used),
        notes=tuple(_notes(read)),
    )


def _observers(read: _Read, delta: float) -> tuple[KnownByObserver, ...]:
    """Return what each of the other nodes knows."""
    mu = np.sqrt(read.account.by_observer())
    turns = np.bincount(np.asarray(read.terms.path[: _hop_of(read)], dtype=np.int64), minlength=len(read.roster))
    return tuple(
        KnownByObserver(
            name=name, turns=int(turns[node]), mu=float(mu[node]), epsilon=gdp_epsilon(float(mu[node]), delta)
        )
        for node, name in enumerate(read.roster.names)
        if node != read.me
    )


def _notes(read: _Read) -> Iterator[str]:
    """Yield what there is to know of an account beside its numbers."""
    memory, names, terms = read.journal.memory, read.roster.names, read.terms
    if (silent := no_noise(read.run)) is not None:
        yield f"{silent[0].upper()}{silent[1:]}."
    if memory.promised[0] > 0:
        counts = (
            "counted is what others can have seen, by what all nodes have told after the end"
            if read.account.is_settled
            else "releases that others can have seen on two ways count in full"
        )
        yield f"There was a recovery (ballot {memory.promised[0]}): {counts}."
    if memory.outcome is not None and memory.asked:
        by = ", ".join(names[node] for node, _ in memory.asked)
        yield f"The run ended early at hop {_hop_of(read)} of {terms.steps}, by agreement of {by}."
    if memory.reminded:
        by = ", ".join(names[node] for node in memory.reminded)
        yield f"A part of the releases is not in its journal, but in tokens of {by}: they count in full."
    if not terms.convex:
        yield "Updates of this model are no contractions: each release counts in full."
    if read.config.data.path is None and (shared := not_covered(read.run)) is not None:
        yield f"Nodes share a data set: {shared}."
    if read.config.budget.ledger is not None:
        yield "This is one run; `skipring node ledger` tells of all, and the budget is for them together."
