"""How nodes on this machine are doing: `network status` for all of a network, `node status` for one."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._command import command
from ..errors import InvalidInput
from ._nodes_view import Row, asked_by, furthest, meaning, newest_of, numbers_of, table_of, tell_lives, tell_refusals
from ._output import Json, print_json, sentence, tell

if TYPE_CHECKING:
    from ..network import NodeConfig, NodeState, NodeStatus

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The network's folder (skipring network init).")]


def network_status(folder: Folder, as_json: Json = False) -> None:
    """Show how the nodes on this machine are doing."""
    from ..network import read_network

    roster, configs = read_network(folder)
    seen = [(folder / config.name, config) for config in configs]
    states, results = _looked_at(seen)
    if as_json:
        nodes = [
            {"name": state.name, "running": state.running, "status": result}
            for state, result in zip(states, results, strict=True)
        ]
        print_json({"folder": str(folder), "nodes": nodes})
    elif any(results):
        _show(roster.names, seen, states, results, folder)
    else:
        up = command("network", "up", folder)
        tell(f"None of the {len(roster)} nodes runs here, and none has ended.\nNext:\n  {up}")


def node_status(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of one node.")], as_json: Json = False
) -> None:
    """Show how one node on this machine is doing, as far as it knows."""
    from ..network import is_node_folder, read_node_config, read_roster

    if not is_node_folder(folder):
        reason = "is not the folder of a node; for all nodes of a network here: skipring network status DIR"
        raise InvalidInput.because("DIR", folder, reason)
    config = read_node_config(folder / "node.toml")
    (state,), (result,) = _looked_at([(folder, config)])
    if as_json:
        print_json({"name": state.name, "running": state.running, "status": result})
    elif result is not None:
        _show(read_roster(folder / "roster.toml").names, [(folder, config)], [state], [result], None)
    elif state.running:
        tell(f'{state.name} runs, but shows nothing: set metrics = "127.0.0.1:8600" in node.toml, and start it again.')
    else:
        run = command("node", "run", folder / "node.toml")
        tell(f"{state.name} does not run here, and has not ended.\nNext:\n  {run}")


def _looked_at(seen: Sequence[tuple[Path, NodeConfig]]) -> tuple[list[NodeState], list[NodeStatus | None]]:
    """Return whether nodes run, and what they say of themselves, or left when they ended.

    Where another network's nodes answer in place of one of them, that is said.
    """
    from ..network import NodeState, another_network, node_result, running_pid
    from ..network import node_status as asked

    states = [
        NodeState(config.name, running=running_pid(config) is not None, status=asked(config)) for _, config in seen
    ]
    silent = (config for state, (_, config) in zip(states, seen, strict=True) if state.status is None)
    if beside := next(filter(None, map(another_network, silent)), None):
        tell(sentence(beside), sys.stderr)
    return states, [state.status or node_result(place) for state, (place, _) in zip(states, seen, strict=True)]


def _show(
    names: Sequence[str],
    seen: Sequence[tuple[Path, NodeConfig]],
    states: Sequence[NodeState],
    results: Sequence[NodeStatus | None],
    network: Path | None,
) -> None:
    from rich.console import Console

    from ..network import renewed_in

    known = [result for result in results if result is not None]
    newest = newest_of(known)
    assert newest is not None
    rows = []
    for state, result in zip(states, results, strict=True):
        word = "running" if state.running else "ended" if result and result.over else "not running"
        if state.status is not None and state.status.relay not in (None, "open"):
            word += f"; relay: {state.status.relay}"
        if result is None:
            rows.append(Row("", state.name, [""] * 6, word))
        else:
            mark = "*" if result.holding and state.running else ""
            rows.append(Row(mark, state.name, numbers_of(result, newest, names.index(state.name)), word))
    console = Console(highlight=False, markup=False)
    console.print(table_of(f"hop {furthest(known, newest)} of {newest.steps}", rows, console))
    console.print(f"\n{meaning(newest)}", style="dim")
    tell_lives(console, known)
    tell_refusals(console, known)
    if (asked := asked_by(known)) is not None:
        console.print(f"{asked}.", style="dim")
    for state, (place, _) in zip(states, seen, strict=True):
        # What a node that has stopped said then may be out of date: its files tell.
        said = state.status.expiring if state.status is not None else _expiring(place)
        if said is not None:
            print(f"{state.name}: {said if network is None else renewed_in(network, said)}")


def _expiring(folder: Path) -> str | None:
    """Say that the certificates in a node's folder end soon, or have; None if they last."""
    from ..network import check_node, require_cryptography

    require_cryptography()
    found = check_node(folder)
    said = [*found.warnings, *(problem for problem in found.problems if " expired on " in problem)]
    return "; ".join(said) or None
