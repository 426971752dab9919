"""A node's own settings: what it listens on, where its data and journal are, and how much it is ready to give away."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from ...delays import parse_delay
from ...errors import InvalidInput, given_as, require_delta, require_non_negative, require_positive
from .._files import Section, quoted, read_checked
from ..transport import Address, within

#: The name of an account, in a relay's address.
IS_USER = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
#: All interfaces of a machine, before the port that a node listens on.
_EVERYWHERE = re.compile(r"(0\.0\.0\.0|\[::\]):")


class OwnData(Section):
    """This node's own rows, which never leave it."""

    path: Path | None = Field(None, description="a file with this node's rows (csv, parquet or npz)")
    label: str | None = Field(None, description="the label's column in it")
    prepare: str | None = Field(None, description="module:function that gets the rows of each update ready")


def no_budget(names: Sequence[str]) -> str:
    """Say of nodes without a budget what that means for their data."""
    return (
        f"no budget: {', '.join(names)}; nothing stops updates however large epsilon becomes, until there is one in"
        " node.toml ([budget] epsilon = 1.0, delta = 1e-5)"
    )


class NodeBudget(Section):
    """What this node is ready to give away; others are not told. Without it there is no limit."""

    epsilon: float | None = Field(None, description="take part only while epsilon stays below")
    delta: float | None = Field(None, description="the delta of that epsilon")
    count: Literal["transcript", "releases"] = Field(
        "transcript", description="or releases: each in full, so that no recovery can raise epsilon later"
    )
    ledger: Path | None = Field(None, description="what all runs have given away of this data: epsilon is for life")

    def model_post_init(self, _: Any) -> None:
        """Refuse half a budget, or one that means nothing."""
        if self.epsilon is not None:
            require_positive("budget.epsilon", self.epsilon)
        if self.delta is not None:
            with given_as("budget.delta", instead_of="delta"):
                require_delta(self.delta)
        if (self.epsilon is None) != (self.delta is None):
            missing = "budget.epsilon" if self.epsilon is None else "budget.delta"
            raise InvalidInput.because(missing, "missing", "a budget is an epsilon and a delta")


class NodeDelay(Section):
    """A node that is late on purpose, so that stragglers can be shown on one machine."""

    law: str | None = Field(None, description="sleep before each update: exponential:1, gamma:0.25,1, ...")
    compute: str | None = Field(None, description="compute for so long on all rows of an update, as law spells it")


class NodeRelay(Section):
    """How a node that nobody can call reaches the others, and is reached: by way of a relay."""

    host: str = Field(description="where the relay is; the node keeps an ssh connection to it open")
    port: int = Field(2222, description="its port there")
    user: str = Field("skipring-relay", description="the account that it runs as")
    local: str = Field("127.0.0.1", description="the other nodes' ports are on this address of this machine")

    def model_post_init(self, _: Any) -> None:
        """Refuse what ssh could take for something else, and an address that others could reach."""
        with within("relay.host", self.host):
            Address(self.host, self.port)
        if IS_USER.fullmatch(self.user) is None:
            raise InvalidInput("relay.user", self.user, "the name of an account: small letters, digits, _ and -")
        if not Address(self.local, 1).is_loopback or self.local == "localhost":
            raise InvalidInput("relay.local", self.local, "an address of this machine alone, like 127.0.0.1")


class NodeConfig(Section):
    """The settings of one node; paths are absolute once they are read."""

    name: str
    listen: str | None = None  # nobody calls it then, and it calls the others
    metrics: str | None = None
    start_wait: float = 60.0
    linger: float = 600.0
    compute_limit: float = 600.0
    delay: NodeDelay = NodeDelay()
    journal: Path = Path("journal.sqlite")
    run: Path | None = None
    data: OwnData = OwnData()
    budget: NodeBudget = NodeBudget()
    relay: NodeRelay | None = None

    def model_post_init(self, _: Any) -> None:
        """Refuse an address that cannot be listened on."""
        if self.listen is not None:
            everywhere = _EVERYWHERE.match(self.listen)  # no address to reach a node at
            with within("listen", self.listen):
                Address.parse(f"localhost:{self.listen[everywhere.end() :]}" if everywhere else self.listen)
        if self.metrics is not None:
            require_loopback("metrics", self.metrics)
        for name, seconds in (("start_wait", self.start_wait), ("linger", self.linger)):
            require_non_negative(name, seconds)
        require_positive("compute_limit", self.compute_limit)
        if self.delay.law is not None:
            parse_delay(self.delay.law)
        if self.delay.compute is not None and parse_delay(self.delay.compute).mass_at_infinity > 0.0:
            raise InvalidInput.because("delay.compute", self.delay.compute, "a computation must end")


def require_loopback(key: str, address: str) -> Address:
    """Return an address that only this machine can reach; metrics are told without asking who asks."""
    reason = (
        "must be an address of this machine alone, 127.0.0.1:PORT or [::1]:PORT. A process that reaches it reads"
        " the node's epsilon, errors and progress, and nobody is asked for a key; let others in through a proxy"
        " that asks"
    )
    try:
        found = Address.parse(address)
    except InvalidInput:
        found = None
    if found is None or not found.is_loopback:
        raise InvalidInput.because(key, address, reason)
    return found


