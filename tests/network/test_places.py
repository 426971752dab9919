"""`network check` tries what a node will do: it writes where the node writes, under the rules of the service, too."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from networks import init_net, small_run, wait_for
from spending import Spender
from test_deploy import GUIDE, unit

from skipring.network.node import read_node_config

Command = Callable[..., Any]
RUN = small_run(12, "noise_multiplier = 3.0")


def budget(net: Path, lines: str) -> Path:
    """Give the first node a budget; return its settings."""
    settings = net / "node1" / "node.toml"
    settings.write_text(settings.read_text().replace("[budget]", f"[budget]\n{lines}", 1))
    return settings


@pytest.mark.parametrize("folder", ["/proc", "nowhere"])
def test_a_ledger_that_cannot_be_written_is_found(skipring_words: Command, tmp_path: Path, folder: str) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    budget(net, f'ledger = "{folder}/rows.ledger"')
    for place in ("net", "net/node1"):
        answer = skipring_words("network", "check", place)
        assert answer.code == 1
        (line,) = answer.out.splitlines()
        assert line.startswith("node1: budget.ledger = ")
        assert ("a node writes to the folder /proc, and cannot" if folder == "/proc" else "nowhere") in line
    (net / "node1" / "nowhere").mkdir()
    if folder == "nowhere":
        answer = skipring_words("network", "check", "net/node1", "--json")
        assert answer.data["checked"][0]["writes"] == [str(net / "node1"), str(net / "node1" / "nowhere")]
        assert not list((net / "node1" / "nowhere").iterdir())  # nothing is left


def test_a_ledger_that_is_a_link_to_nothing_is_found(skipring_words: Command, tmp_path: Path) -> None:
    """No node makes a ledger through a link, wherever it leads."""
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    settings = budget(net, 'ledger = "rows.ledger"')
    (net / "node1" / "rows.ledger").symlink_to(tmp_path / "elsewhere")
    answer = skipring_words("network", "check", "net/node1")
    assert (answer.code, len(answer.out.splitlines())) == (1, 1), answer
    assert "rows.ledger: is a link to a file that does not exist" in answer.out
    assert skipring_words("node", "run", str(settings)).code == 2


def test_ports_in_use_are_found(skipring_words: Command, tmp_path: Path) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    config = read_node_config(net / "node1" / "node.toml")
    for key, where in (("listen", config.listen), ("metrics", config.metrics)):
        assert where is not None
        with socket.create_server(("127.0.0.1", int(where.rpartition(":")[2]))):
            for place in ("net", "net/node1"):
                answer = skipring_words("network", "check", place)
                assert (answer.code, len(answer.out.splitlines())) == (1, 1)
                assert answer.out.startswith(f"node1: {key} = {where}: cannot be listened on: in use")
    assert skipring_words("network", "check", "net").code == 0


def test_a_node_that_runs_is_not_in_its_own_way(skipring_words: Command, tmp_path: Path) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    words = [sys.executable, "-m", "skipring", "node", "run", str(net / "node1" / "node.toml")]
    node = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    try:
        wait_for((net / "node1" / "node.pid").exists)
        config = read_node_config(net / "node1" / "node.toml")
        port = int((config.listen or "").rpartition(":")[2])
        with socket.socket() as probe:
            wait_for(lambda: probe.connect_ex(("127.0.0.1", port)) == 0)
        answer = skipring_words("network", "check", "net/node1")
        assert answer.code == 0, answer
        assert f"Node node1 runs (process {node.pid})" in answer.out
        assert skipring_words("network", "check", "net").code == 0
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(30)


def test_a_budget_without_room_for_one_update_is_found(skipring_words: Command, tmp_path: Path) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    settings = budget(net, "epsilon = 0.01\ndelta = 1e-5")
    for place in ("net", "net/node1"):
        answer = skipring_words("network", "check", place)
        assert answer.code == 1
        (line,) = answer.out.splitlines()
        # Noise of 3 is 2/3-GDP, and that is epsilon 2.79 at this delta.
        assert re.match(
            r"node1: budget\.epsilon = 0\.01: has no room for one update \(epsilon would be 2\.\d+ at", line
        )
    # It is found, too, once the node was started and has refused all of its turns; and the node says so itself.
    assert skipring_words("network", "up", "net").code == 0
    assert (net / "node1" / "journal.sqlite").exists()
    assert "has no room for one update" in skipring_words("network", "check", "net").out
    assert "has no room for one update" in (net / "node1" / "node.log").read_text()
    settings.write_text(settings.read_text().replace("epsilon = 0.01", "epsilon = 3.0"))
    assert skipring_words("network", "check", "net").code == 0


def test_what_other_runs_have_given_away_leaves_less_room(skipring_words: Command, tmp_path: Path) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    settings = budget(net, 'epsilon = 4.0\ndelta = 1e-5\nledger = "../rows.ledger"')
    assert skipring_words("network", "check", "net").code == 0
    other = Spender(tmp_path, "another", ledger=net / "rows.ledger")
    other.update(9)  # of another unit, and of these rows all the same
    other.close()
    answer = skipring_words("network", "check", "net")
    assert answer.code == 1
    assert "has no room for one update (with what the ledger has, epsilon would be 5." in answer.out
    settings.write_text(settings.read_text().replace("epsilon = 4.0", "epsilon = 9.0"))
    assert skipring_words("network", "check", "net").code == 0


@pytest.mark.parametrize("given", ["0.0.0.0:8600", "[::]:8600", "10.0.0.1:8600", ":8600"])
def test_metrics_for_others_are_refused_with_the_reason(skipring_words: Command, tmp_path: Path, given: str) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    settings = net / "node1" / "node.toml"
    settings.write_text(re.sub(r'metrics = ".*?"', f'metrics = "{given}"', settings.read_text()))
    answer = skipring_words("network", "check", "net/node1")
    assert answer.code == 1
    line = answer.out.splitlines()[0]
    assert f"metrics = {given}: must be an address of this machine alone, 127.0.0.1:PORT or [::1]:PORT" in line
    assert "A process that reaches it reads" in line


def why_no_mounts() -> str:
    """Say why nobody can be put under the rules of the service here; nothing if somebody can."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        return "a read-only file system needs root, and unshare"
    tried = subprocess.run(["unshare", "-m", "mount", "--bind", "/tmp", "/tmp"], capture_output=True, check=False)
    return "" if tried.returncode == 0 else "mounting is not allowed here"


