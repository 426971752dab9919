"""What a node has given away, told from its journal alone: for its owner, with the node running or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..errors import InvalidInput
from ..privacy import gdp_epsilon
from ..runs import read_run_file
from .config import read_node_config
from .journal_file import read_journal
from .ledger import account_of
from .model_file import size_of
from .roster import read_roster
from .setup import require_reach, terms_of

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
    `epsilon_of_releases` with each release in full. `budget` is None if the node has none.
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
    terms = terms_of(run, config.run, roster, me)
    if not config.journal.exists():
        raise InvalidInput.because("DIR", folder, "has no journal: the node has not run yet, and given nothing away")
    reading = read_journal(config.journal, node=config.name)
    if reading.run_digest.split()[1:] != [terms.digest]:
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
    notes = []
    if memory.promised[0] > 0:
        notes.append(
            f"There was a recovery (ballot {memory.promised[0]}): releases before the node heard of it count in full."
        )
    if not terms.convex:
        notes.append("Updates of this model are no contractions: each release counts in full.")
    return GivenAway(
        node=config.name,
        run=reading.run_digest.split()[0],
        releases=account.releases,
        hop=min(memory.copy.hop, terms.steps),
        steps=terms.steps,
        over=memory.outcome is not None,
        delta=used,
        noise_multiplier=terms.noise_multiplier,
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
