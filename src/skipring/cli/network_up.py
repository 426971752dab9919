"""All nodes of a network on one machine: `skipring network up`, `status` and `stop`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._command import command
from ..errors import InvalidInput, require_integer
from ._nodes_view import OthersNodes, asked_by, facts_of, live_table, remark_on, show_status, summary, word_of
from ._options import NetworkFolder
from ._output import Json, print_json, printable, tell
from ._work import told_to_stop

if TYPE_CHECKING:
    from ..network import LocalNetwork, NodeState

_LOOK = 0.5  # seconds between two looks at the nodes
_AGAIN = 60.0  # seconds after which the same standstill is said again where there is no live view


def network_up(
    folder: NetworkFolder,
    steps: Annotated[int | None, typer.Option(help="Another length of the run, before it has begun.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Nodes log every update, in node.log.")] = False,
    as_json: Json = False,
) -> None:
    """Start all nodes on this machine, watch them, and show what came out.

    A node that dies is started again. Ctrl-C stops all of them, after their step; `up` again goes on.
    """
    from ..network import LocalNetwork, another_network, differing_runs, node_result, set_steps

    if steps is not None:
        require_integer("steps", steps, 1)
        set_steps(folder, steps)
        words = "The noise stays as it was chosen for the length before; epsilon will be another, or budgets are spent."
        tell(words, sys.stderr)
    network = LocalNetwork(folder, verbose=verbose)
    for name, why in differing_runs(folder).items():
        raise InvalidInput.because("DIR", folder, f"{name}: {why}; nothing was started")
    states = network.states
    earlier = [node_result(network.folder / state.name) for state in states]
    # Results alone may be those of a run before it: a journal was begun then.
    begun = all(config.journal.exists() for config in network.configs)
    over = begun and all(result is not None and result.over for result in earlier)
    if not over and (beside := next(filter(None, map(another_network, network.configs)), None)):
        raise InvalidInput.because("DIR", folder, f"{beside}; nothing was started")
    interrupted = False if over else _watch(network, show=not as_json)
    for state in states:
        state.status = node_result(network.folder / state.name) or state.status
    if as_json:
        found = {"folder": str(folder), "was_over": over, "seconds": None if over else network.seconds}
        found |= {"interrupted": interrupted, "remark": remark_on([state.status for state in states if state.status])}
        told = [facts_of(state) | {"starts": state.starts, "exit_code": state.code} for state in states]
        print_json(found | {"nodes": told})
    else:
        if over:
            tell("The run was over already, and nothing was started: this is what came out of it.\n")
        summary(network, None if over else "starting included")
    _say_what_next(folder, network, over=over, interrupted=interrupted)


def _say_what_next(folder: Path, network: LocalNetwork, *, over: bool, interrupted: bool) -> None:
    """Say what failed, and how to go on; end with the exit code for it."""
    # One that was told to stop before it could listen to signals has not failed.
    failed = [state for state in network.states if state.code not in (0, None, -signal.SIGTERM)]
    if over:
        tell(f"For another run of the same nodes:\n  {command('network', 'new-run', folder)}", sys.stderr)
    for state in failed:
        log = network.folder / state.name / "node.log"
        sys.stderr.write(f"{state.name} ended with exit code {state.code}: {printable(_why(log))}\n")
    if network.cannot_begin:
        names = ",".join(state.name for state in failed)
        tell("The run has not begun, and all nodes were stopped: mend what is wrong, or go on without:", sys.stderr)
        sys.stderr.write(f"  {command('network', 'new-run', folder, '--remove', names)}\n")
    if interrupted:
        go_on = command("network", "up", folder)
        tell(f"interrupted: all nodes stopped after their step; go on with:\n  {go_on}", sys.stderr)
        sys.exit(130)
    if failed:
        sys.exit(1)


def _watch(network: LocalNetwork, *, show: bool) -> bool:
    """Look at the nodes until all have ended; return whether that was because of Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    said: dict[str, float] = {}
    console = Console(stderr=True, highlight=False)
    with told_to_stop() as told:
        try:
            network.start()
            with Live(console=console, auto_refresh=False, transient=True) as live:
                while not told:
                    states = network.look()
                    if show and console.is_terminal:
                        live.update(live_table(network, console), refresh=True)
                    elif show:
                        _tell_standstills(states, said)
                    ended = all(not state.running for state in states) or network.over
                    if ended or network.stuck or network.cannot_begin:
                        break
                    time.sleep(_LOOK)
            if told and show:
                sys.stderr.write("stopping: each node finishes its step and passes the token on\n")
            deadline = time.monotonic() + 5.0  # they tell each other that it is over, and end
            while not told and any(state.running for state in network.look()) and time.monotonic() < deadline:
                time.sleep(0.1)
        finally:
            network.stop()
    return bool(told)


