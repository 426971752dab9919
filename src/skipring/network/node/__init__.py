"""One node at work: it drives the protocol, makes its updates, and keeps the account of what they give away.

`Node` is the whole of it: its `Driver` does what the protocol asks for, over `Wires`; `Telemetry` counts it.
`NodeSetup` is what it is given, of which `NodeConfig` is its owner's part. What it computes is `node_rows` and
`learner_on`, what it costs `OwnAccount`, and what its owner sees `NodeStatus` and `Monitor`. Loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .claims import final_claims, final_epsilon
    from .config import (
        IS_USER,
        NodeBudget,
        NodeConfig,
        NodeDelay,
        NodeRelay,
        OwnData,
        no_budget,
        node_config_text,
        read_node_config,
    )
    from .driver import Driver, Wires
    from .finish import FINISH
    from .learner import NO_ROWS, learner_on, make_learner, node_rows, require_shared_data
    from .ledger import AccountTerms, OwnAccount, account_of, willing
    from .lifetime import CountedJournal, Lifetime, LifeTotal, known_of, life_totals
    from .monitor import Monitor, metrics_text, status_text
    from .node import Node
    from .node_file import NodeFacts, write_node_model
    from .node_setup import NodeSetup
    from .noise import NoiseSource, unreached
    from .owner import Owner, is_within, owner_path, read_owner
    from .pace import AdaptivePace, FixedPace, Pace
    from .reminders import OLD_JOURNAL, OldJournal, is_old
    from .ssh_words import NODE_KEY, RELAY, RELAY_ALIAS, forwards, ssh_words
    from .status import (
        ALL_RUNS,
        RESULT,
        STOPPED,
        NodeStatus,
        OwnClaim,
        hidden_from_whom,
        hidden_in_all_runs,
        read_status,
    )
    from .telemetry import Telemetry
    from .tunnel import require_ssh
    from .updater import Stopped

__all__ = [
    "ALL_RUNS",
    "FINISH",
    "IS_USER",
    "NODE_KEY",
    "NO_ROWS",
    "OLD_JOURNAL",
    "RELAY",
    "RELAY_ALIAS",
    "RESULT",
    "STOPPED",
    "AccountTerms",
    "AdaptivePace",
    "CountedJournal",
    "Driver",
    "FixedPace",
    "LifeTotal",
    "Lifetime",
    "Monitor",
    "Node",
    "NodeBudget",
    "NodeConfig",
    "NodeDelay",
    "NodeFacts",
    "NodeRelay",
    "NodeSetup",
    "NodeStatus",
    "NoiseSource",
    "OldJournal",
    "OwnAccount",
    "OwnClaim",
    "OwnData",
    "Owner",
    "Pace",
    "Stopped",
    "Telemetry",
    "Wires",
    "account_of",
    "final_claims",
    "final_epsilon",
    "forwards",
    "hidden_from_whom",
    "hidden_in_all_runs",
    "is_old",
    "is_within",
    "known_of",
    "learner_on",
    "life_totals",
    "make_learner",
    "metrics_text",
    "no_budget",
    "node_config_text",
    "node_rows",
    "owner_path",
    "read_node_config",
    "read_owner",
    "read_status",
    "require_shared_data",
    "require_ssh",
    "ssh_words",
    "status_text",
    "unreached",
    "willing",
    "write_node_model",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "ALL_RUNS": "status",
        "FINISH": "finish",
        "IS_USER": "config",
        "AccountTerms": "ledger",
        "AdaptivePace": "pace",
        "CountedJournal": "lifetime",
        "Driver": "driver",
        "FixedPace": "pace",
        "LifeTotal": "lifetime",
        "Lifetime": "lifetime",
        "Monitor": "monitor",
        "NODE_KEY": "ssh_words",
        "NO_ROWS": "learner",
        "Node": "node",
        "NodeBudget": "config",
        "NodeConfig": "config",
        "NodeDelay": "config",
        "NodeFacts": "node_file",
        "NodeRelay": "config",
        "NodeSetup": "node_setup",
        "NodeStatus": "status",
        "NoiseSource": "noise",
        "OLD_JOURNAL": "reminders",
        "OldJournal": "reminders",
        "OwnAccount": "ledger",
        "OwnClaim": "status",
        "OwnData": "config",
        "Owner": "owner",
        "Pace": "pace",
        "RELAY": "ssh_words",
        "RELAY_ALIAS": "ssh_words",
        "RESULT": "status",
        "STOPPED": "status",
        "Stopped": "updater",
        "Telemetry": "telemetry",
        "Wires": "driver",
        "account_of": "ledger",
        "final_claims": "claims",
        "final_epsilon": "claims",
        "forwards": "ssh_words",
        "hidden_from_whom": "status",
        "hidden_in_all_runs": "status",
        "is_old": "reminders",
        "is_within": "owner",
        "known_of": "lifetime",
        "learner_on": "learner",
        "life_totals": "lifetime",
        "make_learner": "learner",
        "metrics_text": "monitor",
        "no_budget": "config",
        "node_config_text": "config",
        "node_rows": "learner",
        "owner_path": "owner",
        "read_node_config": "config",
        "read_owner": "owner",
        "read_status": "status",
        "require_shared_data": "learner",
        "require_ssh": "tunnel",
        "ssh_words": "ssh_words",
        "status_text": "monitor",
        "unreached": "noise",
        "willing": "ledger",
        "write_node_model": "node_file",
    },
)
