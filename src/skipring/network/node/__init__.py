"""One node at work: it drives the protocol, makes its updates, and keeps the account of what they give away.

`Node` is the whole of it: its `Driver` does what the protocol asks for, over `Wires`; `Telemetry` counts it.
`NodeSetup` is what it is given, of which `NodeConfig` is its owner's part. What it computes is `node_rows` and
`learner_on`, what it costs `OwnAccount`, and what its owner sees `NodeStatus` and `Monitor`. Loaded when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .account_terms import AccountTerms as AccountTerms
    from .claims import final_claims as final_claims
    from .claims import final_epsilon as final_epsilon
    from .config import IS_USER as IS_USER
    from .config import NodeBudget as NodeBudget
    from .config import NodeConfig as NodeConfig
    from .config import NodeDelay as NodeDelay
    from .config import NodeRelay as NodeRelay
    from .config import OwnData as OwnData
    from .config import no_budget as no_budget
    from .config import node_config_text as node_config_text
    from .config import read_node_config as read_node_config
    from .driver import Driver as Driver
    from .driver import Wires as Wires
    from .finish import FINISH as FINISH
    from .learner import NO_ROWS as NO_ROWS
    from .learner import learner_on as learner_on
    from .learner import make_learner as make_learner
    from .learner import node_rows as node_rows
    from .learner import require_shared_data as require_shared_data
    from .ledger import OwnAccount as OwnAccount
    from .ledger import account_of as account_of
    from .ledger import willing as willing
    from .lifetime import CountedJournal as CountedJournal
    from .lifetime import Lifetime as Lifetime
    from .lifetime import LifeTotal as LifeTotal
    from .lifetime import known_of as known_of
    from .lifetime import life_totals as life_totals
    from .monitor import Monitor as Monitor
    from .monitor import metrics_text as metrics_text
    from .monitor import status_text as status_text
    from .node import Node as Node
    from .node_file import NodeFacts as NodeFacts
    from .node_file import write_node_model as write_node_model
    from .node_setup import NodeSetup as NodeSetup
    from .noise import NoiseSource as NoiseSource
    from .noise import unreached as unreached
    from .owner import Owner as Owner
    from .owner import is_within as is_within
    from .owner import owner_path as owner_path
    from .owner import read_owner as read_owner
    from .pace import AdaptivePace as AdaptivePace
    from .pace import FixedPace as FixedPace
    from .pace import Pace as Pace
    from .reminders import OLD_JOURNAL as OLD_JOURNAL
    from .reminders import OldJournal as OldJournal
    from .reminders import is_old as is_old
    from .ssh_words import NODE_KEY as NODE_KEY
    from .ssh_words import RELAY as RELAY
    from .ssh_words import RELAY_ALIAS as RELAY_ALIAS
    from .ssh_words import forwards as forwards
    from .ssh_words import ssh_words as ssh_words
    from .status import ALL_RUNS as ALL_RUNS
    from .status import RESULT as RESULT
    from .status import STOPPED as STOPPED
    from .status import NodeStatus as NodeStatus
    from .status import OwnClaim as OwnClaim
    from .status import hidden_from_whom as hidden_from_whom
    from .status import hidden_in_all_runs as hidden_in_all_runs
    from .status import read_status as read_status
    from .telemetry import Telemetry as Telemetry
    from .tunnel import require_ssh as require_ssh
    from .updater import Stopped as Stopped


__getattr__, __dir__ = lazily(__name__)
