"""What is said beside the numbers of a run: whom they hide, what they do not cover, and rows that go to waste."""

from __future__ import annotations

from ..learning import Protection, is_of_numbers
from ..privacy import large_delta
from ..schedules import Laps
from .runfile import RunFile

#: Said of laps on a file or array whose features nobody has put on one scale.
_UNSCALED = (
    "features are not standardised, which would read all rows: give a schema with their ranges (skipring schema drafts "
    "one), or say data.standardise = true, which no epsilon covers"
)


def unsaid_data(run: RunFile) -> str | None:
    """Say which rows are taken where the run file names none; None where it does."""
    if run.data.path is not None or "name" in run.data.model_fields_set:
        return None
    return f"the file names no data (data.path, data.name), so these are rows for tries: {run.data.name}"


def no_noise(run: RunFile) -> str | None:
    """Say so where a run file asks for no noise, which hides nothing; None where there is some."""
    if run.privacy.noise_multiplier != 0.0:
        return None
    return "there is no noise (privacy.noise_multiplier = 0), so nothing is protected: for tries only"


def not_covered(run: RunFile) -> str | None:
    """Say what a simulation reads off all nodes' rows, which no epsilon covers; None if nothing.

    Nodes with files of their own read nothing off each other's rows.
    """
    read = []
    if run.standardises:
        read.append("features are standardised by the mean and deviation of all nodes' rows (data.standardise)")
    agreed = run.is_published or run.model.classes is not None or run.model.label_bound is not None
    if not agreed and not is_of_numbers(run.model.name):
        read.append("classes are read off all nodes' labels (model.classes)")
    if run.privacy.protects != "node" and run.data.split in ("dirichlet", "dirichlet-even", "shards"):
        read.append("labels decide which node a row is dealt to (data.split)")
    return f"{', and '.join(read)}, which no epsilon covers" if read else None


def not_covered_in_simulations(run: RunFile, *, foreseeable: bool) -> str:
    """Say what no epsilon of a simulation covers; `foreseeable`: its noise follows from the seed."""
    said = [
        not_covered(run),
        "no epsilon covers the test errors of tokens on their way, nor several runs on the same rows",
    ]
    if foreseeable:
        said.append(
            "the noise follows from simulation.seed, which takes it off: hand on no model of these runs, but one of"
            " simulate --save-model"
        )
    return "; ".join(words for words in said if words)


def turns_per_node(nodes: int, steps: int, *, iterations: bool = False) -> int:
    """Return how many turns a node has, skipped ones included: at most on a ring, on average on a random walk.

    Without a token every node has one in each of the `iterations`.
    """
    return steps if iterations else -(-steps // nodes)


def delta_notes(run: RunFile, units: int, *, at_least: bool = False, own_delta: float | None = None) -> tuple[str, ...]:
    """Warn of a delta above one over the (least) number of what is protected; nothing where there is no noise to judge.

    `own_delta` is what a node's owner has chosen in place of what is agreed on.
    """
    delta, key = (run.privacy.delta, "privacy.delta") if own_delta is None else (own_delta, "budget.delta")
    found = large_delta(delta, run.privacy.protects, units, at_least=at_least)
    return () if found is None or run.privacy.noise_multiplier == 0.0 else (f"{found} ({key})",)


def laps_notes(run: RunFile, laps: Laps | None) -> tuple[str, ...]:
    """Say where laps may be local releases, what else may surprise, and which keys they do not use."""
    if laps is None:
        return ()
    notes = [] if laps.alone is None else [laps.alone]
    if run.takes_ranges and not run.is_published:
        notes.append(_UNSCALED)
    unused = [f"learning.{key}" for key in ("rate", "step_size", "own") if key in run.learning.model_fields_set]
    if unused:
        notes.append(f"laps do not use {' and '.join(unused)}; laps.rate is for those that learn by gradients")
    return tuple(notes)


def rows_notes(protection: Protection, units: int, turns: int, *, largest: bool = True) -> tuple[str, ...]:
    """Say where an update is divided by more rows than any node has, and where some rows are never used.

    `units` is how many records or persons a node has for training. The node is the largest one, or else the one that is
    spoken to, for which it does not matter that others may have more.
    """
    batch, notes = protection.batch, []
    if protection.unit == "node" or batch is None:
        return ()
    whose = "the largest node" if largest else "this node"
    if largest and batch > (rows := units * protection.rows_of_one):
        most = f"{rows} training rows" if protection.unit == "record" else f"{units} persons, so at most {rows} rows"
        notes.append(
            f"no node has learning.batch = {batch} rows: {whose} has {most}, and every sum is divided by {batch}"
            " all the same"
        )
    if (parts := protection.parts(units)) > turns:
        notes.append(
            f"some rows are never used: {whose} deals its rows into {parts} parts, one for each turn, and has {turns}"
            f" {'turn' if turns == 1 else 'turns'}; take a larger learning.batch, or more schedule.steps"
        )
    return tuple(notes)
