"""The same protocol between real machines.

Its heart is a state machine without I/O: `Peer` is told what happened and answers with what is to be done; `Rules` is
what all nodes agree on, `agreed_path` the order in which they are offered the token, `Memory` what a node's journal
adds up to. Around it, each in a file of its own and loaded when first used, since they need the extra ``network``:

- who takes part: `roster`, `identity`, `checks`, `config`
- what all agree on: `agreed`, `agreement`, `order`
- how messages travel: `messages`, `wire`, `transport`, `link`
- what is remembered: `journal`, `journal_file`, `journal_reading`, `model_file`
- what a node computes, and what it costs: `learner`, `noise`, `chain`, `ledger`, `giving`, `node_file`
- running it: `setup`, `readiness`, `pace`, `node`, `updater`, `hop_times`, `process`, `monitor`, `local`

docs/protocol.md explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .journal import Entry, Memory
from .messages import Ballot, Copy, Kind, Message, Place, Token
from .order import agreed_path
from .protocol import Action, Peer, Rules

if TYPE_CHECKING:
    from .agreed import agreed_run, asked_budget, notes_on, require_data, run_text
    from .checks import check_network, check_node, is_node_folder
    from .config import NodeBudget
    from .giving import GivenAway, given_away, save_node_model
    from .identity import make_network, pack_node, require_cryptography
    from .local import (
        LocalNetwork,
        NodeState,
        node_result,
        node_status,
        read_network,
        running_pid,
        set_steps,
        stop_nodes,
    )
    from .process import run_node
    from .readiness import run_notes, why_not_started
    from .roster import parse_nodes
    from .status import NodeStatus

__all__ = [
    "Action",
    "Ballot",
    "Copy",
    "Entry",
    "GivenAway",
    "Kind",
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
    "check_network",
    "check_node",
    "given_away",
    "is_node_folder",
    "make_network",
    "node_result",
    "node_status",
    "notes_on",
    "pack_node",
    "parse_nodes",
    "read_network",
    "require_cryptography",
    "require_data",
    "run_node",
    "run_notes",
    "run_text",
    "running_pid",
    "save_node_model",
    "set_steps",
    "stop_nodes",
    "why_not_started",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "GivenAway": "giving",
        "LocalNetwork": "local",
        "NodeBudget": "config",
        "NodeState": "local",
        "NodeStatus": "status",
        "agreed_run": "agreed",
        "asked_budget": "agreed",
        "check_network": "checks",
        "check_node": "checks",
        "given_away": "giving",
        "is_node_folder": "checks",
        "make_network": "identity",
        "node_result": "local",
        "node_status": "local",
        "notes_on": "agreed",
        "pack_node": "identity",
        "parse_nodes": "roster",
        "read_network": "local",
        "require_cryptography": "identity",
        "require_data": "agreed",
        "run_node": "process",
        "run_notes": "readiness",
        "run_text": "agreed",
        "running_pid": "local",
        "save_node_model": "giving",
        "set_steps": "local",
        "stop_nodes": "local",
        "why_not_started": "readiness",
    },
)
