"""Who the nodes of a run are: `skipring network init`, `pack`, `check` and `verify`."""

from __future__ import annotations

import hashlib
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .._command import command
from .._json import to_json
from ..delays import parse_delay
from ..errors import InvalidInput, given_as
from ._output import Json, print_json, sentence, show, tell

if TYPE_CHECKING:
    from ..network import Address, AgreedNow, Roster, Seen, Via


_ENDED_EARLY = 3  # an exit code: who only looks at whether it is 0 must not take half a run for a whole one
#: Where nodes are that are given without a host.
_HERE = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class Who:
    """Who the nodes are, and where."""

    nodes: Annotated[
        str,
        typer.Option(
            metavar="NODES",
            help="How many nodes, or their names: a,b,c or a=HOST:PORT,b=HOST,c=outgoing (nobody can call c).",
        ),
    ]
    host: Annotated[str, typer.Option(help="The host of nodes that are given without one.")] = _HERE
    port: Annotated[
        int, typer.Option(help="The port of nodes that are given without one; counts up if all are on one host.")
    ] = 7600
    via: Annotated[
        str | None,
        typer.Option(metavar="[USER@]HOST[:PORT]", help="Nobody lets anything in: nodes meet at a relay, over ssh."),
    ] = None

    def placed(self) -> tuple[Sequence[str], Sequence[Address | None], Via | None]:
        """Return names, addresses, and where the relay is if there is one."""
        from ..network import parse_nodes, parse_via, relay_addresses  # loaded when the command runs

        names, addresses = parse_nodes(self.nodes, host=self.host, port=self.port)
        if self.via is None:
            return names, addresses, None
        relay = parse_via(self.via)
        for option, given, wrong in (("nodes", self.nodes, "=" in self.nodes), ("host", self.host, self.host != _HERE)):
            if wrong:
                reason = "with --via nodes have no addresses of their own; give their number, or their names: a,b,c"
                raise InvalidInput.because(option, given, reason)
        return names, relay_addresses(len(names), self.port, relay), relay


def network_init(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder to make; it must not exist.")],
    who: Who,
    *,
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
    as_json: Json = False,
) -> None:
    """Make a private authority, and a key, certificate, settings and the agreed run for each node.

    Steps, timeout and noise that the run file leaves open are written down once, for all nodes. Its epsilon becomes
    each node's budget: a node refuses to take part once it is spent. A thief of DIR/ca/ca.key can pass as any node:
    keep it offline. It is not encrypted. With --via, each node goes out to one port of HOST, and nothing comes in.
    DIR/relay is what is started there, an sshd of its own that sees ciphertext only.
    """
    from ..network import NewSettings, agreed_now, make_network, own_file

    names, addresses, relay = who.placed()
    if delay is not None:
        parse_delay(delay)
    files = None if data is None else {name: own_file(data, name) for name in names}
    with given_as("run", instead_of="FILE"):
        now = agreed_now(run, names, own_files=files is not None)
    roster = make_network(
        folder,
        names,
        addresses,
        days=days,
        run=now.text.encode(),
        asked=now.asked.encode(),
        settings=NewSettings(delay=delay, budget=now.budget, data=files or {}),
        via=relay,
    )
    if as_json:
        print_json(_facts(folder, roster, now, relay, days))
    else:
        _show(folder, roster, now, relay, days)


def _facts(folder: Path, roster: Roster, now: AgreedNow, relay: Via | None, days: int) -> dict[str, Any]:
    from ..network import budget_guarantee, spelled

    budget = now.budget
    marked = zip(roster.names, roster.addresses, roster.fingerprints, strict=True)
    return {
        "folder": str(folder),
        "authority_key": str(folder / "ca" / "ca.key"),
        "days": days,
        "roster_digest": roster.digest,
        "budget": None if budget.epsilon is None else {"epsilon": budget.epsilon, "delta": budget.delta},
        "guarantee": to_json(budget_guarantee(now.unit, budget.epsilon, budget.delta)),
        "notes": now.notes,
        "relay": None if relay is None else {"address": str(relay), "folder": str(folder / "relay")},
        "nodes": [
            {"name": name, "address": spelled(address), "fingerprint": mark, "folder": str(folder / name)}
            for name, address, mark in marked
        ],
    }


