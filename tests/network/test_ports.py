"""Nodes on one machine have ports of their own, also one that nobody can call, and two that share one are found."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from networks import free_ports, small_run

from skipring.network.node import read_node_config
from skipring.network.setup import check_network, make_network
from skipring.network.transport import Address, parse_nodes, read_roster, spelled

Command = Callable[..., Any]
RUN = small_run(12, 'noise_multiplier = 3.0\nprotects = "node"')


def test_one_that_nobody_can_call_runs_beside_the_others_and_joins_them(
    skipring_words: Command, tmp_path: Path
) -> None:
    first = free_ports(4)
    (tmp_path / "asked-for.toml").write_text(RUN)
    nodes = f"a=127.0.0.1:{first},b=127.0.0.1:{first + 1},c=outgoing"
    made = skipring_words("network", "init", "net", "--nodes", nodes, "--run", "asked-for.toml")
    assert made.code == 0, made.err
    metrics = [read_node_config(tmp_path / "net" / name / "node.toml").metrics for name in "abc"]
    assert metrics == [f"127.0.0.1:{first + port}" for port in (1000, 1001, 1002)]
    assert skipring_words("network", "check", "net").code == 0
    done = skipring_words("network", "up", "net")
    assert done.code == 0, done.err
    # Of two such nodes nobody could call either; but one may take the place of another.
    refused = skipring_words("network", "new-run", "net", "--add", "d=outgoing")
    assert (refused.code, "c, d: nobody can call either of them" in " ".join(refused.err.split())) == (2, True)
    again = skipring_words("network", "new-run", "net", "--remove", "c", "--add", "d=outgoing")
    assert again.code == 0, again.err
    roster = read_roster(tmp_path / "net" / "roster.toml")
    assert dict(zip(roster.names, map(spelled, roster.addresses), strict=True)) == {
        "a": f"127.0.0.1:{first}",
        "b": f"127.0.0.1:{first + 1}",
        "d": "outgoing",
    }
    joined = read_node_config(tmp_path / "net" / "d" / "node.toml")
    assert (joined.listen, joined.metrics) == (None, f"127.0.0.1:{first + 1002}")
    assert skipring_words("network", "check", "net").code == 0
    done = skipring_words("network", "up", "net")
    assert done.code == 0, done.err


@pytest.mark.parametrize(
    ("nodes", "who", "old", "new", "reason"),
    [
        # As networks were made before.
        (
            "a=127.0.0.1:7600,b=127.0.0.1:7601,c=outgoing",
            "c",
            ":8602",
            ":8600",
            "metrics 127.0.0.1:8600 is in use by a (metrics 127.0.0.1:8600): on one machine each needs its own",
        ),
        (
            "a=localhost:7600,b=127.0.0.1:7601,c=127.0.0.1:7602",
            "b",
            '"127.0.0.1:7601"',
            '"0.0.0.0:7600"',
            "listen 0.0.0.0:7600 is in use by a (listen localhost:7600)",
        ),
        ("a=h.example:7600,b=h.example:7601,c=i", "b", ":8601", ":7600", "metrics 127.0.0.1:7600 is in use by a"),
        ("a=h.example,b=i.example,c=outgoing", "c", ":8601", ":8600", None),  # three machines
        ("a=h.example,b=i.example,c=k.example", "c", "listen", "listen", None),
    ],
)
def test_two_on_one_machine_with_one_port_are_found(
    tmp_path: Path, nodes: str, who: str, old: str, new: str, reason: str | None
) -> None:
    make_network(tmp_path / "net", *parse_nodes(nodes))
    assert [node.problems for node in check_network(tmp_path / "net")] == [()] * 4
    settings = tmp_path / "net" / who / "node.toml"
    assert old in settings.read_text()
    settings.write_text(settings.read_text().replace(old, new))
    found = {node.name: node.problems for node in check_network(tmp_path / "net") if node.problems}
    assert list(found) == ([] if reason is None else [who])
    assert reason is None or reason in found[who][0]


def test_metrics_do_not_take_the_port_on_which_another_node_listens(tmp_path: Path) -> None:
    make_network(tmp_path / "net", *parse_nodes("a=127.0.0.1:7600,b=127.0.0.1:8600,c=h.example,d=127.0.0.1:65000"))
    configs = [read_node_config(tmp_path / "net" / name / "node.toml") for name in "abcd"]
    ports = [Address.parse(config.metrics or "").port for config in configs]
    assert ports == [8601, 9600, 8600, 64000]
