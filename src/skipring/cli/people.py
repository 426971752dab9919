"""Another run, people who come and go, and certificates that end: `network new-run`, `network renew`, `node update`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._command import command
from .._json import to_json
from ..errors import given_as
from ._options import NodeFolder
from ._output import Json, print_json, printable, sentence, tell

if TYPE_CHECKING:
    from ..network import Begun, Taken


def network_new_run(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The network's folder, or that of one node.")],
    run: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The next run (default: the same again); for one node, what all were given."),
    ] = None,
    add: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=HOST:PORT", help="Who joins (d=outgoing: nobody can call d); several times."),
    ] = None,
    remove: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Who leaves for good; may be given several times.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="A folder with the own files of those who join: NAME.csv.")
    ] = None,
    days: Annotated[
        int | None, typer.Option(help="How long the certificates of those who join are valid (default: 365).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Begin another run: put away journals and models of the last, make up a new identity, let people join and leave.

    Owners whose nodes are elsewhere are sent DIR/update.json, which is not secret and signed by the authority, and say
    skipring node update there. Only who joins needs an archive (network pack). Where others join or leave, what
    follows from the number of nodes (noise, steps, order) is chosen anew, from the run as it was asked for. What
    was learned before stays learned: the epsilons of all runs of the same rows add up.
    """
    from ..network import is_node_folder, next_run

    begun = next_run(folder, run=run, add=add or [], remove=remove or [], data=data, days=days)
    if as_json:
        print_json(to_json(begun))
        return
    _say_begun(begun, folder, alone=is_node_folder(folder))


def _say_begun(begun: Begun, folder: Path, *, alone: bool) -> None:
    """Say where the last run is, who has left and joined, and what its people do next."""
    for note in begun.notes:
        tell(sentence(note))
    if begun.put_away:
        last = Path(begun.put_away[0])
        names = [Path(place).parent.parent.name for place in begun.put_away]
        whose = f"{names[0]}'s folder" if len(names) == 1 else f"each node's folder ({', '.join(names)})"
        tell(f"The last run is in runs/{last.name} of {whose}.")
    if alone:
        tell("Ready to run.")
        return
    for name in begun.left:
        tell(f"{name} has left; its folder is {folder / 'left' / name}. The others do not let it in any more.")
    for name in begun.joined:
        tell(f"{name} joins. For its owner alone:\n  {command('network', 'pack', name, '--dir', folder)}")
    tell(f"A new run is ready. Here:\n  {command('network', 'up', folder)}")
    if begun.update is not None:
        tell(
            f"For all other owners, by mail or on a share: {begun.update}\nThere: skipring node update NODE update.json"
        )
    else:
        tell(f"Elsewhere: send {folder / 'run.toml'}, and there: skipring network new-run NODE --run run.toml")


def network_renew(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The network's folder, with ca/ca.key in it.")],
    node: Annotated[str | None, typer.Option(metavar="NAME", help="One node (default: all of them).")] = None,
    days: Annotated[int, typer.Option(help="How long the new certificates are valid.")] = 365,
    as_json: Json = False,
) -> None:
    """Make new certificates for the keys that the nodes have, and for the authority if its own ends before.

    Keys, roster and run stay, and so do certificates that still hold. No node is locked out, in whatever order owners
    are told. What owners elsewhere need is DIR/update.json, which is not secret; there: skipring node update. A node
    that runs uses its new certificate after it was stopped and started again, which loses nothing.
    """
    from ..network import renew_certificates

    with given_as("node", instead_of="NODE"):
        found = renew_certificates(folder, node, days=days)
    if as_json:
        print_json(to_json(found))
        return
    whose = f"{', '.join(found.nodes)}{' and of the authority' if found.authority else ''}"
    tell(f"The certificates of {whose} are valid until {found.until}.")
    if found.running:
        tell(f"Running with the old ones until stopped and started again: {', '.join(found.running)}.")
    tell(f"For owners elsewhere, by mail or on a share: {found.update}\nThere: skipring node update NODE update.json")


def node_update(
    folder: NodeFolder,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="What was sent to all (update.json of the network's folder).")
    ],
    as_json: Json = False,
) -> None:
    """Take another run, its nodes and new certificates into a node's folder, as all are told by those who prepared it.

    The file must be signed by the network's authority, and newer than the last one. The last run is put away; the
    node's key, settings, budget and ledger stay. Read what has changed before you start the node.
    """
    from ..network import update_node

    found = update_node(folder, file)
    if as_json:
        print_json(to_json(found))
        return
    for line in _what_changed(found):
        tell(printable(line))


def _what_changed(found: Taken) -> list[str]:
    if found.known:
        return [f"{found.node} has this update already; nothing was changed."]
    lines = []
    if found.new_run:
        lines.append(f"A new run for {found.node}.")
        lines += [f"Joins: {', '.join(found.joined)}."] if found.joined else []
        lines += [f"Has left: {', '.join(found.left)}."] if found.left else []
        lines += [f"Other than before: {key} = {new} (was {old})." for key, (old, new) in found.changed.items()]
        lines += [f"The last run is in {found.put_away}."] if found.put_away is not None else []
    if found.renewed:
        lines.append(f"New: {' and '.join(found.renewed)}.")
    if found.restart:
        lines.append(f"{found.node} runs with the old ones until it is stopped and started again, which loses nothing.")
    return lines or ["Nothing in it is new for this node."]
