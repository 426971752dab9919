"""The same protocol between real machines.

Its heart is a state machine without I/O: `Peer` is told what happened and answers with what is to be done; `Rules` is
what all nodes agree on, `agreed_path` the order in which they are offered the token, `Memory` what a node's journal
adds up to. It has rooms, each of which uses only those before it, and enters them through their `__init__`:

- `protocol`: the state machine, messages, entries of the journal, the order of nodes, how a token came to be
- `storage`: the journal's file, files of large models, their digests
- `transport`: messages on the wire, connections, certificates, the roster, what all must agree on
- `node`: the driver, a node's settings, learner, noise, pace, account and monitor
- `setup`: agreeing on a run, folders of a network, checks, starting nodes here, what an owner can ask

All but the first are loaded when first used: they need large libraries, and the extra ``network``. `_files`, for small
files that people edit, is for all of them. docs/protocol.md explains the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .protocol import Action, Ballot, Copy, Entry, Kind, Memory, Message, Peer, Place, Rules, Token, agreed_path

if TYPE_CHECKING:
    from .node import NO_ROWS, NodeBudget, NodeStatus
    from .setup import (
        ExitCode,
        GivenAway,
        LifeAccount,
        LocalNetwork,
        NodeState,
        agreed_run,
        asked_budget,
        begin_again,
        check_network,
        check_node,
        given_away,
        is_node_folder,
        life_account,
        make_network,
        new_identity,
        node_result,
        node_status,
        notes_on,
        pack_node,
        pack_relay,
        parse_via,
        quorum_of,
        read_network,
        relay_addresses,
        require_data,
        run_node,
        run_notes,
        run_text,
        running_pid,
        save_node_model,
        set_steps,
        stop_nodes,
        verify_outcome,
        why_nobody_skipped,
        why_not_started,
        with_designed_order,
    )
    from .storage import LedgerUnusable
    from .transport import parse_nodes, require_cryptography, spelled

__all__ = [
    "NO_ROWS",
    "Action",
    "Ballot",
    "Copy",
    "Entry",
    "ExitCode",
    "GivenAway",
    "Kind",
    "LedgerUnusable",
    "LifeAccount",
    "LocalNetwork",
    "Memory",
    "Message",
    "NodeBudget",
    "NodeState",
    "NodeStatus",
    "Peer",
    "Place",
    "Rules",
    "Token",
    "agreed_path",
    "agreed_run",
    "asked_budget",
    "begin_again",
    "check_network",
    "check_node",
    "given_away",
    "is_node_folder",
    "life_account",
    "make_network",
    "new_identity",
    "node_result",
    "node_status",
    "notes_on",
    "pack_node",
    "pack_relay",
    "parse_nodes",
    "parse_via",
    "quorum_of",
    "read_network",
    "relay_addresses",
    "require_cryptography",
    "require_data",
    "run_node",
    "run_notes",
    "run_text",
    "running_pid",
    "save_node_model",
    "set_steps",
    "spelled",
    "stop_nodes",
    "verify_outcome",
    "why_nobody_skipped",
    "why_not_started",
    "with_designed_order",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ExitCode": "setup",
        "GivenAway": "setup",
        "LedgerUnusable": "storage",
        "LifeAccount": "setup",
        "LocalNetwork": "setup",
        "NO_ROWS": "node",
        "NodeBudget": "node",
        "NodeState": "setup",
        "NodeStatus": "node",
        "agreed_run": "setup",
        "why_nobody_skipped": "setup",
        "with_designed_order": "setup",
        "asked_budget": "setup",
        "begin_again": "setup",
        "check_network": "setup",
        "check_node": "setup",
        "given_away": "setup",
        "is_node_folder": "setup",
        "life_account": "setup",
        "make_network": "setup",
        "new_identity": "setup",
        "node_result": "setup",
        "node_status": "setup",
        "notes_on": "setup",
        "pack_node": "setup",
        "pack_relay": "setup",
        "parse_nodes": "transport",
        "parse_via": "setup",
        "quorum_of": "setup",
        "read_network": "setup",
        "relay_addresses": "setup",
        "require_cryptography": "transport",
        "require_data": "setup",
        "run_node": "setup",
        "run_notes": "setup",
        "run_text": "setup",
        "running_pid": "setup",
        "save_node_model": "setup",
        "set_steps": "setup",
        "spelled": "transport",
        "stop_nodes": "setup",
        "verify_outcome": "setup",
        "why_not_started": "setup",
    },
)
