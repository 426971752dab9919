"""From a run file and names to folders, from folders to nodes that run, and what their owners can ask of them.

`agreed_run` leaves nothing open, `make_network` makes the folders, `pack_node` what an owner is sent; `check_node` and
`why_not_started` look before a start. `load_node` and `open_journal` give a node what it needs, `run_node` is its
process and `LocalNetwork` those of all. `given_away` tells what it has cost, `life_account` what all runs have. Loaded
when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily

if TYPE_CHECKING:
    from .again import begin_again
    from .agreed import (
        agreed_run,
        asked_budget,
        notes_on,
        require_data,
        run_text,
        timeout_of_a_law,
        why_nobody_skipped,
        without_shared_file,
    )
    from .agreed_order import in_whole_rounds, with_designed_order
    from .agreed_values import MOST_STEPS, agreement_of, quorum_of, require_network_run
    from .authority import has_authority
    from .checks import check_network, check_node, is_node_folder
    from .exit_codes import ExitCode
    from .finishing import ask_to_finish
    from .folders import ASKED, make_network
    from .giving import GivenAway, KnownByObserver, NodeModel, given_away, save_node_model
    from .hooks import Hook, hooks_of
    from .lifelong import LedgerLine, LedgerTotal, LifeAccount, life_account
    from .load import load_node, open_journal, terms_of
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
    from .members import Members, all_have_files, begin_with_others, members_of
    from .pack import pack_node, pack_relay
    from .places import around_node, is_here, place_problems
    from .process import run_node
    from .readiness import budget_notes, differing_runs, run_notes, why_not_started
    from .relay import Via, parse_via, relay_addresses
    from .renew import Renewed, renew_certificates
    from .run_mark import new_identity
    from .take_update import Taken, update_node
    from .verify import Verified, verify_outcome

__all__ = [
    "ASKED",
    "MOST_STEPS",
    "ExitCode",
    "GivenAway",
    "Hook",
    "KnownByObserver",
    "LedgerLine",
    "LedgerTotal",
    "LifeAccount",
    "LocalNetwork",
    "Members",
    "NodeModel",
    "NodeState",
    "Renewed",
    "Taken",
    "Verified",
    "Via",
    "agreed_run",
    "agreement_of",
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
    "hooks_of",
    "in_whole_rounds",
    "is_here",
    "is_node_folder",
    "life_account",
    "load_node",
    "make_network",
    "members_of",
    "new_identity",
    "node_result",
    "node_status",
    "notes_on",
    "open_journal",
    "pack_node",
    "pack_relay",
    "parse_via",
    "place_problems",
    "quorum_of",
    "read_network",
    "relay_addresses",
    "renew_certificates",
    "require_data",
    "require_network_run",
    "run_node",
    "run_notes",
    "run_text",
    "running_pid",
    "save_node_model",
    "set_steps",
    "stop_nodes",
    "terms_of",
    "timeout_of_a_law",
    "update_node",
    "verify_outcome",
    "why_nobody_skipped",
    "why_not_started",
    "with_designed_order",
    "without_shared_file",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "NodeModel": "giving",
        "ask_to_finish": "finishing",
        "has_authority": "authority",
        "update_node": "take_update",
        "Taken": "take_update",
        "renew_certificates": "renew",
        "Renewed": "renew",
        "members_of": "members",
        "all_have_files": "members",
        "begin_with_others": "members",
        "Members": "members",
        "ASKED": "folders",
        "GivenAway": "giving",
        "Hook": "hooks",
        "hooks_of": "hooks",
        "KnownByObserver": "giving",
        "LedgerLine": "lifelong",
        "LedgerTotal": "lifelong",
        "LifeAccount": "lifelong",
        "LocalNetwork": "local",
        "MOST_STEPS": "agreed_values",
        "NodeState": "local",
        "Verified": "verify",
        "Via": "relay",
        "agreed_run": "agreed",
        "timeout_of_a_law": "agreed",
        "why_nobody_skipped": "agreed",
        "in_whole_rounds": "agreed_order",
        "with_designed_order": "agreed_order",
        "without_shared_file": "agreed",
        "agreement_of": "agreed_values",
        "asked_budget": "agreed",
        "begin_again": "again",
        "check_network": "checks",
        "check_node": "checks",
        "given_away": "giving",
        "is_node_folder": "checks",
        "life_account": "lifelong",
        "load_node": "load",
        "make_network": "folders",
        "new_identity": "run_mark",
        "node_result": "local",
        "node_status": "local",
        "notes_on": "agreed",
        "open_journal": "load",
        "pack_node": "pack",
        "pack_relay": "pack",
        "around_node": "places",
        "budget_notes": "readiness",
        "is_here": "places",
        "parse_via": "relay",
        "place_problems": "places",
        "quorum_of": "agreed_values",
        "read_network": "local",
        "relay_addresses": "relay",
        "require_data": "agreed",
        "require_network_run": "agreed_values",
        "run_node": "process",
        "ExitCode": "exit_codes",
        "differing_runs": "readiness",
        "run_notes": "readiness",
        "run_text": "agreed",
        "running_pid": "local",
        "save_node_model": "giving",
        "set_steps": "local",
        "stop_nodes": "local",
        "terms_of": "load",
        "verify_outcome": "verify",
        "why_not_started": "readiness",
    },
)
