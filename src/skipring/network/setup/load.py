"""From a node's settings to what it needs to run: the agreed run, its data, its keys, its account."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from ..._function import function_of
from ...delays import parse_delay
from ...errors import InvalidInput
from ...learning import Learner
from ...runs import RunFile, delta_notes, no_noise, not_covered, read_run_file, rows_notes, step_sizes_of
from ...schedules import schedule_kind
from ..node import (
    OLD_JOURNAL,
    RESULT,
    STOPPED,
    AccountTerms,
    NodeConfig,
    NodeSetup,
    is_old,
    make_learner,
    no_budget,
    read_node_config,
    require_ssh,
    unreached,
)
from ..protocol import Gone, Heard, Kind, Memory, Passing, Rules, Token, blank_chain
from ..storage import (
    JournalFile,
    JournalUnusable,
    LedgerFile,
    ModelFile,
    digest_of,
    read_journal,
    size_of,
    store_parameters,
    sum_journal,
)
from ..transport import CERTIFICATE, Keys, Roster, read_roster
from .agreed import resolved_run
from .agreed_order import RunOrder, order_of
from .agreed_values import agreement_of, quorum_of, require_network_run
from .checks import check_node
from .hooks import admit_hooks
from .run_mark import RunMark, require_identity

#: What the ends of the noise may add to delta, as a share of it.
_UNSEEN = 1e-9
#: A step's noise is at least this many times the spacing of the numbers that it is added to.
_GRAINS = 1024
_FIRST_TIMEOUT = 2.0  # before anything was learned
_WRITTEN = "`skipring network init --run` writes it down for all nodes"
_SLOWEST = 2e7  # bytes per second that any link, disk and processor should manage: how long a large model may take


def load_node(path: str | Path) -> NodeSetup:
    """Read a node's settings and all that they refer to; one line says what is wrong."""
    path = Path(path)
    config = read_node_config(path)
    folder = path.absolute().parent
    roster = read_roster(folder / "roster.toml")
    me = roster.index(config.name)
    if config.run is None:
        raise InvalidInput.because("FILE", path, 'says no run; add: run = "run.toml"')
    run = read_run_file(config.run)
    admit_hooks(folder, config, run)
    require_network_run(run, len(roster))
    quorum_of(run, roster.names)  # refused before any data is looked for
    require_identity(run.network.identity, config.run)
    problems = check_node(folder, expected=config.name).problems
    if problems:  # others would only hang up on it
        raise InvalidInput.because("DIR", folder, problems[0])
    if config.relay is not None:
        require_ssh()
    terms = terms_of(run, config.run, roster, me, parts=1)  # before any data is looked for
    rng = np.random.default_rng()
    learner, inputs = make_learner(run, index=me, nodes=len(roster), name=config.name, data=config.data, rng=rng)
    terms = dataclasses.replace(terms, parts=learner.parts)
    initial = store_parameters(
        np.ascontiguousarray(learner.initial(), dtype=learner.dtype), Path(f"{config.journal}-models")
    )
    delta = run.privacy.delta if config.budget.delta is None else config.budget.delta
    require_reach(terms, math.prod(learner.shape), delta)
    require_grain(terms, learner)
    agreement = agreement_of(run, roster, _computed(run, terms, learner, digest_of(initial)))
    if learner.name != run.model.name or learner.contracts(step_sizes_of(run).largest) != terms.convex:
        raise InvalidInput.because("model.name", run.model.name, f"the data asks for {learner.name}")
    rules = _rules(run, config.run, roster, terms, size_of(initial))
    return NodeSetup(
        name=config.name,
        me=me,
        config=config,
        roster=roster,
        run=run,
        keys=Keys.read(folder),
        learner=learner,
        agreement=agreement,
        rules=rules,
        terms=terms,
        initial=Token(0, initial, blank_chain(rules.steps, agreement.digest)),
        delay=None if config.delay.law is None else parse_delay(config.delay.law),
        compute=None if config.delay.compute is None else parse_delay(config.delay.compute),
        prepare_rows=None if config.data.prepare is None else function_of("data.prepare", config.data.prepare),
        inputs=inputs,
        home=folder,
        ledger=None if config.budget.ledger is None else LedgerFile(config.budget.ledger, heads=folder),
        not_covered=not_covered(run) if config.data.path is None else None,
        notes=_notes(config, run, learner, terms),
    )


def _rules(run: RunFile, path: Path, roster: Roster, terms: AccountTerms, size: int) -> Rules:
    """Return what the protocol is told; a model of that `size` takes its time on the way."""
    quorum, needed = quorum_of(run, roster.names)
    return Rules(
        nodes=len(roster),
        path=terms.path,
        timeout=_FIRST_TIMEOUT if run.delay.timeout == "adaptive" else _timeout(run, path),
        lease=run.network.lease + 2.0 * size / _SLOWEST,
        silence=run.network.silence + 4.0 * size / _SLOWEST,
        quorum=quorum,
        needed=needed,
        names=roster.names,
    )


