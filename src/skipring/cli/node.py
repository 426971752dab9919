"""One node of a network: `skipring node run`, `node privacy`, `node ledger` and `node model`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._json import to_json
from .._numbers import upper_fixed
from ..errors import InvalidInput, require_delta
from ._output import Json, print_json, printable

if TYPE_CHECKING:
    from ..network import GivenAway, LifeAccount
    from ..privacy import Guarantee


def node_run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.toml", help="The node's settings (node.toml).")],
    verbose: Annotated[bool, typer.Option("--verbose", help="Log every update.")] = False,
    log: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="json or text (default: text on a terminal, else json).")
    ] = None,
) -> None:
    """Run one node in the foreground, until the run is over or it is told to stop.

    Logs go to standard error. SIGTERM or Ctrl-C: the node finishes its step, passes the token on and stops; started
    again, it goes on where it was. Exit code 0: over, or stopped; 1: it could not go on for now;
    2: settings, keys or data are wrong; 3: so is the journal, or the ledger. Only after 1 it helps to start it again.
    """
    if log not in (None, "json", "text"):
        raise InvalidInput("log", log, "json or text")
    from ..network import run_node  # loaded when the command runs

    sys.exit(run_node(config, verbose=verbose, json_logs=None if log is None else log == "json"))


def node_privacy(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of one node, or of an earlier run of it (runs/...).")
    ],
    delta: Annotated[
        float | None, typer.Option(help="The delta of the epsilons (default: of the node's budget, or of the run).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell from a node's journal alone what it has given away of its data, and to whom.

    The account holds against each other node by itself; it may be asked for while the node runs.
    """
    from ..network import given_away  # loaded when the command runs

    if delta is not None:
        require_delta(delta)
    found = given_away(folder, delta)
    if as_json:
        print_json(to_json(found))
        return
    _print(found)


def node_ledger(
    place: Annotated[
        Path, typer.Argument(metavar="DIR|FILE", help="The folder of one node (default: this one), or a ledger.")
    ] = Path(),
    delta: Annotated[
        float | None, typer.Option(help="The delta of the epsilons (default: of the node's budget, or of the runs).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Tell what all runs together have given away of one data set, from the ledger that its owner keeps.

    A node's settings name it ([budget] ledger = "FILE"). mu adds in squares: the observer who learned most in each run
    counts as one and the same. Exit code 3: the ledger is damaged, or an old copy.
    """
    from ..network import ExitCode, LedgerBroken, LedgerUnusable, life_account  # loaded when the command runs

    if delta is not None:
        require_delta(delta)
    try:
        found = life_account(place, delta)
    except LedgerUnusable as problem:
        sys.stderr.write(f"error: {printable(f'{problem.parameter} {problem.given}: {problem.reason}')}\n")
        sys.exit(ExitCode.JOURNAL)
    except LedgerBroken as problem:  # the machine fails, and no option is wrong
        sys.stderr.write(f"error: {printable(str(problem))}\n")
        sys.exit(ExitCode.FOR_NOW)
    if as_json:
        print_json(to_json(found))
        return
    _print_life(found)


def node_model(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The folder of one node, or of an earlier run of it (runs/...).")
    ],
    out: Annotated[Path | None, typer.Option(help="The file to write (default: model.npz in the folder).")] = None,
    as_json: Json = False,
) -> None:
    """Write the newest model that a node has, running or not, as a file for `skipring predict`.

    It is told from the node's journal. Its epsilons are this node's own, for its own data, and for what it has released
    so far. A model that is shown to an outsider before the run is over is one more look at all nodes' data.
    """
    from ..network import save_node_model  # loaded when the command runs

    found = save_node_model(folder, out)
    facts = found.facts
    if as_json:
        values = to_json(found)
        print_json(values.pop("facts") | values)
        return
    from rich.console import Console  # only where sentences are shown

    where = f"hop {found.hop} of {found.steps}"
    first = f"{found.file} is written: {facts.source}, at {where}, after {facts.updates} updates."
    second = f"SHA-256 of its parameters: {found.digest}"
    said = [first, second, *facts.guarantee.sentences()]
    Console(highlight=False, markup=False).print("\n".join(map(printable, said)))


def _print(found: GivenAway) -> None:
    from rich.console import Console  # only where a table is shown

    from ..report import plain_table

    console = Console(highlight=False, markup=False)
    console.print(
        f"Node {found.node}: {found.releases} updates released, hop {found.hop} of {found.steps}"
        f"{', run over' if found.over else ''}."
    )
    table = plain_table("observer", right=("its turns", "mu", "epsilon"))
    for one in found.observers:
        table.add_row(one.name, str(one.turns), upper_fixed(one.mu, 4), upper_fixed(one.epsilon, 4))
    console.print(table)
    budget = found.budget
    limit = "No budget was set." if budget is None else f"Budget: epsilon {budget:g} at delta {found.budget_delta:g}."
    console.print(f"\n{limit}", style="dim")
    for sentence in found.guarantee.sentences():
        console.print(printable(sentence), style="dim")
    for note in found.notes:
        console.print(note, style="dim")


def _fixed(stated: Guarantee) -> list[str]:
    """Return an epsilon, and that with each release in full, for a column of a table."""
    return ["-" if each.epsilon is None else upper_fixed(each.epsilon, 4) for each in (stated, *stated.also)]


def _print_life(found: LifeAccount) -> None:
    from rich.console import Console  # only where a table is shown

    from ..report import plain_table

    console = Console(highlight=False, markup=False)
    table = plain_table("run", "node", "from", "to", "protects", right=("updates", "epsilon", "in full"))
    table.padding = (0, 1, 0, 0)
    for run in found.runs:
        days = (time.strftime("%Y-%m-%d", time.gmtime(moment)) for moment in (run.began, run.updated))
        stated = run.guarantee
        about = (*days, stated.protects, str(run.updates))
        # The day and enough of the rest to tell two runs of a day apart; JSON has all of it.
        table.add_row(printable(run.run[:15]), printable(run.node), *about, *_fixed(stated))
    console.print(table)
    for total in found.totals:
        alone, in_full = _fixed(total.guarantee)
        less = f"the {total.left_out} runs that protect" if total.left_out > 1 else "the run that protects"
        console.print(
            f"\n{f'Without {less} less' if total.left_out else 'All runs together'}: epsilon"
            f" {alone}, each release in full {in_full}, over {total.updates} updates in"
            f" {total.runs} run{'' if total.runs == 1 else 's'}. Epsilon protects {total.guarantee.terms}."
        )
    for note in found.notes:
        console.print(note, style="dim")
