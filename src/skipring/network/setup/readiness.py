"""Whether a node would start: what `skipring node run` reads before it begins is read, and nothing is begun."""

from __future__ import annotations

import math
from pathlib import Path

from ...errors import InvalidInput
from ...privacy import gdp_epsilon, promised
from ...runs import RunFile, no_noise, read_run_file
from ..node import NodeSetup, OwnAccount, known_of, no_budget, read_node_config, willing
from ..storage import JournalError, ModelFile
from .agreed import short_timeout
from .agreed_values import agreement_of
from .giving import given_away
from .load import load_node, require_journal
from .local import read_network


def why_not_started(folder: str | Path) -> str:
    """Say why a node would not start with its run, data, model, journal and ledger; nothing if it would."""
    try:
        setup = load_node(Path(folder) / "node.toml")
        if isinstance(setup.initial.parameters, ModelFile):
            setup.initial.parameters.discard()
        require_journal(setup)
        if setup.ledger is not None:
            setup.ledger.require()
        if (problem := no_room(setup)) is not None:
            return str(problem)
    except (InvalidInput, JournalError) as problem:
        return str(problem)
    return ""


def no_room(setup: NodeSetup) -> InvalidInput | None:
    """Say so where a budget has no room for one update, and the node has made none: it would never take part."""
    budget, terms = setup.config.budget, setup.terms
    if budget.epsilon is None or budget.delta is None or setup.me not in terms.path or _has_updated(setup):
        return None
    records = () if setup.ledger is None or not setup.ledger.path.exists() else setup.ledger.read()
    in_full = budget.count == "releases"
    spent = math.fsum(record.in_full for record in records) if in_full else math.fsum(known_of(records))
    account, hop = OwnAccount(terms), terms.path.index(setup.me) + 1
    if willing(account, budget, None, hop, before=spent):
        return None
    costs = gdp_epsilon(math.sqrt(spent + account.plain_mu2_after(hop)), budget.delta)
    earlier = "with what the ledger has, " if spent else ""
    reason = (
        f"has no room for one update ({earlier}epsilon would be {promised(costs)} at delta {budget.delta:g}): this node"
        " would refuse all of its turns; agree on more noise, or allow more"
    )
    return InvalidInput.because("budget.epsilon", budget.epsilon, reason)


def _has_updated(setup: NodeSetup) -> bool:
    config = setup.config
    return config.journal.exists() and given_away(setup.folder).releases > 0


def differing_runs(folder: str | Path) -> dict[str, str]:
    """Say of the nodes of a network whose run file is not that of the network where it differs."""
    folder = Path(folder)
    path = folder / "run.toml"
    if not path.is_file():
        return {}
    roster, configs = read_network(folder)
    ours, found = agreement_of(read_run_file(path), roster, {}), {}
    for config in configs:
        theirs = ours if config.run is None else agreement_of(read_run_file(config.run), roster, {})
        if keys := ours.differing(theirs.marks):
            found[config.name] = f"run.toml differs from the network's: {ours.compared(theirs.shown(keys))}"
    return found


def run_notes(folder: str | Path) -> tuple[str, ...]:
    """Return what a reader of a network's folder, or a node's, has to be told of its run."""
    run = _run_of(folder)
    return () if run is None else tuple(said for said in (no_noise(run), short_timeout(run)) if said is not None)


def budget_notes(folder: str | Path) -> tuple[str, ...]:
    """Say which nodes of a network's folder, or whether that of a node's, give away without a limit."""
    folder, run = Path(folder), _run_of(folder)
    if run is not None and no_noise(run) is not None:
        return ()  # there is nothing to limit
    alone = (folder / "node.toml").exists()
    configs = [read_node_config(folder / "node.toml")] if alone else read_network(folder)[1]
    unlimited = [config.name for config in configs if config.budget.epsilon is None]
    return (no_budget(unlimited),) if unlimited else ()


def _run_of(folder: str | Path) -> RunFile | None:
    """Return the run of a folder; None where there is none, or it cannot be read: what is wrong is said elsewhere."""
    path = Path(folder) / "run.toml"
    try:
        return read_run_file(path) if path.is_file() else None
    except InvalidInput:
        return None
