"""Nodes as a table in a terminal: while a run goes on, when it is over, and whenever it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from .._numbers import upper_fixed
from ._output import sentence

if TYPE_CHECKING:
    from rich.console import Console, Group

    from ..network import NodeState, NodeStatus


class Shown(Protocol):
    """Nodes that are shown in a table, and for how long they have been looked at."""

    @property
    def states(self) -> Sequence[NodeState]: ...

    @property
    def seconds(self) -> float: ...


def live_table(network: Shown, states: Sequence[NodeState], console: Console) -> Group:
    """Return what is shown of a run while it goes on."""
    known = [state.status for state in states if state.status]
    newest = newest_of(known)
    title = f"{network.seconds:.0f} s: starting"
    if newest is not None:
        hop = furthest(known, newest)
        title = f"{network.seconds:.0f} s: hop {hop} of {newest.steps} ({hop / newest.steps:.0%})"
        if (asked := asked_by(known)) is not None:
            title += f"; {asked}"
    rows = []
    for index, state in enumerate(states):
        status = state.status
        if status is None or newest is None:
            rows.append(Row("", state.name, [""] * 6, word_of(state)))
            continue
        # They are asked one after the other, and the token moves meanwhile: the node that is furthest has it.
        mark = "*" if status.holding and status.hop == furthest(known, newest) else ""
        rows.append(Row(mark, state.name, numbers_of(status, newest, index), word_of(state)))
    return table_of(title, rows, console)


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


def numbers_of(status: NodeStatus, newest: NodeStatus, index: int) -> list[str]:
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


def word_of(state: NodeState) -> str:
    again = ", started again" if state.starts > 1 else ""
    if not state.running:
        over = state.status is not None and state.status.over
        if state.code is None:  # it was not started now
            return "ended" if over else "not running"
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


def meaning(status: NodeStatus) -> str:
    """Say what the epsilons of the table mean."""
    said = status.guarantee
    if said.refused is not None:
        return f"Epsilon protects {said.terms}: for tries only."
    words = f"Epsilon protects {said.terms}; it is that of the observer who knows most."
    if said.protects != "node":
        words += " A whole node is not protected: see skipring node privacy."
    return words if said.not_covered is None else f"{words} {sentence(said.not_covered)}"


def summary(network: Shown, results: Sequence[NodeStatus | None], since: str | None) -> None:
    """Print what came out of a run, or how far it is; `since` says from when on its time was taken, if it was."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    known = [result for result in results if result is not None]
    newest = newest_of(known)
    if newest is None:
        console.print("No node has said anything; see node.log in their folders.")
        return
    rows = [
        Row("", state.name, [""] * 6 if result is None else numbers_of(result, newest, index), word_of(state))
        for index, (state, result) in enumerate(zip(network.states, results, strict=True))
    ]
    console.print(table_of("", rows, console))
    models = {result.model for result in results if result is not None and result.over}
    over = sum(bool(result and result.over) for result in results)
    if over:
        alike = "the same" if len(models) == 1 else f"{len(models)} DIFFERENT models"
        took = "" if since is None else f" and {network.seconds:.1f} s ({since})"
        console.print(
            f"\n{over} of {len(results)} nodes hold {alike} final model"
            f"{f' ({models.pop()})' if len(models) == 1 else ''} after {newest.updates} updates in "
            f"{_hops(newest)}{took}. It is model.npz in each "
            f"node's folder, for skipring predict. {meaning(newest)}",
            style="dim",
        )
        if (remark := remark_on(known)) is not None:
            console.print(sentence(remark), style="dim")
    else:
        console.print(
            f"\nStopped at hop {furthest(known, newest)} of {newest.steps}, after {newest.updates} updates."
            f" {meaning(newest)}",
            style="dim",
        )
    tell_lives(console, known)
    tell_refusals(console, known)
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


def tell_lives(console: Console, results: Sequence[NodeStatus]) -> None:
    """Say what nodes whose owners keep a ledger have given away in all of their runs."""
    lives: dict[str, list[str]] = {}  # a node whose budget has another delta has a line of its own
    for one in results:
        if one.life is not None and one.life.epsilon is not None:
            runs = f"{one.life_runs} run{'' if one.life_runs == 1 else 's'}"
            told = f"{one.name} {upper_fixed(one.life.epsilon, 3)} ({runs})"
            lives.setdefault(one.life.terms, []).append(told)
    for terms, told_of in lives.items():
        console.print(
            f"Epsilon of all runs in a node's ledger together: {', '.join(told_of)}. It protects {terms}.", style="dim"
        )


def tell_refusals(console: Console, results: Sequence[NodeStatus]) -> None:
    """Say who stopped taking part because its budget was spent, and who has none."""
    from ..network import no_budget

    if unlimited := [one.name for one in results if one.budget is None and one.guarantee.refused is None]:
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