def under_the_service(folder: Path, node: str, *words: str) -> list[str]:
    """Return a command in which a node's machine can be written to only where the unit says, with its folder here."""
    granted = [
        Path(word.lstrip("-").replace("%i", node).replace("/var/lib/skipring", str(folder)))
        for word in unit()["Service"]["ReadWritePaths"].split()
    ]
    top = next(place for place in (folder, *folder.parents) if os.path.ismount(place))
    mounts = [f"mount --bind {place} {place}" for place in granted if place.exists()]
    script = " && ".join(["mount --make-rprivate /", *mounts, f"mount -o remount,bind,ro {top}", 'exec "$@"'])
    return ["unshare", "-m", "sh", "-c", script, "sh", sys.executable, "-m", "skipring", *words]


@pytest.mark.skipif(bool(why_no_mounts()), reason=why_no_mounts())
def test_the_ledger_of_the_guide_works_under_the_service(skipring_words: Command, tmp_path: Path) -> None:
    net = init_net(skipring_words, tmp_path, RUN, "--nodes", "2")
    (example,) = re.findall(r'^    ledger = "(.*?)"', GUIDE, re.MULTILINE)
    settings = budget(net, 'ledger = "../rows.ledger"')

    def check() -> subprocess.CompletedProcess[str]:
        words = under_the_service(net, "node1", "network", "check", str(net / "node1"))
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)

    refused = check()
    assert refused.returncode == 1, refused
    assert "cannot: Read-only file system" in refused.stdout
    settings.write_text(settings.read_text().replace("../rows.ledger", example))
    (net / "ledgers").mkdir()
    assert "install -d -o skipring -g skipring -m 0700 /var/lib/skipring/ledgers" in GUIDE
    passed = check()
    assert passed.returncode == 0, passed
    assert f"writes to {net / 'node1'} and {net / 'ledgers'}" in " ".join(passed.stdout.split())
    log = tmp_path / "log"
    with open(log, "w") as file:
        words = under_the_service(net, "node1", "node", "run", str(settings))
        node = subprocess.Popen(words, stderr=file)
        try:
            wait_for(lambda: '"event": "started"' in log.read_text() or node.poll() is not None)
        finally:
            node.send_signal(signal.SIGTERM)
            code = node.wait(30)
    assert code == 0, log.read_text()
    assert (net / "ledgers" / "rows.ledger").exists()
