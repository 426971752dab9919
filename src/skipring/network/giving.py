"""What a node has given away, told from its journal alone: for its owner, with the node running or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidInput
from ..privacy import OwnTranscript, Relation, Unit, gdp_epsilon, promised
from ..runs import no_noise, not_covered, read_run_file
from .chain import updated_between, updated_hops
from .config import read_node_config
from .journal_file import read_journal
from .ledger import AccountTerms, account_of
from .model_file import size_of
from .roster import read_roster
from .setup import require_reach, terms_of

#: What gives back all that rounding may take away.
_UP = 1.0 + 1e-9

__all__ = ["GivenAway", "KnownByObserver", "given_away"]


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

    `epsilon` is that of the observer who knows most (`worst_observer`; None where everything counts in full), and
    `epsilon_of_releases` with each release in full. `budget` is None if the node has none. `unit` is what all of them
    hide (replace-one) by which `method` against which `view`, `parts` how many parts the node's rows rotate through,
    and `node_epsilon` what holds for all data of the node together. `final_epsilon` is for somebody outside who is
    shown the final model and nothing else; None before there is one.
    """

    node: str
    run: str
    releases: int
    hop: int
    steps: int
    over: bool
    delta: float
    noise_multiplier: float
    epsilon: float
    epsilon_of_releases: float
    worst_observer: str | None
    budget: float | None
    observers: tuple[KnownByObserver, ...]
    notes: tuple[str, ...]
    unit: Unit = "node"
    relation: Relation = "replace-one"
    method: str = "own account"
    view: str = "offered"
    parts: int = 1
    node_epsilon: float | None = None
    final_epsilon: float | None = None


def given_away(folder: str | Path, delta: float | None = None) -> GivenAway:
    """Return a node's account: epsilon of every other node's view of its data, and of the one that knows most."""
    folder = Path(folder)
    if not (folder / "node.toml").is_file():
        raise InvalidInput.because("DIR", folder, "is not the folder of a node: there is no node.toml in it")
    config = read_node_config(folder / "node.toml")
    roster = read_roster(folder / "roster.toml")
    if config.run is None:
        raise InvalidInput.because("DIR", folder, "its node.toml says no run")
    run = read_run_file(config.run)
    me = roster.index(config.name)
    if not config.journal.exists():
        raise InvalidInput.because("DIR", folder, "has no journal: the node has not run yet, and given nothing away")
    reading = read_journal(config.journal, node=config.name)
    known = reading.run_digest.split()
    parts, units = (int(known[2]), int(known[3])) if len(known) > 3 else (1, 1)
    terms = terms_of(run, config.run, roster, me, parts=parts)
    if known[1:2] != [terms.digest]:
        reason = f"is not the run file of {config.journal.name}: noise, steps, order or model differ"
        raise InvalidInput.because("FILE", config.run, reason)
    account = account_of(terms, (entry for _, entry in reading.entries))
    memory = reading.memory
    given_delta = config.budget.delta if config.budget.delta is not None else run.privacy.delta
    used = given_delta if delta is None else delta
    require_reach(terms, size_of(memory.copy.token.parameters), used)  # bytes: more than there are parameters
    mu = np.sqrt(account.by_observer())
    turns = np.bincount(np.asarray(terms.path[: memory.copy.hop], dtype=np.int64), minlength=len(roster))
    others = [node for node in range(len(roster)) if node != me]
    notes = [] if (silent := no_noise(run)) is None else [f"{silent[0].upper()}{silent[1:]}."]
    if memory.promised[0] > 0:
        notes.append(
            f"There was a recovery (ballot {memory.promised[0]}): releases before the node heard of it count in full."
        )
    if not terms.convex:
        notes.append("Updates of this model are no contractions: each release counts in full.")
    # All of a node's units may change at once, in each of its releases.
    one = 2.0 * units / terms.noise_multiplier if terms.noise_multiplier else math.inf
    whole = gdp_epsilon(math.sqrt(account.releases) * one * _UP if account.releases else 0.0, used)
    if terms.protects != "node":
        notes.append(f"Epsilon, whole node, each release in full: {promised(whole)}.")
    if config.data.path is None and (shared := not_covered(run)) is not None:
        notes.append(f"Nodes share a data set: {shared}.")
    return GivenAway(
        node=config.name,
        run=reading.run_digest.split()[0],
        releases=account.releases,
        hop=min(memory.copy.hop, terms.steps),
        steps=terms.steps,
        over=memory.outcome is not None,
        delta=used,
        noise_multiplier=terms.noise_multiplier,
        unit=account.claim.unit,
        relation=account.claim.relation,
        method=account.claim.method,
        view=account.claim.view,
        parts=parts,
        node_epsilon=None if terms.protects == "node" else whole,
        final_epsilon=None if memory.outcome is None else gdp_epsilon(_final_mu(terms, memory.outcome.chain), used),
        epsilon=account.epsilon(used),
        epsilon_of_releases=account.epsilon_of_releases(used),
        worst_observer=roster.names[account.worst_observer] if math.isfinite(account.mu2) else None,
        budget=config.budget.epsilon,
        observers=tuple(
            KnownByObserver(
                name=roster.names[node],
                turns=int(turns[node]),
                mu=float(mu[node]),
                epsilon=gdp_epsilon(float(mu[node]), used),
            )
            for node in others
        ),
        notes=tuple(notes),
    )


def _final_mu(terms: AccountTerms, chain: bytes) -> float:
    """Return what the final model alone tells of this node: all noise on its way hides each of its updates."""
    # An observer that is never sent the token but at the end: a number that no node has.
    if not terms.noise_multiplier:
        own = (hop for hop in updated_hops(chain) if terms.path[hop - 1] == terms.me)
        return 0.0 if next(own, None) is None else math.inf
    outsider = terms.nodes
    run = OwnTranscript(terms.nodes + 1, terms.me, convex=terms.convex, parts=terms.parts, protects=terms.protects)
    sizes = iter(np.asarray(terms.step_sizes).tolist())
    turn = 0
    for node, updated in zip(terms.path, updated_between(chain, 1, terms.steps), strict=True):
        part = turn % terms.parts if node == terms.me else None
        turn += node == terms.me
        if updated:
            run.update(node, step_size=next(sizes), noise_multiplier=terms.noise_multiplier, part=part)
    return math.sqrt(float(run.mu2_by_observer()[outsider]))
