"""One node of a network: `skipring node run`, `status`, `finish`, `privacy`, `ledger` and `model`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._command import command
from .._json import to_json
from .._numbers import upper_fixed
from ..errors import InvalidInput, require_delta
from ._nodes_view import OthersNodes, facts_of, show_status
from ._options import NodeFolder
from ._output import Json, print_json, printable, show, tell

if TYPE_CHECKING:
    from ..network import GivenAway, LifeAccount, NodeConfig
    from ..privacy import Guarantee


_TAKEN_UP = 5.0  # seconds in which a node that runs has taken it up

PastFolder = Annotated[
    Path, typer.Argument(metavar="DIR", help="The folder of one node, or of an earlier run of it (runs/...).")
]


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


def _config_of(folder: Path, for_all: str) -> NodeConfig:
    """Return a node's settings; refuse a folder that is not a node's, and say which command is for all nodes."""
    from ..network import is_node_folder, read_node_config

    if not is_node_folder(folder):
        reason = f"is not the folder of a node; for all nodes of a network here: {for_all}"
        raise InvalidInput.because("DIR", folder, reason)
    return read_node_config(folder / "node.toml")


def node_status(folder: NodeFolder, as_json: Json = False) -> None:
    """Show how one node on this machine is doing, as far as it knows."""
    config = _config_of(folder, "skipring network status DIR")
    nodes = OthersNodes([(folder, config)])
    (state,) = nodes.look()
    nodes.tell_of_others()
    if as_json:
        print_json(facts_of(state))
    elif state.status is not None:
        show_status([(folder, config)], nodes, None)
    elif state.running:
        tell(f'{state.name} runs, but shows nothing: set metrics = "127.0.0.1:8600" in node.toml, and start it again.')
    else:
        run = command("node", "run", folder / "node.toml")
        tell(f"{state.name} does not run here, and has not ended.\nNext:\n  {run}")


def node_finish(folder: NodeFolder, as_json: Json = False) -> None:
    """Ask for the run to end where it is: the node signs it, and tells all; with a majority of nodes the run ends.

    All get the model as it is then, with the votes for it. It cannot be taken back. A node that does not run asks when
    it is started again.
    """
    from ..network import ask_to_finish, node_status, running_pid

    config = _config_of(folder, "skipring network stop DIR --finish")
    asked, status = ask_to_finish(config), None
    running = running_pid(config) is not None
    deadline = time.monotonic() + _TAKEN_UP
    while asked and running and time.monotonic() < deadline:
        status = node_status(config) or status
        if status is not None and (config.name in status.finishing or status.over):
            break
        time.sleep(0.1)
    if as_json:
        found = {"node": config.name, "over": not asked, "running": running, "finishing": None, "majority": None}
        known = {} if status is None else {"finishing": list(status.finishing), "majority": status.majority}
        print_json(found | known)
    elif not asked:
        tell(f"The run is over already: see {folder / 'result.json'}.")
    elif not running:
        tell(f"{config.name} does not run: it asks for the end of the run when it is started again.")
    elif status is not None and status.asked_to_finish is not None and config.name in status.finishing:
        tell(f"{config.name} has asked for the end of the run.\n{status.asked_to_finish}.")
    else:  # it waits for others to begin, shows no status, or ends just now
        tell(f"{config.name} is told, and asks for the end of the run as soon as it takes part in it.")


def node_privacy(
    folder: PastFolder,
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
    folder: PastFolder,
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
    where = f"hop {found.hop} of {found.steps}"
    first = f"{found.file} is written: {facts.source}, at {where}, after {facts.updates} updates."
    second = f"SHA-256 of its parameters: {found.digest}"
    show(*map(printable, (first, second, *facts.guarantee.sentences())))


def _print(found: GivenAway) -> None:
    from ..report import plain_table

    over = ", run over" if found.over else ""
    table = plain_table("observer", right=("its turns", "mu", "epsilon"))
    for one in found.observers:
        table.add_row(one.name, str(one.turns), upper_fixed(one.mu, 4), upper_fixed(one.epsilon, 4))
    budget = found.budget
    limit = "No budget was set." if budget is None else f"Budget: epsilon {budget:g} at delta {found.budget_delta:g}."
    notes = [f"\n{limit}", *map(printable, found.guarantee.sentences()), *found.notes]
    head = f"Node {found.node}: {found.releases} updates released, hop {found.hop} of {found.steps}{over}."
    show(head, table, note="\n".join(notes))


def _fixed(stated: Guarantee) -> list[str]:
    """Return an epsilon, and that with each release in full, for a column of a table."""
    return ["-" if each.epsilon is None else upper_fixed(each.epsilon, 4) for each in (stated, *stated.also)]


def _print_life(found: LifeAccount) -> None:
    from ..report import plain_table

    table = plain_table("run", "node", "from", "to", "protects", right=("updates", "epsilon", "in full"))
    table.padding = (0, 1, 0, 0)
    for run in found.runs:
        days = (time.strftime("%Y-%m-%d", time.gmtime(moment)) for moment in (run.began, run.updated))
        stated = run.guarantee
        about = (*days, stated.protects, str(run.updates))
        # The day and enough of the rest to tell two runs of a day apart; JSON has all of it.
        table.add_row(printable(run.run[:15]), printable(run.node), *about, *_fixed(stated))
    totals = []
    for total in found.totals:
        alone, in_full = _fixed(total.guarantee)
        less = f"the {total.left_out} runs that protect" if total.left_out > 1 else "the run that protects"
        totals.append(
            f"\n{f'Without {less} less' if total.left_out else 'All runs together'}: epsilon"
            f" {alone}, each release in full {in_full}, over {total.updates} updates in"
            f" {total.runs} run{'' if total.runs == 1 else 's'}. Epsilon protects {total.guarantee.terms}."
        )
    show(table, *totals, note="\n".join(found.notes))
