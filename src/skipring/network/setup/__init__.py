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
    from .again import begin_again as begin_again
    from .agreed import agreed_run as agreed_run
    from .agreed import asked_budget as asked_budget
    from .agreed import notes_on as notes_on
    from .agreed import require_data as require_data
    from .agreed import run_text as run_text
    from .agreed import timeout_of_a_law as timeout_of_a_law
    from .agreed import why_nobody_skipped as why_nobody_skipped
    from .agreed import without_shared_file as without_shared_file
    from .agreed_order import in_whole_rounds as in_whole_rounds
    from .agreed_order import with_designed_order as with_designed_order
    from .agreed_values import MOST_STEPS as MOST_STEPS
    from .agreed_values import agreement_of as agreement_of
    from .agreed_values import quorum_of as quorum_of
    from .agreed_values import require_network_run as require_network_run
    from .authority import has_authority as has_authority
    from .checks import check_network as check_network
    from .checks import check_node as check_node
    from .checks import is_node_folder as is_node_folder
    from .exit_codes import ExitCode as ExitCode
    from .finishing import ask_to_finish as ask_to_finish
    from .folders import ASKED as ASKED
    from .folders import make_network as make_network
    from .giving import GivenAway as GivenAway
    from .giving import KnownByObserver as KnownByObserver
    from .giving import NodeModel as NodeModel
    from .giving import given_away as given_away
    from .giving import save_node_model as save_node_model
    from .hooks import Hook as Hook
    from .hooks import hooks_of as hooks_of
    from .lifelong import LedgerLine as LedgerLine
    from .lifelong import LedgerTotal as LedgerTotal
    from .lifelong import LifeAccount as LifeAccount
    from .lifelong import life_account as life_account
    from .load import load_node as load_node
    from .load import open_journal as open_journal
    from .load import terms_of as terms_of
    from .local import LocalNetwork as LocalNetwork
    from .local import NodeState as NodeState
    from .local import node_result as node_result
    from .local import node_status as node_status
    from .local import read_network as read_network
    from .local import running_pid as running_pid
    from .local import set_steps as set_steps
    from .local import stop_nodes as stop_nodes
    from .members import Members as Members
    from .members import all_have_files as all_have_files
    from .members import begin_with_others as begin_with_others
    from .members import members_of as members_of
    from .pack import pack_node as pack_node
    from .pack import pack_relay as pack_relay
    from .places import around_node as around_node
    from .places import is_here as is_here
    from .places import place_problems as place_problems
    from .process import run_node as run_node
    from .readiness import budget_notes as budget_notes
    from .readiness import differing_runs as differing_runs
    from .readiness import run_notes as run_notes
    from .readiness import why_not_started as why_not_started
    from .relay import Via as Via
    from .relay import parse_via as parse_via
    from .relay import relay_addresses as relay_addresses
    from .renew import Renewed as Renewed
    from .renew import renew_certificates as renew_certificates
    from .run_mark import new_identity as new_identity
    from .take_update import Taken as Taken
    from .take_update import update_node as update_node
    from .verify import Verified as Verified
    from .verify import verify_outcome as verify_outcome


__getattr__, __dir__ = lazily(__name__)
