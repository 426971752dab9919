"""A node's own settings: what it listens on, where its data and journal are, and how much it is ready to give away."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import Field

from ..errors import InvalidInput, require_delta, require_positive
from ._files import Section, quoted, read_checked
from .roster import Address

__all__ = ["NodeBudget", "NodeConfig", "NodeData", "read_node_config"]


class NodeData(Section):
    """This node's own rows, which never leave it."""

    path: Path | None = Field(None, description="a file with this node's rows (csv, parquet or npz)")
    label: str | None = Field(None, description="the label's column in it")


class NodeBudget(Section):
    """What this node is ready to give away; others are not told. Without it there is no limit."""

    epsilon: float | None = Field(None, description="take part only while epsilon stays below")
    delta: float | None = Field(None, description="the delta of that epsilon")

    def model_post_init(self, _: Any) -> None:
        """Refuse half a budget, or one that means nothing."""
        if self.epsilon is not None:
            require_positive("epsilon", self.epsilon)
        if self.delta is not None:
            require_delta(self.delta)
        if (self.epsilon is None) != (self.delta is None):
            missing = "epsilon" if self.epsilon is None else "delta"
            raise InvalidInput.because(missing, "missing", "a budget is an epsilon and a delta")


class NodeConfig(Section):
    """The settings of one node; paths are absolute once they are read."""

    name: str
    listen: str
    journal: Path = Path("journal.sqlite")
    run: Path | None = None
    data: NodeData = NodeData()
    budget: NodeBudget = NodeBudget()

    def model_post_init(self, _: Any) -> None:
        """Refuse an address that cannot be listened on."""
        if not self.listen.startswith(("0.0.0.0:", "[::]:")):  # all interfaces; no address to reach a node at
            Address.parse(self.listen)
        else:
            Address.parse("localhost:" + self.listen.rpartition(":")[2])


def read_node_config(path: str | Path) -> NodeConfig:
    """Read a node's settings; relative paths in it start at its folder."""
    config = read_checked(path, NodeConfig, what="a node's settings")
    folder = Path(path).absolute().parent
    data = config.data.path
    return config.model_copy(
        update={
            "journal": folder / config.journal,
            "run": None if config.run is None else folder / config.run,
            "data": config.data.model_copy(update={"path": None if data is None else folder / data}),
        }
    )


def node_config_text(name: str, address: Address, *, with_run: bool) -> str:
    """Return the settings that a new node starts with."""
    everywhere = "[::]" if ":" in address.host else "0.0.0.0"
    listen = str(address) if address.is_loopback else f"{everywhere}:{address.port}"
    data, budget = NodeData.model_fields, NodeBudget.model_fields
    lines = [
        f"# The settings of node {name}: its own, others never see them. Relative paths start at this folder.",
        f"name = {quoted(name)}",
        f"listen = {quoted(listen)}    # others reach it at {address}",
        'journal = "journal.sqlite"    # what it must not forget; keep it and back it up',
        'run = "run.toml"' if with_run else '# run = "run.toml"    # what all nodes agreed on',
        "",
        "[data]",
        f'# path = "rows.csv"    # {data["path"].description}',
        f'# label = "outcome"    # {data["label"].description}',
        "",
        "[budget]",
        f"# epsilon = 2.0    # {budget['epsilon'].description}; without a budget there is no limit",
        f"# delta = 1e-5    # {budget['delta'].description}",
    ]
    return "\n".join(lines) + "\n"
