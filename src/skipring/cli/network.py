"""Who the nodes of a run are: `skipring network init`, `pack` and `check`."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import secrets
import shlex
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from .._command import command
from .._json import to_json
from ..delays import parse_delay
from ..errors import InvalidInput, given_as
from ._output import Json, print_json, sentence, tell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..network import NodeBudget
    from ..privacy import Unit


def network_init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make; it must not exist.")],
    nodes: Annotated[
        str,
        typer.Option(
            metavar="NODES",
            help="How many nodes, or their names: a,b,c or a=HOST:PORT,b=HOST,c=outgoing (nobody can call c).",
        ),
    ],
    host: Annotated[str, typer.Option(help="The host of nodes that are given without one.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="The port of nodes that are given without one; counts up if all are on one host.")
    ] = 7600,
    days: Annotated[int, typer.Option(help="How long the certificates are valid.")] = 365,
    run: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The run file that all nodes agreed on (default: logistic, breast-cancer)."),
    ] = None,
    delay: Annotated[
        str | None, typer.Option(metavar="LAW", help="Let nodes be late on purpose: exponential:1, gamma:0.25,1, ...")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with each node's own file: NAME.csv or NAME.parquet.")
    ] = None,
    via: Annotated[
        str | None,
        typer.Option(metavar="[USER@]HOST[:PORT]", help="Nobody lets anything in: nodes meet at a relay, over ssh."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Make a private authority, and a key, certificate, settings and the agreed run for each node.

    Steps, timeout and noise that the run file leaves open are written down once, for all nodes. Its epsilon becomes
    each node's budget: a node refuses to take part once it is spent. Whoever has DIR/ca/ca.key can pass as any node:
    keep it offline. It is not encrypted. With --via, each node goes out to one port of HOST, and nothing comes in;
    DIR/relay is what is started there, an sshd of its own that sees ciphertext only.
    """
    from ..network import (
        OwnClaim,
        hidden_from_whom,
        make_network,  # loaded when the command runs
        parse_nodes,
        parse_via,
        relay_addresses,
        spelled,
    )

    names, addresses = parse_nodes(nodes, host=host, port=port)
    relay = None if via is None else parse_via(via)
    if relay is not None:
        if "=" in nodes or host != "127.0.0.1":
            reason = "with --via nodes have no addresses of their own; give their number, or their names: a,b,c"
            raise InvalidInput.because("nodes" if "=" in nodes else "host", nodes if "=" in nodes else host, reason)
        addresses = relay_addresses(len(names), port, relay)
    if delay is not None:
        parse_delay(delay)
    files = None if data is None else {name: own_file(data, name) for name in names}
    with given_as("run", instead_of="FILE"):
        now = agreed_now(run, names, own_files=files is not None)
    budget, notes = now.budget, now.notes
    claim = OwnClaim(unit=now.unit, delta=budget.delta or 0.0)
    roster = make_network(
        folder,
        names,
        addresses,
        days=days,
        run=now.text.encode(),
        asked=now.asked.encode(),
        delay=delay,
        budget=budget,
        data=files,
        via=relay,
    )
    if as_json:
        print_json(
            {
                "folder": str(folder),
                "authority_key": str(folder / "ca" / "ca.key"),
                "days": days,
                "roster_digest": roster.digest,
                "budget": None if budget.epsilon is None else {"epsilon": budget.epsilon, "delta": budget.delta},
                "unit": claim.unit,
                "relation": claim.relation,
                "method": claim.method,
                "view": claim.view,
                "notes": notes,
                "relay": None if relay is None else {"address": str(relay), "folder": str(folder / "relay")},
                "nodes": [
                    {"name": name, "address": spelled(address), "fingerprint": mark, "folder": str(folder / name)}
                    for name, address, mark in zip(roster.names, roster.addresses, roster.fingerprints, strict=True)
                ],
            }
        )
        return
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("node", "address", "fingerprint"):
        table.add_column(column, overflow="fold")
    for name, address, mark in zip(roster.names, roster.addresses, roster.fingerprints, strict=True):
        table.add_row(name, spelled(address), f"{mark[:16]}...")
    console = Console(highlight=False, markup=False)
    console.print(table)
    kept = (
        ""
        if budget.epsilon is None
        else f"\nEach node keeps epsilon {budget.epsilon:g}, which hides {hidden_from_whom(claim, no_noise=False)}:"
        " it refuses its turns beyond that."
    )
    kept += "".join(f"\n{sentence(note)}" for note in notes)
    if relay is not None:
        needs = command("network", "pack", "relay", "--dir", folder)
        kept += f"\nNodes meet at {relay}. Its administrator needs:\n  {needs}"
    tell(
        f"\n{len(roster)} nodes in {folder}, valid for {days} days. Keep {folder / 'ca' / 'ca.key'} offline:"
        f" whoever has it can pass as any node.{kept}\nHere:\n  {command('network', 'up', folder)}\nElsewhere:\n"
        f"  {command('network', 'pack', roster.names[0], '--dir', folder)}"
    )


