"""Nodes as a table in a terminal: while a run goes on, when it is over, and whenever it is asked for."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .._numbers import upper_fixed
from ._output import sentence, show, tell

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.table import Table

    from ..network import LocalNetwork, NodeConfig, NodeState, NodeStatus


class OthersNodes:
    """Nodes on this machine that others have started, and for how long they have been looked at."""

    def __init__(self, seen: Sequence[tuple[Path, NodeConfig]]) -> None:
        from ..network import NodeState

        self._seen, self._since = seen, time.monotonic()
        self.states = [NodeState(config.name, running=False) for _, config in seen]

    @property
    def seconds(self) -> float:
        """Time since they are looked at."""
        return time.monotonic() - self._since

    def look(self) -> list[NodeState]:
        """Return the state of all nodes: what they say of themselves, or left when they ended."""
        from ..network import node_result, node_status, running_pid

        for state, (folder, config) in zip(self.states, self._seen, strict=True):
            state.running = running_pid(config) is not None
            state.status = node_status(config) or (None if state.running else node_result(folder)) or state.status
        return self.states

    def tell_of_others(self) -> None:
        """Say so where another network's nodes answer in place of one of these."""
        from ..network import another_network

        if beside := next(filter(None, (another_network(config) for _, config in self._seen)), None):
            tell(sentence(beside), sys.stderr)

    @property
    def over(self) -> bool:
        """Whether all nodes have the final model, or do not run."""
        return all(not state.running or (state.status is not None and state.status.over) for state in self.states)


def facts_of(state: NodeState) -> dict[str, Any]:
    """Return what JSON says of a node."""
    return {"name": state.name, "running": state.running, "status": state.status}


def live_table(network: LocalNetwork | OthersNodes, console: Console) -> Group:
    """Return what is shown of a run while it goes on."""
    known = [state.status for state in network.states if state.status]
    newest = newest_of(known)
    title = f"{network.seconds:.0f} s: starting"
    if newest is not None:
        hop = furthest(known, newest)
        title = f"{network.seconds:.0f} s: hop {hop} of {newest.steps} ({hop / newest.steps:.0%})"
        if (asked := asked_by(known)) is not None:
            title += f"; {asked}"
    rows = [row_of(state, known, word_of(state), place) for place, state in enumerate(network.states)]
    return table_of(title, rows, console)


def row_of(state: NodeState, known: Sequence[NodeStatus], word: str, place: int) -> Row:
    """Return the table's line of a node, which has this place among the nodes of the run."""
    status, newest = state.status, newest_of(known)
    if status is None or newest is None:
        return Row("", state.name, [""] * 6, word)
    # They are asked one after the other, and the token moves meanwhile: the node that is furthest has it.
    holds = state.running and status.holding and status.hop == furthest(known, newest)
    updates = newest.updates_by_node[place]
    numbers = [
        str(updates),
        str(max(0, newest.turns[place] - updates)),
        "" if status.hop_time is None else f"{1e3 * status.hop_time:.1f}",
        f"{status.timeout:.3g}",
        upper_fixed(status.epsilon, 3),
        "" if status.test_error is None else f"{status.test_error:.3f}",
    ]
    return Row("*" if holds else "", state.name, numbers, word)


def newest_of(known: Sequence[NodeStatus]) -> NodeStatus | None:
    """Return the status of the node that knows what became of most turns."""
    return max(known, key=lambda status: (status.over, status.ballot, sum(status.turns)), default=None)


def furthest(known: Sequence[NodeStatus], newest: NodeStatus) -> int:
    """Return the newest hop that a node knows of, of the branch that the run goes on with."""
    return max(status.hop for status in known if status.ballot == newest.ballot)


class Row(NamedTuple):
    """What the table has of one node: whether it holds the token, its name, its numbers, and how it is doing."""

    mark: str
    name: str
    numbers: list[str]
    word: str


