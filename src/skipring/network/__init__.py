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
    from .node import (
        NO_ROWS,
        NodeBudget,
        NodeConfig,
        NodeStatus,
        OwnClaim,
        hidden_from_whom,
        no_budget,
        read_node_config,
    )
    from .setup import (
        ASKED,
        ExitCode,
        GivenAway,
        LifeAccount,
        LocalNetwork,
        NodeState,
        Taken,
        agreed_run,
        all_have_files,
        around_node,
        ask_to_finish,
        asked_budget,
        begin_again,
        begin_with_others,
        budget_notes,
        check_network,
        check_node,
        differing_runs,
        given_away,
        has_authority,
        in_whole_rounds,
        is_here,
        is_node_folder,
        life_account,
        make_network,
        members_of,
        new_identity,
        node_result,
        node_status,
        notes_on,
        pack_node,
        pack_relay,
        parse_via,
        place_problems,
        quorum_of,
        read_network,
        relay_addresses,
        renew_certificates,
        require_data,
        run_node,
        run_notes,
        run_text,
        running_pid,
        save_node_model,
        set_steps,
        stop_nodes,
        timeout_of_a_law,
        update_node,
        verify_outcome,
        why_nobody_skipped,
        why_not_started,
        with_designed_order,
        without_shared_file,
    )
    from .storage import LedgerBroken, LedgerUnusable
    from .transport import parse_joining, parse_nodes, read_roster, renewed_in, require_cryptography, spelled

__all__ = [
    "ASKED",
    "NO_ROWS",
    "Action",
    "Ballot",
    "Copy",
    "Entry",
    "ExitCode",
    "GivenAway",
    "Kind",
    "LedgerBroken",
    "LedgerUnusable",
    "LifeAccount",
    "LocalNetwork",
    "Memory",
    "Message",
    "NodeBudget",
    "NodeConfig",
    "NodeState",
    "NodeStatus",
    "OwnClaim",
    "Peer",
    "Place",
    "Rules",
    "Taken",
    "Token",
    "agreed_path",
    "agreed_run",
    "all_have_files",
    "around_node",
    "ask_to_finish",
    "asked_budget",
    "begin_again",
    "begin_with_others",
    "budget_notes",
    "check_network",
    "check_node",
    "differing_runs",
    "given_away",
    "has_authority",
    "hidden_from_whom",
    "in_whole_rounds",
    "is_here",
    "is_node_folder",
    "life_account",
    "make_network",
    "members_of",
    "new_identity",
    "no_budget",
    "node_result",
    "node_status",
    "notes_on",
    "pack_node",
    "pack_relay",
    "parse_joining",
    "parse_nodes",
    "parse_via",
    "place_problems",
    "quorum_of",
    "read_network",
    "read_node_config",
    "read_roster",
    "relay_addresses",
    "renew_certificates",
    "renewed_in",
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
    "timeout_of_a_law",
    "update_node",
    "verify_outcome",
    "why_nobody_skipped",
    "why_not_started",
    "with_designed_order",
    "without_shared_file",
]

__getattr__, __dir__ = lazily(__name__, __file__)
