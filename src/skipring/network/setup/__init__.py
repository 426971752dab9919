"""From a run file and names to folders, from folders to nodes that run, and what their owners can ask of them.

`agreed_now` leaves nothing open, `make_network` makes the folders, `pack_node` what an owner is sent; `next_run` begins
another, `seen_before_a_start` looks. `load_node` and `open_journal` give a node what it needs, `run_node` is its
process and `LocalNetwork` those of all. `given_away` tells what it has cost, `life_account` what all runs have. Loaded
when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .agreed import agreed_run, asked_budget, notes_on, run_text
    from .agreed_order import with_designed_order
    from .agreed_values import MOST_STEPS, agreement_of, quorum_of, require_network_run
    from .agreeing import AgreedNow, agreed_now, own_file
    from .another_run import Begun, next_run
    from .checks import check_network, check_node, is_node_folder
    from .exit_codes import ExitCode
    from .finishing import ask_to_finish
    from .folders import NewSettings, make_network
    from .giving import GivenAway, KnownByObserver, NodeModel, given_away, save_node_model
    from .hooks import Hook, hooks_of
    from .lifelong import LedgerLine, LedgerTotal, LifeAccount, life_account
    from .load import load_node, open_journal, terms_of
    from .local import (
        LocalNetwork,
        NodeState,
        another_network,
        node_result,
        node_status,
        read_network,
        running_pid,
        set_steps,
        stop_nodes,
    )
    from .looking import Seen, seen_before_a_start
    from .new_run import begin_new_run
    from .pack import pack_node, pack_relay
    from .process import run_node
    from .readiness import differing_runs, run_notes, why_not_started
    from .relay import Via, parse_via, relay_addresses
    from .renew import Renewed, renew_certificates
    from .run_mark import new_identity
    from .take_update import Taken, update_node
    from .verify import Verified, verify_outcome


__getattr__, __dir__ = lazily(__name__, __file__)
