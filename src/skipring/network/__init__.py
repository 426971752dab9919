"""The same protocol between real machines.

Its heart is a state machine without I/O: `Peer` is told what happened and answers with what is to be done. `Rules` is
what all nodes agree on, and `agreed_path` the order in which they are offered the token. `Memory` is what a node's
journal adds up to. It has rooms, each of which uses only those before it, and enters them through their `__init__`:

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
from .protocol import Action as Action
from .protocol import Ballot as Ballot
from .protocol import Copy as Copy
from .protocol import Entry as Entry
from .protocol import Kind as Kind
from .protocol import Memory as Memory
from .protocol import Message as Message
from .protocol import Peer as Peer
from .protocol import Place as Place
from .protocol import Rules as Rules
from .protocol import Token as Token
from .protocol import agreed_path as agreed_path

if TYPE_CHECKING:
    from .node import NodeBudget as NodeBudget
    from .node import NodeConfig as NodeConfig
    from .node import NodeStatus as NodeStatus
    from .node import budget_guarantee as budget_guarantee
    from .node import no_budget as no_budget
    from .node import read_node_config as read_node_config
    from .setup import AgreedNow as AgreedNow
    from .setup import Begun as Begun
    from .setup import ExitCode as ExitCode
    from .setup import GivenAway as GivenAway
    from .setup import LifeAccount as LifeAccount
    from .setup import LocalNetwork as LocalNetwork
    from .setup import NewSettings as NewSettings
    from .setup import NodeState as NodeState
    from .setup import Seen as Seen
    from .setup import Taken as Taken
    from .setup import Via as Via
    from .setup import agreed_now as agreed_now
    from .setup import agreed_run as agreed_run
    from .setup import another_network as another_network
    from .setup import ask_to_finish as ask_to_finish
    from .setup import check_node as check_node
    from .setup import differing_runs as differing_runs
    from .setup import given_away as given_away
    from .setup import is_node_folder as is_node_folder
    from .setup import life_account as life_account
    from .setup import make_network as make_network
    from .setup import next_run as next_run
    from .setup import node_result as node_result
    from .setup import node_status as node_status
    from .setup import own_file as own_file
    from .setup import pack_node as pack_node
    from .setup import pack_relay as pack_relay
    from .setup import parse_via as parse_via
    from .setup import read_network as read_network
    from .setup import relay_addresses as relay_addresses
    from .setup import renew_certificates as renew_certificates
    from .setup import run_node as run_node
    from .setup import run_notes as run_notes
    from .setup import running_pid as running_pid
    from .setup import save_node_model as save_node_model
    from .setup import seen_before_a_start as seen_before_a_start
    from .setup import set_steps as set_steps
    from .setup import stop_nodes as stop_nodes
    from .setup import update_node as update_node
    from .setup import verify_outcome as verify_outcome
    from .storage import LedgerBroken as LedgerBroken
    from .storage import LedgerUnusable as LedgerUnusable
    from .transport import Address as Address
    from .transport import Roster as Roster
    from .transport import parse_nodes as parse_nodes
    from .transport import read_roster as read_roster
    from .transport import renewed_in as renewed_in
    from .transport import require_cryptography as require_cryptography
    from .transport import spelled as spelled


__getattr__, __dir__ = lazily(__name__, __file__)