def table_of(title: str, rows: Sequence[Row], console: Console) -> Group:
    """Return nodes as a table; how they are doing stands below it where it does not fit beside the numbers."""
    from rich.console import Group
    from rich.text import Text

    from ..report import plain_table

    def made(*, with_words: bool) -> Table:
        columns = ("updates", "skipped", "hop ms", "timeout s", "epsilon", "test error", *([""] if with_words else []))
        table = plain_table("", "node", right=columns, title=title)
        for row in rows:
            cells = row.mark, row.name, *row.numbers, *([row.word] if with_words else [])
            table.add_row(*map(Text, cells))
        return table

    beside = made(with_words=True)
    if console.measure(beside, options=console.options.update(width=1000)).maximum <= console.width:
        return Group(beside)
    words = {row.word: [other.name for other in rows if other.word == row.word] for row in rows if row.word}
    return Group(made(with_words=False), *(Text(f"{', '.join(names)}: {word}") for word, names in words.items()))


def word_of(state: NodeState) -> str:
    """Say in a word or two how a node is doing."""
    status = state.status
    over = status is not None and status.over
    if not state.running and state.code is None:  # it was not started now
        return "ended" if over else "not running"
    if not state.running:
        word = f"exit code {state.code}" if state.code else "ended" if over else "stopped"
    elif status is None or over:
        word = "over" if over else "starting"
    elif status.relay not in (None, "open"):
        word = f"relay: {status.relay}"
    elif status.waits_for is not None:
        word = f"for {status.stands_still:.0f} s: {status.waits_for}"
    elif away := status.nodes - 1 - status.reachable:
        word = f"{away} away"
    else:
        word = "budget spent" if status.refused_for_budget else ""
    return word + (", started again" if state.starts > 1 else "")


def meaning(status: NodeStatus) -> str:
    """Say what the epsilons of the table mean."""
    said = status.guarantee
    if said.refused is not None:
        return f"Epsilon protects {said.terms}: for tries only."
    words = f"Epsilon protects {said.terms}; it is that of the observer who knows most."
    if said.protects != "node":
        words += " A whole node is not protected: see skipring node privacy."
    return words if said.not_covered is None else f"{words} {sentence(said.not_covered)}"


def summary(network: LocalNetwork | OthersNodes, since: str | None) -> None:
    """Print what came out of a run, or how far it is; `since` says from when on its time was taken, if it was."""
    from rich.console import Console

    states = network.states
    known = [state.status for state in states if state.status is not None]
    newest = newest_of(known)
    if newest is None:
        print("No node has said anything; see node.log in their folders.")
        return
    rows = [row_of(state, known, word_of(state), place)._replace(mark="") for place, state in enumerate(states)]
    models = {status.model for status in known if status.over}
    over = sum(status.over for status in known)
    if over:
        alike = "the same" if len(models) == 1 else f"{len(models)} DIFFERENT models"
        took = "" if since is None else f" and {network.seconds:.1f} s ({since})"
        told = f"{over} of {len(states)} nodes hold {alike} final model"
        told += f" ({models.pop()})" if len(models) == 1 else ""
        told += f" after {newest.updates} updates in {_hops(newest)}{took}."
        told += f" It is model.npz in each node's folder, for skipring predict. {meaning(newest)}"
        if (remark := remark_on(known)) is not None:
            told += f"\n{sentence(remark)}"
    else:
        told = f"Stopped at hop {furthest(known, newest)} of {newest.steps}, after {newest.updates} updates."
        told += f" {meaning(newest)}"
    notes = [told, *lives_of(known), *refusals_of(known)]
    times = {state.name: "once" if state.starts == 2 else f"{state.starts - 1} times" for state in states}
    if again := [f"{state.name} ({times[state.name]})" for state in states if state.starts > 1]:
        notes.append(f"Started again after they had died: {', '.join(again)}.")
    show(table_of("", rows, Console()), note="\n" + "\n".join(notes))