def _computed(run: RunFile, terms: AccountTerms, learner: Learner, initial: str) -> dict[str, Any]:
    """Return what nodes compute from what they agreed on, and must not differ in; `initial` is the model's digest."""
    values = {
        "model.dtype": np.dtype(learner.dtype).str,
        "model.shape": list(learner.shape),
        "model.radius": learner.radius if math.isfinite(learner.radius) else None,
        "model.bound": learner.gradient_bound,
        "model.initial": initial,
    }
    if schedule_kind(run.schedule.name).order_is_known:  # one that is drawn follows from the seed alone
        values["schedule.order"] = RunOrder(tuple(terms.path), terms.closing).digest
    return values


def _notes(config: NodeConfig, run: RunFile, learner: Learner, terms: AccountTerms) -> tuple[str, ...]:
    """Return what the owner should know from the start; a node knows of no rows but its own."""
    units = terms.nodes if run.privacy.protects == "node" else learner.all_units
    return (
        *_limits(config, no_noise(run)),
        *rows_notes(learner.protection, learner.all_units, terms.path.count(terms.me), largest=False),
        *delta_notes(run, units, own_delta=config.budget.delta),
    )


def _limits(config: NodeConfig, silent: str | None) -> tuple[str, ...]:
    """Say that nothing is protected, or that nothing limits what is given away."""
    if silent is not None:
        return (silent,)
    return () if config.budget.epsilon is not None else (no_budget([config.name]),)


def require_reach(terms: AccountTerms, parameters: int, delta: float) -> None:
    """Refuse so little noise, or so small a delta, that the ends of the noise would show (see `unreached`)."""
    if terms.noise_multiplier == 0.0:  # there are no ends, and nothing to hide behind
        return
    sizes = np.asarray(terms.step_sizes)
    rise = float(np.max(sizes / np.minimum.accumulate(sizes)))
    added = unreached(terms.noise_multiplier, float(parameters) * terms.steps, rise)
    if not added <= _UNSEEN * delta:
        reason = (
            f"with {parameters} parameters and {terms.steps} steps, the ends of the noise add up to {added:.1g} to"
            f" delta = {delta:g}; take more noise, or a larger delta"
        )
        raise InvalidInput.because("privacy.noise_multiplier", terms.noise_multiplier, reason)


def require_grain(terms: AccountTerms, learner: Learner) -> None:
    """Refuse noise that rounding of the parameters would swallow, where others' noise is what hides an update.

    A node's own release is safe: rounding comes after its noise. But noise of others that is below the spacing of
    numbers as large as the parameters may be is rounded away, and hides nothing.
    """
    if not terms.convex or terms.noise_multiplier == 0.0:
        return
    sizes = np.asarray(terms.step_sizes)
    std = learner.noise_std(terms.noise_multiplier)
    reach = learner.radius
    if not math.isfinite(reach):  # no further than all steps together, with noise far beyond what is ever drawn
        reach = float(sizes.sum()) * (learner.gradient_bound + 40.0 * std * math.sqrt(math.prod(learner.shape)))
    grain = float(np.spacing(learner.dtype.type(reach)))
    if not float(sizes.min()) * std >= _GRAINS * grain:
        reason = (
            f"noise of {float(sizes.min()) * std:.2g} per step is lost in parameters up to {reach:g}, which are stored"
            f" in steps of {grain:.2g}; take larger steps, or a larger gradient bound"
        )
        raise InvalidInput.because("learning.rate", f"{float(sizes.min()):g} at the least", reason)


def terms_of(run: RunFile, path: Path, roster: Roster, me: int, *, parts: int) -> AccountTerms:
    """Return what decides the cost of a node's updates: the run file, the roster and the parts of its own rows."""
    steps, noise = run.schedule.steps, run.privacy.noise_multiplier
    for key, value in (("schedule.steps", steps), ("privacy.noise_multiplier", noise), ("model.name", run.model.name)):
        if value is None:  # nodes that each computed it might not agree
            raise InvalidInput.because(key, "missing", f"in {path}; {_WRITTEN}")
    resolved = resolved_run(run, len(roster))
    assert resolved.noise_multiplier is not None
    order = order_of(run, resolved.nodes, resolved.steps)
    return AccountTerms(
        nodes=resolved.nodes,
        me=me,
        path=order.path,
        closing=order.closing,
        step_sizes=resolved.step_sizes.first(len(order.path)),
        noise_multiplier=resolved.noise_multiplier,
        convex=resolved.convex,
        protects=run.privacy.protects,
        parts=parts,
    )