def _tell_standstills(states: Sequence[NodeState], said: dict[str, float]) -> None:
    """Say what nodes wait for, each thing once a minute: a reader of a log sees nothing else."""
    now = time.monotonic()
    for state in states:
        what = state.status.waits_for if state.running and state.status is not None else None
        if what is not None and now - said.get(what, -_AGAIN) >= _AGAIN:
            said[what] = now
            sys.stderr.write(f"{state.name}: {word_of(state)}\n")
            sys.stderr.flush()


def _why(log: Path) -> str:
    """Return the reason in the last line of a node's log; the line as it is where it gives none."""
    try:
        last = log.read_text(errors="replace").splitlines()[-1]
    except (OSError, IndexError):
        return "no log"
    try:
        return str(json.loads(last)["why"])
    except (ValueError, KeyError, TypeError):
        return last[:300]


def network_status(folder: NetworkFolder, as_json: Json = False) -> None:
    """Show how the nodes on this machine are doing."""
    from ..network import read_network

    _, configs = read_network(folder)
    seen = [(folder / config.name, config) for config in configs]
    nodes = OthersNodes(seen)
    states = nodes.look()
    nodes.tell_of_others()
    if as_json:
        print_json({"folder": str(folder), "nodes": list(map(facts_of, states))})
    elif any(state.status is not None for state in states):
        show_status(seen, nodes, folder)
    else:
        up = command("network", "up", folder)
        tell(f"None of the {len(configs)} nodes runs here, and none has ended.\nNext:\n  {up}")


def network_stop(
    folder: NetworkFolder,
    finish: Annotated[
        bool, typer.Option("--finish", help="End the run where it is, for all: ask in the name of all nodes here.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Stop the nodes that run on this machine: each finishes its step and passes the token on.

    With --finish they are not stopped: each asks for the run to end at its current hop, and this waits until it has. A
    majority of all nodes must ask for it. Ctrl-C leaves them running.
    """
    if finish:
        _finish(folder, as_json=as_json)
        return
    from ..network import read_network, running_pid, stop_nodes

    _, configs = read_network(folder)
    stopped = stop_nodes(configs)
    left = [config.name for config in configs if running_pid(config) is not None]
    if as_json:
        print_json({"folder": str(folder), "stopped": [name for name, was in stopped.items() if was], "left": left})
    else:
        count = sum(stopped.values())
        print(f"{count} nodes stopped." if count else "No node was running here.")
    if left:
        raise InvalidInput.because("DIR", folder, f"still running: {', '.join(left)}")


def _finish(folder: Path, *, as_json: bool) -> None:
    """Ask for the run of all nodes of a network's folder to end, wait until it has, and show what came out."""
    from rich.console import Console
    from rich.live import Live

    from ..network import ask_to_finish, read_network

    _, configs = read_network(folder)
    nodes = OthersNodes([(folder / config.name, config) for config in configs])
    asked = [config.name for config in configs if ask_to_finish(config)]
    console = Console(stderr=True, highlight=False)
    with told_to_stop() as told, Live(console=console, auto_refresh=False, transient=True) as live:
        while nodes.look() and not nodes.over and not told:
            if not as_json and console.is_terminal:
                live.update(live_table(nodes, console), refresh=True)
            time.sleep(_LOOK)
    waiting = [state.name for state in nodes.states if state.status is None or not state.status.over]
    if as_json:
        found = {"folder": str(folder), "asked": asked, "interrupted": bool(told)}
        print_json(found | {"nodes": list(map(facts_of, nodes.states))})
    else:
        summary(nodes, "since it was asked for")
        if (said := asked_by([state.status for state in nodes.states if state.status])) is not None:
            tell(f"{said}.")
    if told:
        tell("interrupted: the nodes go on, and the run ends once a majority has asked for it", sys.stderr)
        sys.exit(130)
    if waiting:
        tell(f"not over: {', '.join(waiting)}; what does not run asks when it is started again", sys.stderr)
        sys.exit(1)