def read_node_config(path: str | Path, *, start: Path | None = None) -> NodeConfig:
    """Read a node's settings; relative paths in it start at its folder, or at `start`."""
    config = read_checked(path, NodeConfig, what="a node's settings")
    folder = Path(path).absolute().parent if start is None else start
    data, budget = config.data.path, config.budget
    ledger = None if budget.ledger is None else folder / budget.ledger
    laws = {key: _beside(law, folder) for key, law in config.delay if law is not None}
    return config.model_copy(
        update={
            "delay": config.delay.model_copy(update=laws),
            "journal": folder / config.journal,
            "run": None if config.run is None else folder / config.run,
            "data": config.data.model_copy(update={"path": None if data is None else folder / data}),
            "budget": budget.model_copy(update={"ledger": ledger}),
        }
    )


def _beside(law: str, folder: Path) -> str:
    """Return a law with the path of its file, if it has one, from the folder of the settings on."""
    kind, mark, file = law.partition(":")
    if kind not in ("trace", "empirical") or not mark:
        return law
    return f"{kind}:{folder / file.strip()}"


@dataclass(frozen=True, kw_only=True)
class NewNode:
    """What a new node starts with; its owner may change all of it but its name.

    Parameters
    ----------
    name : what the others call it.
    address : where they reach it; None if nobody calls it.
    metrics : the port of its metrics.
    delay : the law by which it is late on purpose.
    budget : what it is ready to give away.
    data : its own file.
    relay : by way of which others reach it: it listens where its tunnel ends.
    """

    name: str
    address: Address | None
    metrics: int
    delay: str | None = None
    budget: NodeBudget | None = None
    data: Path | None = None
    relay: NodeRelay | None = None


def node_config_text(node: NewNode, *, with_run: bool, with_schema: bool = False) -> str:
    """Return the settings of a new node; `with_schema`: the run says which column is the label, so they need not."""
    data, delay = node.data, node.delay
    own, late = OwnData.model_fields, NodeDelay.model_fields
    lines = [
        f"# The settings of node {node.name}: its own, others never see them. Relative paths start at this folder.",
        f"name = {quoted(node.name)}",
        _listen_line(node.address, node.relay),
        'journal = "journal.sqlite"    # what it must not forget; keep it and back it up',
        f'metrics = "127.0.0.1:{node.metrics}"    # /health, /metrics (Prometheus) and /status, for this machine alone',
        'run = "run.toml"' if with_run else '# run = "run.toml"    # what all nodes agreed on',
        "",
        "[data]",
        f"{'# ' if data is None else ''}path = {quoted(str(data or 'rows.csv'))}    # {own['path'].description}",
        *([] if with_schema else [f'# label = "outcome"    # {own["label"].description}']),
        "",
        "[budget]",
        *_budget_lines(NodeBudget() if node.budget is None else node.budget),
        "",
        "[delay]",
        f"{'# ' if delay is None else ''}law = {quoted(delay or 'gamma:0.25,1')}    # {late['law'].description}",
        *([] if node.relay is None else _relay_lines(node.relay)),
    ]
    return "\n".join(lines) + "\n"


def _listen_line(address: Address | None, relay: NodeRelay | None) -> str:
    if address is None:
        return "# listen: on nothing. Nobody calls this node; it calls the others"
    everywhere = "[::]" if ":" in address.host else "0.0.0.0"
    listen = str(address) if address.is_loopback else f"{everywhere}:{address.port}"
    reached = f"others reach it at {address}"
    if relay is not None:
        listen, reached = f"{relay.local}:{address.port}", f"others reach it at port {address.port} of the relay"
    return f"listen = {quoted(listen)}    # {reached}"


def _relay_lines(relay: NodeRelay) -> list[str]:
    fields = NodeRelay.model_fields
    return [
        "",
        "[relay]",
        f"host = {quoted(relay.host)}    # {fields['host'].description}",
        f"port = {relay.port}    # {fields['port'].description}",
        f"user = {quoted(relay.user)}    # {fields['user'].description}",
        f"local = {quoted(relay.local)}    # {fields['local'].description}",
    ]


def _budget_lines(budget: NodeBudget) -> list[str]:
    fields = NodeBudget.model_fields
    count = f'# count = "transcript"    # {fields["count"].description}'
    ledger = f'# ledger = "../ledgers/rows.ledger"    # {fields["ledger"].description}'
    if budget.epsilon is None:
        return [
            f"# epsilon = 2.0    # {fields['epsilon'].description}; without a budget there is no limit",
            f"# delta = 1e-5    # {fields['delta'].description}",
            count,
            ledger,
        ]
    return [
        "# What the run was asked to keep. The node refuses its turns once one more update would exceed it; the noise",
        "# alone keeps it only if few others are skipped. It is this node's own: change it freely, nobody is told.",
        f"epsilon = {budget.epsilon!r}    # {fields['epsilon'].description}",
        f"delta = {budget.delta!r}    # {fields['delta'].description}",
        count,
        ledger,
    ]