def _timeout(run: RunFile, path: Path) -> float:
    timeout = run.delay.timeout
    if not isinstance(timeout, float | int) or not 0.0 < timeout < math.inf:
        raise InvalidInput("delay.timeout", timeout, f'a time, or "adaptive", in {path}; {_WRITTEN}')
    return float(timeout)


def own_rows_of(learner: Learner) -> tuple[str, ...]:
    """Return what a journal keeps of a node's rows: parts, units per update, units, and a digest of rows and parts.

    With other rows, or the same in another order, a unit could come into another part in the middle of a run, and be
    used more often than is counted. Such a journal is refused. It is the owner's own file, and never sent.
    """
    if learner.protection.unit == "node":
        return ()
    return str(learner.parts), str(learner.units), str(learner.all_units), learner.rows_digest


def _run_mark(setup: NodeSetup) -> RunMark:
    agreement, identity = setup.agreement.digest.hex(), setup.run.network.identity
    return RunMark(agreement, setup.terms.digest, own_rows_of(setup.learner), identity, setup.agreement.marks)


def require_journal(setup: NodeSetup) -> None:
    """Refuse a journal that the node could not go on with, without opening it, and say which run it is of."""
    if not setup.config.journal.exists():
        return
    path, now = setup.config.journal, _run_mark(setup)
    journal = sum_journal(path, node=setup.name)
    before = RunMark.parse(journal.run_digest)
    if before == now:
        _require_newest(setup, journal.memory)
        return
    if _was_never_used(setup):
        return
    if before.identity != now.identity:
        reason = f"is of {before.name}, not of {now.name}; `skipring network new-run` puts it away"
        raise JournalUnusable.because("journal", path, reason)
    if (before.agreement, before.terms) != (now.agreement, now.terms):
        reason = f"{now.changed_since(before)} since it began; put back what was agreed then"
        raise JournalUnusable.because("journal", path, reason)
    unit = setup.learner.protection.unit
    given = f"{now.rows[2]} {unit}s" if before.rows[2:3] != now.rows[2:3] else "other rows, or another order of them"
    reason = (
        f"the run began with {before.rows[2]} {unit}s as they were then; else one might be used more often than counted"
    )
    raise InvalidInput.because("data", given, reason)


def _require_newest(setup: NodeSetup, memory: Memory) -> None:
    """Refuse a journal that is an old copy, before others are called: its node would take back what it has said."""
    if memory.outcome is None and is_old(memory):
        reason = (
            f"{OLD_JOURNAL}; this node takes no further part in this run, `skipring network new-run` begins another"
        )
        raise JournalUnusable.because("journal", setup.config.journal, reason)


def open_journal(setup: NodeSetup) -> JournalFile:
    """Return the node's journal: a new one, or the one that it left."""
    digest = _run_mark(setup).text
    if setup.config.journal.exists():
        if isinstance(setup.initial.parameters, ModelFile):
            setup.initial.parameters.discard()  # the journal has it
        try:
            journal = JournalFile.open(setup.config.journal, node=setup.name, run_digest=digest)
        except JournalUnusable:
            if _was_never_used(setup):
                return _create(setup, digest)
            require_journal(setup)  # which may know more about it
            raise
        try:
            _require_newest(setup, journal.memory)
        except JournalUnusable:
            journal.close()
            raise
        return journal
    return _create(setup, digest)


def _create(setup: NodeSetup, digest: str) -> JournalFile:
    """Make the journal of a new run, in place of one that was never used."""
    for name in ("model.npy", "model.npz", CERTIFICATE, RESULT, STOPPED):  # of an earlier run
        (setup.config.journal.parent / name).unlink(missing_ok=True)
    initial = setup.initial
    if setup.config.journal.exists():
        for path in setup.config.journal.parent.glob(f"{setup.config.journal.name}*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        first = np.ascontiguousarray(setup.learner.initial(), dtype=setup.learner.dtype)
        initial = dataclasses.replace(initial, parameters=store_parameters(first, setup.models))
    blank = Memory.blank(setup.rules.path[0], initial)
    return JournalFile.create(setup.config.journal, node=setup.name, run_digest=digest, blank=blank)


def _was_never_used(setup: NodeSetup) -> bool:
    """Say whether the journal is of another agreement, under which the node took no token and released nothing.

    So it is after a node was started with a wrong run file: nobody has listened to it, so that it can begin anew.
    """
    journal = sum_journal(setup.config.journal, node=setup.name)
    if RunMark.parse(journal.run_digest).agreement == setup.agreement.digest.hex():
        return False
    if journal.memory.copy.kind is not Kind.INITIAL:
        return False
    reading = read_journal(setup.config.journal, node=setup.name)  # it has come to nothing yet, so there are few
    return all(isinstance(entry, Heard | Passing | Gone) for _, entry in reading.entries)
