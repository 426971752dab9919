"""Ending a run before its last hop, if a majority of owners agrees: `node finish` and `network stop --finish`."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InvalidInput
from ._output import Json, print_json, tell
from ._work import told_to_stop

if TYPE_CHECKING:
    from ..network import NodeConfig, NodeState, NodeStatus

_LOOK = 0.5  # seconds between two looks at the nodes
_TAKEN_UP = 5.0  # seconds in which a node that runs has taken it up


def node_finish(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder of one node.")], as_json: Json = False
) -> None:
    """Ask for the run to end where it is: the node signs it, and tells all; with a majority of nodes the run ends.

    All get the model as it is then, with the votes for it. It cannot be taken back. A node that does not run asks when
    it is started again.
    """
    from ..network import ask_to_finish, is_node_folder, node_status, read_node_config, running_pid

    if not is_node_folder(folder):
        reason = "is not the folder of a node; for all nodes of a network here: skipring network stop DIR --finish"
        raise InvalidInput.because("DIR", folder, reason)
    config = read_node_config(folder / "node.toml")
    asked, status = ask_to_finish(config), None
    running = running_pid(config) is not None
    deadline = time.monotonic() + _TAKEN_UP
    while asked and running and time.monotonic() < deadline:
        status = node_status(config) or status
        if status is not None and (config.name in status.finishing or status.over):
            break
        time.sleep(0.1)
    if as_json:
        found = {"node": config.name, "over": not asked, "running": running}
        known = {} if status is None else {"finishing": list(status.finishing), "majority": status.majority}
        print_json(found | {"finishing": None, "majority": None} | known)
    elif not asked:
        tell(f"The run is over already: see {folder / 'result.json'}.")
    elif not running:
        tell(f"{config.name} does not run: it asks for the end of the run when it is started again.")
    elif status is not None and status.asked_to_finish is not None and config.name in status.finishing:
        tell(f"{config.name} has asked for the end of the run.\n{status.asked_to_finish}.")
    else:  # it waits for others to begin, shows no status, or ends just now
        tell(f"{config.name} is told, and asks for the end of the run as soon as it takes part in it.")


class _Looked:
    """What is seen of the nodes of a network that others have started."""

    def __init__(self, folder: Path, configs: list[NodeConfig]) -> None:
        from ..network import NodeState

        self.folder, self._configs, self._since = folder, configs, time.monotonic()
        self.states: list[NodeState] = [NodeState(config.name, running=False) for config in configs]

    @property
    def seconds(self) -> float:
        """Time since it is looked at."""
        return time.monotonic() - self._since

    def look(self) -> list[NodeState]:
        """Return the state of all nodes."""
        from ..network import node_result, node_status, running_pid

        for state, config in zip(self.states, self._configs, strict=True):
            state.running = running_pid(config) is not None
            left = None if state.running else node_result(config.journal.parent)
            state.status = (node_status(config) if state.running else left) or state.status
            state.code = None if state.running else 0
        return self.states

    @property
    def is_over(self) -> bool:
        """Whether all nodes have the final model, or do not run."""
        return all(not state.running or (state.status is not None and state.status.over) for state in self.states)


def finish_all(folder: Path, *, as_json: bool) -> None:
    """Ask for the run of all nodes of a network's folder to end, wait until it has, and show what came out."""
    from rich.console import Console
    from rich.live import Live

    from ..network import ask_to_finish, read_network
    from ._nodes_view import live_table, summary

    _, configs = read_network(folder)
    looked = _Looked(folder, configs)
    asked = [config.name for config in configs if ask_to_finish(config)]
    console = Console(stderr=True, highlight=False)
    with told_to_stop() as told, Live(console=console, auto_refresh=False, transient=True) as live:
        while looked.look() and not looked.is_over and not told:
            if not as_json and console.is_terminal:
                live.update(live_table(looked, looked.states, console), refresh=True)
            time.sleep(_LOOK)
    interrupted = bool(told)
    results = [state.status for state in looked.states]
    waiting = [state.name for state, one in zip(looked.states, results, strict=True) if one is None or not one.over]
    if as_json:
        nodes = [{"name": state.name, "running": state.running, "status": state.status} for state in looked.states]
        print_json({"folder": str(folder), "asked": asked, "interrupted": interrupted, "nodes": nodes})
    else:
        summary(looked, results, "since it was asked for")
        _say_who(results)
    if interrupted:
        tell("interrupted: the nodes go on, and the run ends once a majority has asked for it", sys.stderr)
        sys.exit(130)
    if waiting:
        tell(f"not over: {', '.join(waiting)}; what does not run asks when it is started again", sys.stderr)
        sys.exit(1)


def _say_who(results: list[NodeStatus | None]) -> None:
    said = next((one.asked_to_finish for one in results if one is not None and one.asked_to_finish), None)
    if said is not None:
        tell(f"{said}.")
