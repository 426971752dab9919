"""All nodes of a network on one machine: `skipring network up`, `status` and `stop`."""

from __future__ import annotations

import json
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, NamedTuple, Protocol

import typer

from .._command import command
from .._numbers import upper_fixed
from ..errors import InvalidInput, require_integer
from ._output import Json, print_json, printable, sentence, tell

if TYPE_CHECKING:
    from rich.console import Console, Group

    from ..network import LocalNetwork, NodeConfig, NodeState, NodeStatus

__all__ = ["live_table", "network_status", "network_stop", "network_up", "node_status", "summary"]


class Shown(Protocol):
    """Nodes that are shown in a table, and for how long they have been looked at."""

    @property
    def states(self) -> Sequence[NodeState]: ...

    @property
    def seconds(self) -> float: ...


_LOOK = 0.5  # seconds between two looks at the nodes
_AGAIN = 60.0  # seconds after which the same standstill is said again where there is no live view

Folder = Annotated[Path, typer.Argument(metavar="DIR", help="The network's folder (skipring network init).")]


def network_up(
    folder: Folder,
    steps: Annotated[int | None, typer.Option(help="Another length of the run, before it has begun.")] = None,
    verbose: Annotated[bool, typer.Option("--verbose", help="Nodes log every update, in node.log.")] = False,
    as_json: Json = False,
) -> None:
    """Start all nodes on this machine, watch them, and show what came out.

    A node that dies is started again. Ctrl-C stops all of them, after their step; `up` again goes on.
    """
    from ..network import LocalNetwork, differing_runs, node_result, set_steps  # loaded when the command runs

    if steps is not None:
        require_integer("steps", steps, 1)
        set_steps(folder, steps)
        tell(
            "The noise stays as it was chosen for the length before; epsilon will be another, or budgets are spent.",
            sys.stderr,
        )
    network = LocalNetwork(folder, verbose=verbose)
    for name, why in differing_runs(folder).items():
        raise InvalidInput.because("DIR", folder, f"{name}: {why}; nothing was started")
    states = network.states
    earlier = [node_result(network.folder / state.name) for state in states]
    # Results alone may be those of a run before it: a journal was begun then.
    begun = all(config.journal.exists() for config in network.configs)
    over = begun and all(result is not None and result.over for result in earlier)
    interrupted = False if over else _watch(network, show=not as_json)
    results = [node_result(network.folder / state.name) or state.status for state in states]
    for state, result in zip(states, results, strict=True):
        state.status = result
    failed = [state for state in states if state.code not in (0, None)]
    if as_json:
        nodes = [
            {"name": state.name, "starts": state.starts, "exit_code": state.code, "status": result}
            for state, result in zip(states, results, strict=True)
        ]
        known = [result for result in results if result is not None]
        found = {"folder": str(folder), "was_over": over, "seconds": None if over else network.seconds}
        print_json(found | {"interrupted": interrupted, "nodes": nodes, "remark": _remark(known)})
    else:
        if over:
            tell("The run was over already, and nothing was started: this is what came out of it.\n")
        summary(network, results, None if over else "starting included")
    if over:
        tell(f"For another run of the same nodes:\n  {command('network', 'again', folder)}", sys.stderr)
    for state in failed:
        log = network.folder / state.name / "node.log"
        sys.stderr.write(f"{state.name} ended with exit code {state.code}: {printable(_why(log))}\n")
    if network.cannot_begin:
        names = ",".join(state.name for state in failed)
        tell("The run has not begun, and all nodes were stopped: mend what is wrong, or go on without:", sys.stderr)
        sys.stderr.write(f"  {command('network', 'again', folder, '--remove', names)}\n")
    if interrupted:
        tell(
            f"interrupted: all nodes stopped after their step; go on with:\n  {command('network', 'up', folder)}",
            sys.stderr,
        )
        sys.exit(130)
    if failed:
        sys.exit(1)


