"""What a node is given before it runs: all that decides what it does, and where it leaves what comes out."""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from ..._json import to_json
from ..._writing import whole_file, write_file
from ...delays import Delay
from ...errors import InvalidInput
from ...learning import Learner, PrepareRows
from ...models import Inputs
from ...privacy import Guarantee
from ...runs import FLOOR, RunFile
from ..protocol import Memory, Rules, Token
from ..storage import LedgerFile, chunks_of, size_of
from ..transport import (
    CERTIFICATE,
    Address,
    Agreement,
    Keys,
    Notary,
    OutcomeCertificate,
    Roster,
    RunSeal,
    RunShape,
    Statement,
    Way,
)
from .account_terms import AccountTerms
from .config import NodeConfig, read_node_config
from .monitor import status_text
from .node_file import NodeFacts, write_node_model
from .owner import read_owner
from .pace import AdaptivePace, FixedPace, Pace
from .ssh_words import forwards, ssh_words
from .status import RESULT, STOPPED, NodeStatus, read_status

#: Norms are computed from rounded numbers; this much above the bound is rounding.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class NodeSetup:
    """Everything that decides what a node does."""

    name: str
    me: int
    config: NodeConfig
    roster: Roster
    run: RunFile
    keys: Keys
    learner: Learner
    agreement: Agreement
    rules: Rules
    terms: AccountTerms
    initial: Token
    delay: Delay | None
    #: What a model of this run is given, so that its owner can predict with it.
    inputs: Inputs
    #: What no epsilon covers, if nodes share a data set, and what else its owner may not expect.
    not_covered: str | None = None
    notes: tuple[str, ...] = ()
    #: A node that computes slowly on purpose.
    compute: Delay | None = None
    #: What its owner has rows got ready with, before each update.
    prepare_rows: PrepareRows | None = None
    #: What all runs have given away of this node's data, if its owner keeps a ledger of it.
    ledger: LedgerFile | None = None
    #: The folder of its settings, keys and certificates; that of its journal, if nothing is said.
    home: Path | None = None

    @property
    def dialled(self) -> Roster:
        """The roster with the addresses that this node dials: with a relay, ports of its own machine."""
        relay = self.config.relay
        if relay is None:
            return self.roster
        return replace(self.roster, addresses=tuple(Address(relay.local, port) for port in self.roster.ports))

    def ssh_words(self) -> tuple[list[str], str]:
        """Return what ssh is called with to reach the relay, wherever the settings say now that it is."""
        relay, settings = self.config.relay, self.folder / "node.toml"
        with contextlib.suppress(InvalidInput):  # they are being written
            relay = read_node_config(settings).relay or relay
        assert relay is not None
        through = forwards(self.roster, self.me, relay.local, self.config.listen or "")
        return ssh_words(relay, through, read_owner(self.folder).ssh.proxy_command)

    @property
    def shape(self) -> RunShape:
        """What tokens look like."""
        return RunShape(np.dtype(self.learner.dtype).str, size_of(self.initial.parameters), self.rules.steps)

    @property
    def delta(self) -> float:
        """The delta at which this node tells its epsilon: its own budget's, or else the run's."""
        own = self.config.budget.delta
        return self.run.privacy.delta if own is None else own

    @property
    def identity(self) -> str:
        """The run's, by which a ledger knows it; a run between nodes has one."""
        return self.run.network.identity or self.agreement.digest.hex()

    @property
    def folder(self) -> Path:
        """The node's folder, where its keys and certificates are."""
        return self.home if self.home is not None else self.config.journal.parent

    @property
    def models(self) -> Path:
        """The folder that large models are kept in, beside the journal."""
        return Path(f"{self.config.journal}-models")

    def new_pace(self) -> Pace:
        """Return how long this node waits for others; what it has learned before it was stopped, it knows."""
        if self.run.delay.timeout != "adaptive":
            return FixedPace(self.rules.timeout)
        pace = AdaptivePace(shortest=FLOOR if self.run.delay.floor is None else self.run.delay.floor)
        with contextlib.suppress(OSError, ValueError):
            kept = json.loads(self._pace_file.read_text(encoding="utf-8"))
            if kept.get("run") == self.agreement.digest.hex():
                pace.recall(kept)
        return pace

    def keep_pace(self, pace: Pace) -> None:
        """Write down what was learned about how long turns take; if it is lost, it is learned anew."""
        if isinstance(pace, AdaptivePace):
            known = json.dumps({"run": self.agreement.digest.hex(), **pace.learned})
            with contextlib.suppress(OSError):
                write_file(self._pace_file, known, synced=False)

    @property
    def _pace_file(self) -> Path:
        return self.config.journal.parent / "pace.json"

    def check_parameters(self, parameters: Any) -> str:
        """Say why parameters that arrived cannot be a model of this run; nothing if they can."""
        if size_of(parameters) != self.shape.size:
            return f"a model of {size_of(parameters)} bytes, not {self.shape.size}"
        square = 0.0
        try:
            for chunk in chunks_of(parameters, 1 << 20):
                values = np.frombuffer(chunk, dtype=self.learner.dtype)
                if not np.isfinite(values).all():
                    return "a model with numbers that are not finite"
                wide = values.astype(np.float64)
                with np.errstate(over="ignore"):
                    square += float(wide @ wide)
        except OSError as error:
            return f"a model that cannot be read: {error.strerror}"
        if not math.isfinite(square) or not math.sqrt(square) <= self.learner.radius * (1.0 + _ROUNDING):
            return f"a model of norm {math.sqrt(square):.6g}, and {self.learner.radius:g} is the largest"
        return ""

    def write_model(self, parameters: Any) -> None:
        """Write the final model where its owner finds it: model.npy in the node's folder."""
        header = {"descr": self.shape.dtype, "fortran_order": False, "shape": self.learner.shape}
        with whole_file(self.config.journal.parent / "model.npy") as file:
            np.lib.format.write_array_header_1_0(file, header)
            for chunk in chunks_of(parameters, 1 << 20):
                file.write(chunk)

    def write_trained(self, token: Token, guarantee: Guarantee) -> None:
        """Write the same as a model that can be used: model.npz in the node's folder, with this node's own account."""
        about = NodeFacts(self.name, self.run, self.agreement.digest.hex(), guarantee)
        write_node_model(self.config.journal.parent / "model.npz", token, self.inputs, about, self.shape.dtype)

    @property
    def seal(self) -> RunSeal:
        """What the node signs with: its own key, for this run alone."""
        notary = Notary(self.roster, self.keys.key.read_bytes())
        return RunSeal(notary, self.agreement.digest)

    def write_certificate(self, memory: Memory) -> None:
        """Write the votes for the final model beside it, so that a reader who has the roster can check it later."""
        assert memory.outcome is not None
        assert memory.decided is not None
        statement = Statement.of(self.agreement.digest, memory.decided, memory.outcome)
        way = Way(memory.outcome.chain, self.rules.steps, dict(memory.asked))
        certificate = OutcomeCertificate(statement, dict(memory.votes), way)
        write_file(self.config.journal.parent / CERTIFICATE, certificate.to_json(self.roster))

    def left_at_a_stop(self) -> NodeStatus | None:
        """Return what the node knew when it was last told to stop, if it has not run since."""
        return read_status(self.config.journal.parent / STOPPED)

    def forget_the_stop(self) -> None:
        """Take away what the node left when it was told to stop: it runs again."""
        (self.config.journal.parent / STOPPED).unlink(missing_ok=True)

    def write_result(self, status: NodeStatus, name: str = RESULT) -> None:
        """Write what the node knows at the end, or when it is told to stop: a file in its folder."""
        write_file(self.config.journal.parent / name, status_text(to_json(status)) + "\n")