def own_file(folder: Path, name: str) -> Path:
    """Return a node's own file in a folder of such files."""
    from ..data import not_a_table  # loaded when the command runs

    if not folder.is_dir():
        raise InvalidInput.because("data", folder, "is not a folder")
    found = [path for path in (folder / f"{name}.csv", folder / f"{name}.parquet") if path.is_file()]
    if not found:
        for other in sorted(folder.glob(f"{name}.*")):
            raise not_a_table("data", other, (".csv", ".parquet"))
        raise InvalidInput.because("data", folder, f"there is no {name}.csv, and no {name}.parquet, for node {name}")
    return found[0].absolute()


class AgreedNow(NamedTuple):
    """The run that all nodes share, as it was asked for, what each is to keep, for what, and what nobody may expect."""

    text: str
    asked: str
    budget: NodeBudget
    unit: Unit
    notes: list[str]


def agreed_now(
    path: Path | None,
    names: Sequence[str],
    members: str = "nodes",
    given: str = "",
    *,
    own_files: bool = False,
    rounds: bool = False,
) -> AgreedNow:
    """Leave nothing open in a run file, for these nodes: what follows from how many they are is chosen here.

    `members` is the option that says who they are, and `given` its value (default: their names). Where nodes have files
    of their own, the file of a simulation is left out, and its path with it. With `rounds`, the steps were asked for
    when there were other nodes: no more than that are taken, in whole rounds, and it is said.
    """
    from ..network import (
        agreed_run,
        asked_budget,
        in_whole_rounds,
        new_identity,
        notes_on,
        quorum_of,
        require_data,
        run_text,  # loaded when the command runs
        timeout_of_a_law,
        why_nobody_skipped,
        with_designed_order,
        without_shared_file,
    )
    from ..runs import parse_run, read_run_file

    asked = parse_run({"data": {"name": "breast-cancer"}}) if path is None else read_run_file(path)
    require_data(asked)
    identity = new_identity(datetime.now(UTC).date(), secrets.token_bytes(12))
    quorum_of(asked, names)
    nodes = len(names)
    fitting = in_whole_rounds(asked, nodes) if rounds else asked
    try:
        agreed = agreed_run(with_designed_order(fitting, nodes), nodes, identity)
    except InvalidInput as problem:
        if problem.parameter != "data.nodes" or asked.data.nodes is not None:
            raise
        raise InvalidInput.because(members, given or ",".join(names), problem.reason) from None
    agreed = without_shared_file(agreed) if own_files else agreed
    notes = list(notes_on(agreed, nodes))
    if (waits := timeout_of_a_law(asked, agreed)) is not None:
        notes.append(waits)
    if fitting.schedule.steps != asked.schedule.steps:
        notes.append(
            f"the run has {fitting.schedule.steps} steps in place of {asked.schedule.steps}: whole rounds of"
            f" {nodes} nodes, and no more than was asked for; a file with other steps can be given with --run"
        )
    budget = asked_budget(asked)
    if budget.epsilon is not None and (why := why_nobody_skipped(asked)):
        notes.append(
            f"the noise is that of a run in which nobody is skipped, since {why}: where others are, a node's budget is"
            " spent earlier, and it takes no further turns"
        )
    head = "The run as it was asked for; `skipring network new-run --add` makes it into one for other nodes."
    if path is not None:
        asked = read_run_file(path.absolute())  # it will lie elsewhere: paths in it must not start at this folder
    return AgreedNow(run_text(agreed), run_text(asked, head), budget, asked.privacy.protects, notes)


