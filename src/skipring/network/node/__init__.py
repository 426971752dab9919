"""One node at work: it drives the protocol, makes its updates, and keeps the account of what they give away.

`Node` is the whole of it: its `Driver` does what the protocol asks for, over `Wires`; `Telemetry` counts it.
`NodeSetup` is what it is given, of which `NodeConfig` is its owner's part. What it computes is what `make_learner`
returns, what it costs `OwnAccount`, and what its owner sees `NodeStatus` and `Monitor`. Loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .account_terms import AccountTerms
    from .claims import budget_guarantee, final_epsilon, life_guarantee, model_guarantee, run_guarantee
    from .config import (
        IS_USER,
        NewNode,
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
    from .learner import NO_ROWS, make_learner, node_rows, require_shared_data
    from .ledger import OwnAccount, willing
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
    from .status import RESULT, STOPPED, NodeStatus, read_status
    from .telemetry import Telemetry
    from .tunnel import require_ssh
    from .updater import Stopped


__getattr__, __dir__ = lazily(__name__, __file__)