def _watch(network: LocalNetwork, *, show: bool) -> bool:
    """Look at the nodes until all have ended; return whether that was because of Ctrl-C."""
    from rich.console import Console
    from rich.live import Live

    told: list[int] = []
    said: dict[str, float] = {}

    def interrupt(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    console = Console(stderr=True, highlight=False)
    try:
        network.start()
        with Live(console=console, auto_refresh=False, transient=True) as live:
            while not told:
                states = network.look()
                if show and console.is_terminal:
                    live.update(live_table(network, states, console), refresh=True)
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
        for number, handler in before.items():
            signal.signal(number, handler)
    return bool(told)


def _tell_standstills(states: Sequence[NodeState], said: dict[str, float]) -> None:
    """Say what nodes wait for, each thing once a minute: somebody may be reading a log, and see nothing else."""
    now = time.monotonic()
    for state in states:
        what = state.status.waits_for if state.running and state.status is not None else None
        if what is not None and now - said.get(what, -_AGAIN) >= _AGAIN:
            said[what] = now
            sys.stderr.write(f"{state.name}: {_word(state)}\n")
            sys.stderr.flush()


def live_table(network: Shown, states: Sequence[NodeState], console: Console) -> Group:
    """Return what is shown of a run while it goes on."""
    known = [state.status for state in states if state.status]
    newest = _newest(known)
    title = f"{network.seconds:.0f} s: starting"
    if newest is not None:
        hop = _furthest(known, newest)
        title = f"{network.seconds:.0f} s: hop {hop} of {newest.steps} ({hop / newest.steps:.0%})"
        if (asked := _asked_by(known)) is not None:
            title += f"; {asked}"
    rows = []
    for index, state in enumerate(states):
        status = state.status
        if status is None or newest is None:
            rows.append(_Row("", state.name, [""] * 6, _word(state)))
            continue
        # They are asked one after the other, and the token moves meanwhile: whoever is furthest has it.
        mark = "*" if status.holding and status.hop == _furthest(known, newest) else ""
        rows.append(_Row(mark, state.name, _numbers(status, newest, index), _word(state)))
    return _table(title, rows, console)


def _newest(known: Sequence[NodeStatus]) -> NodeStatus | None:
    """Return the status of the node that knows what became of most turns."""
    return max(known, key=lambda status: (status.over, status.ballot, sum(status.turns)), default=None)


def _furthest(known: Sequence[NodeStatus], newest: NodeStatus) -> int:
    """Return the newest hop that anybody knows of, of the branch that the run goes on with."""
    return max(status.hop for status in known if status.ballot == newest.ballot)


class _Row(NamedTuple):
    """What the table has of one node: whether it holds the token, its name, its numbers, and how it is doing."""

    mark: str
    name: str
    numbers: list[str]
    word: str


def _table(title: str, rows: Sequence[_Row], console: Console) -> Group:
    """Return nodes as a table; how they are doing stands below it where it does not fit beside the numbers."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    def made(*, with_words: bool) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold", title=title, title_justify="left")
        table.add_column("", no_wrap=True)
        table.add_column("node", overflow="fold")  # a long name is broken, and never cut
        for column in ("updates", "skipped", "hop ms", "timeout s", "epsilon", "test error"):
            table.add_column(column, justify="right", no_wrap=True)
        if with_words:
            table.add_column("", justify="right", no_wrap=True)
        for row in rows:
            cells = row.mark, row.name, *row.numbers, *([row.word] if with_words else [])
            table.add_row(*map(Text, cells))
        return table

    beside = made(with_words=True)
    if console.measure(beside, options=console.options.update(width=1000)).maximum <= console.width:
        return Group(beside)
    words = {row.word: [other.name for other in rows if other.word == row.word] for row in rows if row.word}
    return Group(made(with_words=False), *(Text(f"{', '.join(names)}: {word}") for word, names in words.items()))


def _numbers(status: NodeStatus, newest: NodeStatus, index: int) -> list[str]:
    """Return what the live view shows of a node: its share in the newest token, and its own account."""
    skipped = newest.turns[index] - newest.updates_by_node[index]
    return [
        str(newest.updates_by_node[index]),
        str(max(0, skipped)),
        "" if status.hop_time is None else f"{1e3 * status.hop_time:.1f}",
        f"{status.timeout:.3g}",
        upper_fixed(status.epsilon, 3),
        "" if status.test_error is None else f"{status.test_error:.3f}",
    ]


def _word(state: NodeState) -> str:
    again = ", started again" if state.starts > 1 else ""
    if not state.running:
        over = state.status is not None and state.status.over
        return (("ended" if over else "stopped") if state.code == 0 else f"exit code {state.code}") + again
    if state.status is None:
        return f"starting{again}"
    if state.status.over:
        return f"over{again}"
    away = state.status.nodes - 1 - state.status.reachable
    spent = "budget spent" if state.status.refused_for_budget else ""
    if state.status.relay not in (None, "open"):
        return f"relay: {state.status.relay}{again}"
    if state.status.waits_for is not None:
        return f"for {state.status.stands_still:.0f} s: {state.status.waits_for}{again}"
    return (f"{away} away" if away else spent) + again


def _meaning(status: NodeStatus) -> str:
    """Say what the epsilons of the table mean."""
    if status.no_noise:
        return f"Epsilon hides {status.hides}: for tries only."
    words = f"Epsilon hides {status.hides}; it is that of the observer who knows most."
    if status.unit != "node":
        words += " A whole node is not hidden: see skipring node privacy."
    return words if status.not_covered is None else f"{words} {sentence(status.not_covered)}"


def _why(log: Path) -> str:
    """Return the reason in the last line of a node's log; the line as it is where it gives none."""
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return "no log"
    if not lines:
        return "no log"
    try:
        return str(json.loads(lines[-1])["why"])
    except (ValueError, KeyError, TypeError):
        return lines[-1][:300]


def summary(network: Shown, results: Sequence[NodeStatus | None], since: str | None) -> None:
    """Print what came out of a run, or how far it is; `since` says from when on its time was taken, if it was."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    known = [result for result in results if result is not None]
    newest = _newest(known)
    if newest is None:
        console.print("No node has said anything; see node.log in their folders.")
        return
    rows = [
        _Row("", state.name, [""] * 6 if result is None else _numbers(result, newest, index), _word(state))
        for index, (state, result) in enumerate(zip(network.states, results, strict=True))
    ]
    console.print(_table("", rows, console))
    models = {result.model for result in results if result is not None and result.over}
    over = sum(bool(result and result.over) for result in results)
    if over:
        alike = "the same" if len(models) == 1 else f"{len(models)} DIFFERENT models"
        took = "" if since is None else f" and {network.seconds:.1f} s ({since})"
        console.print(
            f"\n{over} of {len(results)} nodes hold {alike} final model"
            f"{f' ({models.pop()})' if len(models) == 1 else ''} after {newest.updates} updates in "
            f"{_hops(newest)}{took}. It is model.npz in each "
            f"node's folder, for skipring predict. {_meaning(newest)}",
            style="dim",
        )
        if (remark := _remark(known)) is not None:
            console.print(sentence(remark), style="dim")
    else:
        console.print(
            f"\nStopped at hop {_furthest(known, newest)} of {newest.steps}, after {newest.updates} updates."
            f" {_meaning(newest)}",
            style="dim",
        )
    _tell_lives(console, known)
    _tell_refusals(console, known)
    if again := [f"{state.name} ({_times(state.starts - 1)})" for state in network.states if state.starts > 1]:
        console.print(f"Started again after they had died: {', '.join(again)}.", style="dim")


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _hops(newest: NodeStatus) -> str:
    """Say how many hops the run had, and by whose agreement it ended if that was before the last."""
    if newest.ended_early_at is None:
        return f"{newest.steps} hops"
    by = ", ".join(newest.finishing)
    return f"{newest.ended_early_at} of {newest.steps} hops (ended early by agreement of {by})"


def _asked_by(known: Sequence[NodeStatus]) -> str | None:
    """Say who has asked for the run to end, as the node knows that has heard of most."""
    most = max(known, key=lambda status: len(status.finishing), default=None)
    return None if most is None else most.asked_to_finish


def _remark(results: Sequence[NodeStatus]) -> str | None:
    """Say in one line that the final model is no better than guessing, as mean over the nodes that tested it."""
    from ..learning import Guess

    tested = [(one.test_error, one.guess) for one in results if one.over and one.test_error is not None and one.guess]
    if not tested:
        return None
    # Nodes may share their test rows, so that many of them tell no more than one.
    means = [sum(values) / len(tested) for values in zip(*((e, g.error, g.std_error) for e, g in tested), strict=True)]
    return Guess(means[1], means[2]).remark(means[0])


def _tell_lives(console: Console, results: Sequence[NodeStatus]) -> None:
    """Say what nodes whose owners keep a ledger have given away in all of their runs."""
    lives: dict[str, list[str]] = {}  # a node whose budget has another delta has a line of its own
    for one in results:
        if one.life_epsilon is not None:
            runs = f"{one.life_runs} run{'' if one.life_runs == 1 else 's'}"
            told = f"{one.name} {upper_fixed(one.life_epsilon, 3)} ({runs})"
            lives.setdefault(one.life_hides, []).append(told)
    for hides, told_of in lives.items():
        console.print(
            f"Epsilon of all runs in a node's ledger together: {', '.join(told_of)}. It hides {hides}.", style="dim"
        )


def _tell_refusals(console: Console, results: Sequence[NodeStatus]) -> None:
    """Say who stopped taking part because its budget was spent, and who has none."""
    from ..network import no_budget

    if unlimited := [one.name for one in results if one.budget is None and not one.no_noise]:
        console.print(sentence(no_budget(unlimited)), style="dim")
    refused = [f"{one.name} {one.refused_for_budget}" for one in results if one.refused_for_budget]
    if refused:
        console.print(
            f"Budgets were kept: one more update would have exceeded them, so turns were refused (counted as skipped): "
            f"{', '.join(refused)}.",
            style="dim",
        )
    slow = [
        f"{one.name} (updates of fewer rows: {one.cut}, turns without one: {one.late}, let go at once: {one.declined})"
        for one in results
        if one.cut or one.late or one.declined
    ]
    if slow:
        console.print(f"Too slow for all of its rows within the timeout: {', '.join(slow)}.", style="dim")


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
    """Return whether nodes run, and what they say of themselves, or left when they ended."""
    from ..network import NodeState, node_result, running_pid
    from ..network import node_status as asked

    states = [
        NodeState(config.name, running=running_pid(config) is not None, status=asked(config)) for _, config in seen
    ]
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
    newest = _newest(known)
    assert newest is not None
    rows = []
    for state, result in zip(states, results, strict=True):
        word = "running" if state.running else "ended" if result and result.over else "not running"
        if state.status is not None and state.status.relay not in (None, "open"):
            word += f"; relay: {state.status.relay}"
        if result is None:
            rows.append(_Row("", state.name, [""] * 6, word))
        else:
            mark = "*" if result.holding and state.running else ""
            rows.append(_Row(mark, state.name, _numbers(result, newest, names.index(state.name)), word))
    console = Console(highlight=False, markup=False)
    console.print(_table(f"hop {_furthest(known, newest)} of {newest.steps}", rows, console))
    console.print(f"\n{_meaning(newest)}", style="dim")
    _tell_refusals(console, known)
    if (asked := _asked_by(known)) is not None:
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


def network_stop(
    folder: Folder,
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
        from .finish import finish_all

        finish_all(folder, as_json=as_json)
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