def show_status(seen: Sequence[tuple[Path, NodeConfig]], nodes: OthersNodes, network: Path | None) -> None:
    """Print how nodes are doing that have said or left something, and which certificates end soon."""
    from rich.console import Console

    from ..network import read_roster, renewed_in

    names = read_roster((network or seen[0][0]) / "roster.toml").names
    known = [state.status for state in nodes.states if state.status is not None]
    rows = []
    for state in nodes.states:
        word = "running" if state.running else word_of(state)
        if state.running and state.status is not None and state.status.relay not in (None, "open"):
            word += f"; relay: {state.status.relay}"
        rows.append(row_of(state, known, word, names.index(state.name)))
    newest = newest_of(known)
    assert newest is not None
    title = f"hop {furthest(known, newest)} of {newest.steps}"
    asked = [f"{words}." for words in (asked_by(known),) if words is not None]
    notes = [meaning(newest), *lives_of(known), *refusals_of(known), *asked]
    show(table_of(title, rows, Console()), note="\n" + "\n".join(notes))
    for state, (folder, _) in zip(nodes.states, seen, strict=True):
        # What a node that has stopped said then may be out of date: its files tell.
        said = state.status.expiring if state.running and state.status is not None else _expiring(folder)
        if said is not None:
            print(f"{state.name}: {said if network is None else renewed_in(network, said)}")


def _expiring(folder: Path) -> str | None:
    """Say that the certificates in a node's folder end soon, or have; None if they last."""
    from ..network import check_node, require_cryptography

    require_cryptography()
    found = check_node(folder)
    said = [*found.warnings, *(problem for problem in found.problems if " expired on " in problem)]
    return "; ".join(said) or None


def _hops(newest: NodeStatus) -> str:
    """Say how many hops the run had, and by whose agreement it ended if that was before the last."""
    if newest.ended_early_at is None:
        return f"{newest.steps} hops"
    by = ", ".join(newest.finishing)
    return f"{newest.ended_early_at} of {newest.steps} hops (ended early by agreement of {by})"


def asked_by(known: Sequence[NodeStatus]) -> str | None:
    """Say who has asked for the run to end, as the node knows that has heard of most."""
    most = max(known, key=lambda status: len(status.finishing), default=None)
    return None if most is None else most.asked_to_finish


def remark_on(results: Sequence[NodeStatus]) -> str | None:
    """Say in one line that the final model is no better than guessing, as mean over the nodes that tested it."""
    from ..learning import Guess

    tested = [(one.test_error, one.guess) for one in results if one.over and one.test_error is not None and one.guess]
    if not tested:
        return None
    # Nodes may share their test rows, so that many of them tell no more than one.
    means = [sum(values) / len(tested) for values in zip(*((e, g.error, g.std_error) for e, g in tested), strict=True)]
    return Guess(means[1], means[2]).remark(means[0])


def lives_of(known: Sequence[NodeStatus]) -> list[str]:
    """Say what nodes whose owners keep a ledger have given away in all of their runs."""
    lives: dict[str, list[str]] = {}  # a node whose budget has another delta has a line of its own
    for one in known:
        if one.life is not None and one.life.epsilon is not None:
            runs = f"{one.life_runs} run{'' if one.life_runs == 1 else 's'}"
            told = f"{one.name} {upper_fixed(one.life.epsilon, 3)} ({runs})"
            lives.setdefault(one.life.terms, []).append(told)
    return [
        f"Epsilon of all runs in a node's ledger together: {', '.join(told_of)}. It protects {terms}."
        for terms, told_of in lives.items()
    ]


def refusals_of(known: Sequence[NodeStatus]) -> list[str]:
    """Say who stopped taking part because its budget was spent, who has none, and who is too slow."""
    from ..network import no_budget

    unlimited = [one.name for one in known if one.budget is None and one.guarantee.refused is None]
    notes = [sentence(no_budget(unlimited))] if unlimited else []
    if refused := [f"{one.name} {one.refused_for_budget}" for one in known if one.refused_for_budget]:
        notes.append(
            "Budgets were kept: one more update would have exceeded them, so turns were refused (counted as skipped): "
            f"{', '.join(refused)}."
        )
    slow = [
        f"{one.name} (updates of fewer rows: {one.cut}, turns without one: {one.late}, let go at once: {one.declined})"
        for one in known
        if one.cut or one.late or one.declined
    ]
    return [*notes, f"Too slow for all of its rows within the timeout: {', '.join(slow)}."] if slow else notes