def network_pack(
    node: Annotated[str, typer.Argument(metavar="NODE", help="The node's name; or relay, for who runs the relay.")],
    folder: Annotated[Path, typer.Option("--dir", metavar="DIR", help="The network's folder.")] = Path(),
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The archive to write (default: NODE.tar.gz).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Pack what is sent to a node's owner: its own key, certificate and settings, and nobody else's.

    The archive has the node's key in it: send it over a channel that only its owner can read.
    """
    from ..network import pack_node, pack_relay, run_notes  # loaded when the command runs

    archive = out if out is not None else Path(f"{node}.tar.gz")
    files = pack_relay(folder, archive) if node == "relay" else pack_node(folder, node, archive)
    mark = hashlib.sha256(archive.read_bytes()).hexdigest()
    if as_json:
        names = [f"{node}/{file}" for file in files]
        print_json({"node": node, "archive": str(archive), "sha256": mark, "files": names})
        return
    tell(f"{archive} has the key of {node} in it: only its owner may get it.")
    tell(f"Its SHA-256, which the owner has to hear in another way (sha256sum shows it):\n{mark}")
    if node == "relay":
        tell(f"There: tar xzf {shlex.quote(archive.name)} && relay/start (relay/README says more)")
        return
    tell(f"There:\n  tar xzf {shlex.quote(archive.name)} {shlex.quote(node)} && {command('network', 'check', node)}")
    for note in run_notes(folder):
        tell(sentence(note))


def network_check(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A network's folder, or that of one node.")],
    as_json: Json = False,
) -> None:
    """Check keys, certificates, names, dates and file modes, the run, the data and the model: what passes, starts.

    Files are written where the node will write, and removed; ports are tried. No code is loaded that the owner's own
    file does not allow. Exit code 1 if anything is wrong. In a network's folder, a node that runs elsewhere is told of,
    too, until it has said where its rows are.
    """
    from ..network import require_cryptography

    require_cryptography()
    from ..network import (
        NO_ROWS,
        around_node,
        budget_notes,
        check_network,
        check_node,
        differing_runs,
        is_here,
        is_node_folder,
        place_problems,
        run_notes,
        why_not_started,
    )

    if not folder.is_dir():
        raise InvalidInput.because("DIR", folder, "is not a folder")
    if is_node_folder(folder):
        found = [check_node(folder)]
        places = [folder]
    else:
        found = list(check_network(folder))
        places = [folder / one.name for one in found]
    for place, one in enumerate(found):
        if not one.problems and is_node_folder(places[place]):
            reason = why_not_started(places[place])
            here = is_node_folder(folder) or is_here(places[place])
            tried = place_problems(places[place]) if here and not reason else ()
            found[place] = dataclasses.replace(one, problems=(reason,) if reason else tried)
    if not is_node_folder(folder):
        with contextlib.suppress(InvalidInput):  # what cannot be read is said of its node
            differing = differing_runs(folder)
            for place, one in enumerate(found):
                if one.name in differing and not one.problems:  # else that is why
                    found[place] = dataclasses.replace(one, problems=(differing[one.name],))
    around = {one.name: around_node(place) for one, place in zip(found, places, strict=True) if is_node_folder(place)}
    notes = run_notes(folder)
    problems = [(one.name, problem) for one in found for problem in one.problems]
    if not problems:
        notes += budget_notes(folder)
    days = min((one.days_left for one in found if one.days_left is not None), default=None)
    if as_json:
        checked = [
            {
                "name": one.name,
                "days_left": one.days_left,
                "problems": list(one.problems),
                "warnings": list(one.warnings),
            }
            | (to_json(around[one.name]) if one.name in around else {})
            for one in found
        ]
        good = {"folder": str(folder), "good": not problems, "days_left": days}
        print_json(good | {"checked": checked, "notes": list(notes)})
    else:
        for name, problem in problems:
            print(f"{name}: {' '.join(problem.split())}")  # one line, however long
        if problems and all(problem.endswith(NO_ROWS) for _, problem in problems):  # only owners know their files
            tell(f"All else is as it should be; certificates last {days} more days.")
        if not problems:
            count, met = sum(one.name not in ("ca", "relay") for one in found), ""
            if any(one.name == "relay" for one in found):
                met = ", and the relay,"
            who = f"Node {found[0].name} is" if is_node_folder(folder) else f"All {count} nodes{met} are"
            tell(f"{who} as they should be; certificates last {days} more days.".replace("is as they", "is as it"))
            for name, node in around.items():
                for hook in node.hooks:
                    print(f"{name}: calls {hook.name} ({hook.key}) of {hook.file}")
                if node.process is not None:
                    tell(f"Node {name} runs (process {node.process}).")
                if is_node_folder(folder):
                    tell(f"It writes to {' and '.join(node.writes)}, which whoever starts it must let it do.")
        for one in found:
            for warning in one.warnings:
                print(f"{one.name}: {warning}")
        for note in notes:
            tell(sentence(note))
    if problems:
        sys.exit(1)