def _show(folder: Path, roster: Roster, now: AgreedNow, relay: Via | None, days: int) -> None:
    from ..network import budget_guarantee, spelled
    from ..report import plain_table

    table = plain_table("node", "address", "fingerprint")
    for name, address, mark in zip(roster.names, roster.addresses, roster.fingerprints, strict=True):
        table.add_row(name, spelled(address), f"{mark[:16]}...")
    show(table)
    tell(
        f"\n{len(roster)} nodes in {folder}, valid for {days} days. Keep {folder / 'ca' / 'ca.key'} offline:"
        " a thief of it can pass as any node."
    )
    budget = now.budget
    if budget.epsilon is not None:
        said = budget_guarantee(now.unit, budget.epsilon, budget.delta).sentence()
        tell(f"{said} A node refuses its turns beyond that.")
    for note in now.notes:
        tell(sentence(note))
    if relay is not None:
        needs = command("network", "pack", "relay", "--dir", folder)
        tell(f"Nodes meet at {relay}. Its administrator needs:\n  {needs}")
    pack = command("network", "pack", roster.names[0], "--dir", folder)
    tell(f"Here:\n  {command('network', 'up', folder)}\nElsewhere:\n  {pack}")


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
    from ..network import seen_before_a_start

    seen = seen_before_a_start(folder)
    if as_json:
        checked = [to_json(one) | to_json(seen.around.get(one.name, {})) for one in seen.checked]
        good = {"folder": str(folder), "good": not seen.problems, "days_left": seen.days_left}
        print_json(good | {"checked": checked, "notes": seen.notes})
    else:
        for name, problem in seen.problems:
            print(f"{name}: {' '.join(problem.split())}")  # one line, however long
        if seen.only_rows_missing:
            tell(f"All else is as it should be; certificates last {seen.days_left} more days.")
        if not seen.problems:
            _say_good(seen)
        for one in seen.checked:
            for warning in one.warnings:
                print(f"{one.name}: {warning}")
        for note in seen.notes:
            tell(sentence(note))
    if seen.problems:
        sys.exit(1)


def _say_good(seen: Seen) -> None:
    """Say that all is well, what of their owners' nodes call, which of them run, and where one writes."""
    names = [one.name for one in seen.checked]
    count = sum(name not in ("ca", "relay") for name in names)
    met = ", and the relay," if "relay" in names else ""
    who = f"Node {names[0]} is as it" if seen.alone else f"All {count} nodes{met} are as they"
    tell(f"{who} should be; certificates last {seen.days_left} more days.")
    for name, node in seen.around.items():
        for hook in node.hooks:
            print(f"{name}: calls {hook.name} ({hook.key}) of {hook.file}")
        if node.process is not None:
            tell(f"Node {name} runs (process {node.process}).")
        if seen.alone:
            tell(f"It writes to {' and '.join(node.writes)}, which the one who starts it must let it do.")


def network_verify(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="The final model: model.npz or model.npy of a node.")],
    roster: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The nodes, as you know them (default: beside MODEL)."),
    ] = None,
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The votes (default: outcome.json beside MODEL).")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check, offline, that a majority of the nodes have signed that their run ended with this model.

    Take the roster from a person you trust: it says whose signatures count. Exit code 1: they have not. Exit code 3:
    they have, but the run ended a round or more before its agreed last hop, and no majority asked for that.
    """
    from ..network import verify_outcome  # loaded when the command runs

    found = verify_outcome(model, roster, certificate)
    if as_json:
        print_json(to_json(found))
    elif found.problem is not None:
        tell(f"Not verified: {found.problem}.")
    else:
        tell(
            f"Verified: {', '.join(found.signed)} ({len(found.signed)} of {len(found.signed) + len(found.unsigned)})"
            f" have signed that their run ended with this model, after {found.updates} updates."
        )
        if found.asked:
            tell(f"It ended early at hop {found.last_hop} of {found.steps} by agreement of {', '.join(found.asked)}.")
        elif found.warning is None:
            tell(f"Its last update was at hop {found.last_hop}, the last one that was agreed on.")
        else:
            tell(f"Warning: {found.warning}.")
        tell(f"SHA-256 of its parameters: {found.model}")
    sys.exit(1 if found.problem is not None else _ENDED_EARLY if found.early else 0)
