"""Nodes that nobody can call meet at a relay: real ssh, an sshd with the configuration that was written for it."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import chaos
import pytest
import relays
from networks import ended, free_ports
from test_monitor import STATUS

from skipring.cli._main import main
from skipring.cli._nodes_view import word_of
from skipring.network.node import NodeConfig, forwards, read_node_config, ssh_words
from skipring.network.setup import (
    ExitCode,
    NodeState,
    Via,
    check_network,
    check_node,
    load_node,
    node_status,
    pack_node,
    pack_relay,
    relay_addresses,
)
from skipring.network.setup.relay import service_text
from skipring.network.setup.ssh_keys import new_ssh_key
from skipring.network.transport import read_roster

NODES = 3
needs_sshd = pytest.mark.skipif(bool(relays.why_no_relay()), reason=relays.why_no_relay())


def make(folder: Path, steps: int = 30, delay: str | None = None) -> None:
    """Make a network that meets at a relay on this machine."""
    first = free_ports(NODES + 1)
    via = Via("127.0.0.1", first + NODES, relays.account())
    addresses = relay_addresses(NODES, first, via)
    chaos.make(folder, addresses, steps=steps, delay=delay, timeout=1.0, lease=0.5, silence=5.0, via=via)


def ssh_processes(folder: Path) -> list[str]:
    """Return the tunnels of a network's nodes that are there, whoever has started them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words, where = path.read_bytes().split(b"\0"), os.readlink(path.with_name("cwd"))
        except OSError:
            continue
        if words[0] == b"ssh" and where.startswith(str(folder)):
            found.append(" ".join(map(os.fsdecode, words)))
    return found


@needs_sshd
def test_nodes_meet_at_a_relay(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    make(folder)
    with relays.Relay(folder) as relay, chaos.Network(folder) as network:
        relay.start()
        network.start()
        network.finish()
        assert relay.said().count("Accepted publickey") >= NODES
    assert chaos.check_all(network).lost == 0
    assert not ssh_processes(folder)


@needs_sshd
@pytest.mark.slow
def test_a_relay_that_comes_goes_and_comes_back(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    make(folder, steps=60, delay="constant:0.1")
    with relays.Relay(folder) as relay, chaos.Network(folder) as network:
        network.start()
        network.wait("told that there is no relay", lambda: "Connection refused" in said(network, "node1"))
        status = node_status(network.configs[0])
        assert status is not None
        assert (status.reachable, status.hop) == (0, 0)
        assert "Connection refused" in (status.relay or "")
        relay.start()
        network.wait("told that there is one", lambda: all(map(is_open, network.configs)))
        # Each asks for a session, so that the relay sends small packets to it at once.
        network.wait("hastened", lambda: relay.said().count("Starting session: forced-command") >= NODES)
        network.wait("begun", lambda: sum(bool(reading.releases) for reading in network.readings()) == NODES)
        relay.kill()
        network.wait("alone", lambda: all(map(is_alone, network.configs)))
        assert said(network, "node1").count('"event": "relay", "state": "down", "why": ') >= 2
        # A node that is killed takes its tunnel along: else it would keep the ports of the next one.
        network.gone.add("node3")
        network.kill("node3")
        network.wait("gone with its node", lambda: not ssh_processes(folder / "node3"))
        relay.start()
        network.gone.discard("node3")
        network.finish()
    assert chaos.check_all(network).lost == 0
    assert not ssh_processes(folder)


def is_alone(config: NodeConfig) -> bool:
    """Whether a node says that it reaches neither the relay nor anybody."""
    status = node_status(config)
    return status is not None and status.relay != "open" and status.reachable == 0


def is_open(config: NodeConfig) -> bool:
    """Whether a node says that it reaches the relay."""
    status = node_status(config)
    return status is not None and status.relay == "open"


def said(network: chaos.Network, name: str) -> str:
    """Return the log of a node."""
    return (network.folder / name / "node.log").read_text()


@pytest.fixture(scope="module")
def met(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, relays.Relay]]:
    """Return a network that nobody runs, and its relay, which runs."""
    if relays.why_no_relay():
        pytest.skip(relays.why_no_relay())
    folder = tmp_path_factory.mktemp("relay") / "network"
    make(folder)
    with relays.Relay(folder) as relay:
        relay.start()
        yield folder, relay


def words_of(node: Path, *before: str, forward: bool = True) -> list[str]:
    """Return what a node calls ssh with, and other options before its own."""
    config, roster = read_node_config(node / "node.toml"), read_roster(node / "roster.toml")
    assert config.relay is not None
    through = forwards(roster, roster.index(config.name), config.relay.local, config.listen or "") if forward else []
    options, host = ssh_words(config.relay, through)
    return ["ssh", *before, *options, "--", host]


def ssh(node: Path, *words: str) -> str:
    """Call the relay as a node does, with other options before its own; return what ssh said when it ended."""
    call = words_of(node, "-o", "LogLevel=VERBOSE", *words)
    done = subprocess.run(call, cwd=node / "relay", capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 255, done
    return done.stderr


def port_of(folder: Path, node: int) -> int:
    return load_node(folder / "node1" / "node.toml").roster.ports[node]


def test_the_relay_lets_nobody_in_whom_it_does_not_know(met: tuple[Path, relays.Relay], tmp_path: Path) -> None:
    folder, relay = met
    shutil.copytree(folder / "node1", tmp_path / "node1")
    (tmp_path / "node1" / "relay" / "ssh.key").write_bytes(new_ssh_key()[0])
    assert "Permission denied (publickey)" in ssh(tmp_path / "node1", "-N")
    assert "Permission denied (publickey)" in ssh(folder / "node1", "-N", "-o", "User=root")
    assert "Failed publickey" in relay.said() or "Connection closed by authenticating user" in relay.said()


@pytest.mark.parametrize(
    ("asked", "refused"),
    [
        ("-R 127.0.0.1:{other}:127.0.0.1:9", "remote port forwarding failed for listen port {other}"),
        ("-R 0.0.0.0:{own}:127.0.0.1:9", "remote port forwarding failed for listen port {own}"),
        ("-R *:0:127.0.0.1:9", "remote port forwarding failed"),
        ("-R 127.0.0.1:{free}:127.0.0.1:9", "remote port forwarding failed for listen port {free}"),
        ("-R /tmp/skipring-relay.socket:127.0.0.1:9", "forwarding failed"),
    ],
)
def test_a_node_gets_its_own_port_at_the_relay_and_no_other(
    met: tuple[Path, relays.Relay], asked: str, refused: str
) -> None:
    folder, _ = met
    words = {"own": port_of(folder, 0), "other": port_of(folder, 1), "free": free_ports(1)}
    text = ssh(folder / "node1", "-N", *asked.format(**words).split())  # it asks for its own port as well
    assert "Authenticated to" in text
    assert refused.format(**words) in text


def test_the_relay_gives_no_shell_and_calls_nothing_but_nodes(met: tuple[Path, relays.Relay]) -> None:
    folder, relay = met
    node = folder / "node1"
    call = words_of(node, forward=False)
    for asked in (call, [*call, "id"], [*words_of(node, "-s", forward=False), "sftp"]):
        done = subprocess.run(
            asked, cwd=folder / "node1" / "relay", input="id\n", capture_output=True, text=True, timeout=30, check=False
        )
        assert done.returncode != 0, asked
        assert "uid=" not in done.stdout
    with socket.create_server(("127.0.0.1", 0)) as inside:  # something else that the relay's machine could reach
        where = f"127.0.0.1:{inside.getsockname()[1]}"
        assert "administratively prohibited" in ssh(folder / "node1", "-W", where)
    # The port of another node is allowed; there is nobody at present.
    assert "Connection refused" in ssh(folder / "node1", "-W", f"127.0.0.1:{port_of(folder, 1)}")
    assert "prohibited" in ssh(folder / "node1", "-W", f"127.0.0.1:{port_of(folder, 0)}")
    assert "Starting session: forced-command (config) '/bin/false'" in relay.said()


def test_a_node_talks_to_no_other_relay(met: tuple[Path, relays.Relay]) -> None:
    """Somebody else at its address has another key, and is not told who calls."""
    folder, _ = met
    with relays.Relay(folder) as other:
        (other.folder / "relay" / "ssh_host_ed25519_key").write_bytes(new_ssh_key()[0])
        port = free_ports(1)
        other.start("-o", f"Port={port}")
        text = ssh(folder / "node1", "-N", "-p", str(port))
        assert "Host key verification failed" in text
        assert "Accepted" not in other.said()


def test_a_node_that_comes_back_gets_its_port_at_once(met: tuple[Path, relays.Relay], tmp_path: Path) -> None:
    """Its last connection is there, and nobody at its other end: so it is after an uplink was replaced."""
    folder, relay = met
    words = words_of(folder / "node2", "-N")
    shutil.copytree(folder / "node2" / "relay", tmp_path / "relay")
    own = next(word for word in words if word.startswith("RemoteForward="))
    again = words_of(folder / "node2", "-N", "-o", own, forward=False)  # the old one still has the ports of the others
    before = relay.said().count("User child is on pid")
    with subprocess.Popen(words, cwd=folder / "node2" / "relay") as old:
        try:
            wait(lambda: is_lent(folder, 1))
            old.send_signal(signal.SIGSTOP)
            tries = 0
            while True:  # the first may come before the port is free
                with subprocess.Popen(again, cwd=tmp_path / "relay") as new:
                    tries += 1
                    try:
                        with contextlib.suppress(subprocess.TimeoutExpired):
                            new.wait(2.0)
                            assert tries < 10, relay.said()
                            continue
                        assert is_lent(folder, 1)
                        break
                    finally:
                        new.kill()
        finally:
            old.kill()
    assert relay.said().count("User child is on pid") == before + tries + 1
    wait(lambda: not is_lent(folder, 1))


def is_lent(folder: Path, node: int) -> bool:
    """Whether the relay listens for a node."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port_of(folder, node))) == 0


def wait(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60.0
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


@needs_sshd
def test_no_option_is_unknown_to_ssh(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    make(folder)
    told = subprocess.run(
        words_of(folder / "node2", "-G"),
        cwd=folder / "node2" / "relay",
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = dict(line.split(" ", 1) for line in told.splitlines())
    assert options["hostkeyalias"] == "skipring-relay"
    assert options["stricthostkeychecking"] == "true"
    assert options["exitonforwardfailure"] == "yes"
    assert told.count("localforward") == NODES - 1
    sshd = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") or "sshd"
    with relays.Relay(folder) as relay:
        settings, host_key = (str(relay.folder / "relay" / file) for file in ("sshd_config", "ssh_host_ed25519_key"))
        asked = [*relays.as_account(), sshd, "-T", "-f", settings, "-h", host_key]
        told = subprocess.run(asked, capture_output=True, text=True, check=True).stdout
    assert "maxsessions 1\n" in told
    assert "forcecommand /bin/false\n" in told
    assert "gatewayports no\n" in told
    assert "passwordauthentication no\n" in told


def test_each_gets_its_own_files_and_nobody_elses(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    make(folder)
    packed: dict[str, dict[str, bytes]] = {}
    modes: dict[str, int] = {}
    for name in ("node1", "node2", "relay"):
        archive = tmp_path / f"{name}.tar.gz"
        pack_relay(folder, archive) if name == "relay" else pack_node(folder, name, archive)
        with tarfile.open(archive) as opened:
            modes |= {entry.name: entry.mode for entry in opened}
            packed[name] = {
                entry.name: (opened.extractfile(entry) or io.BytesIO()).read() for entry in opened if entry.isfile()
            }
    assert {path for path in packed["node1"] if "/relay/" in path} == {
        f"node1/relay/{file}" for file in ("known_hosts", "ssh.key")
    }
    keys = {name: [text for text in files.values() if b"PRIVATE KEY" in text] for name, files in packed.items()}
    assert [len(found) for found in keys.values()] == [2, 2, 1]
    assert len({text for found in keys.values() for text in found}) == 5
    for name, text in (("node2", "node.key"), ("node2", "relay/ssh.key")):
        secret = (folder / name / text).read_bytes()
        assert secret not in packed["relay"].values()
        assert secret not in packed["node1"].values()
    secret_files = {name for name, mode in modes.items() if mode == 0o600}
    assert {"node1/relay/ssh.key", "node1/node.key", "relay/ssh_host_ed25519_key"} <= secret_files
    assert modes["relay/start"] == 0o755
    # What was packed is enough.
    with tarfile.open(tmp_path / "node1.tar.gz") as opened:
        opened.extractall(tmp_path / "there", filter="tar")
    assert check_node(tmp_path / "there" / "node1").problems == ()


def test_files_of_the_relay_are_checked(tmp_path: Path) -> None:
    folder = tmp_path / "network"
    make(folder)

    def problems() -> dict[str, tuple[str, ...]]:
        return {one.name: one.problems for one in check_network(folder) if one.problems}

    assert problems() == {}
    key, host = folder / "node1" / "relay" / "ssh.key", folder / "relay" / "ssh_host_ed25519_key"
    key.chmod(0o644)
    host.chmod(0o640)
    assert problems() == {
        "node1": ("relay/ssh.key can be used by others: its mode is 0644, not 0600",),
        "relay": ("ssh_host_ed25519_key can be used by others: its mode is 0640, not 0600",),
    }
    key.chmod(0o600)
    host.chmod(0o600)
    before = key.read_bytes()
    key.write_bytes(new_ssh_key()[0])
    assert problems() == {"relay": ("authorized_keys does not let node1 in with its key and its port",)}
    key.write_bytes(b"no key")
    assert problems() == {"node1": ("relay/ssh.key is not an ed25519 key of OpenSSH",)}
    key.write_bytes(before)
    before = host.read_bytes()
    host.write_bytes(new_ssh_key()[0])
    assert len(problems()["relay"]) == NODES
    assert "node1 knows the relay by another key" in problems()["relay"][0]
    host.write_bytes(before)
    hosts = folder / "node2" / "relay" / "known_hosts"
    text = hosts.read_text()
    hosts.write_text(text.replace("skipring-relay", "*"))
    assert "does not say by which key the relay is known" in problems()["node2"][0]
    hosts.unlink()
    assert problems()["node2"] == ("relay/known_hosts is missing, or cannot be read",)
    hosts.write_text(text)
    shutil.copy(key, folder / "relay" / "a.key")
    assert problems() == {"relay": ("a.key is another key; it must not be here",)}
    shutil.copy(key, folder / "node2" / "relay" / "a.key")
    assert problems()["node2"] == ("relay/a.key is another key; it must not be here",)
    shutil.rmtree(folder / "relay")  # it was packed, and is needed nowhere else
    (folder / "node2" / "relay" / "a.key").unlink()
    assert problems() == {}


def test_a_node_without_ssh_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "network"
    make(folder)
    monkeypatch.setenv("PATH", str(tmp_path))
    code, told = ended(folder / "node1" / "node.toml")
    assert code == ExitCode.SETTINGS
    assert told["why"] == ("relay ssh: is not installed, and the relay is reached with it; on Debian: openssh-client")


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--via", "a host"], "--via a host: its host must be a host name or an IP address"),
        (["--via", "host:0"], "--via host:0: its port must be between 1 and 65535"),
        (["--via", "A B@host"], "--via A B@host: A B is not the name of an account"),
        (["--via", "h", "--port", "2221"], "--port 2221: the relay itself listens on 2222"),
        (["--via", "h", "--host", "10.0.0.1"], "--host 10.0.0.1: with --via nodes have no addresses of their own"),
        (["--via", "h", "--nodes", "a=x,b=y"], "--nodes a=x,b=y: with --via nodes have no addresses of their own"),
        (["--nodes", "a,relay"], "--nodes relay: is the name of the relay's folder"),
    ],
)
def test_bad_words_get_one_line(
    words: list[str],
    line: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    given = words if "--nodes" in words else ["--nodes", "3", *words]
    monkeypatch.setattr(sys, "argv", ["skipring", "network", "init", str(tmp_path / "network"), *given])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"error: {line}")
    assert told.count("\n") == 1
    assert not (tmp_path / "network").exists()


def test_the_command_says_where_nodes_meet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def skipring(*words: str) -> dict[str, object]:
        monkeypatch.setattr(sys, "argv", ["skipring", *words, "--json"])
        main()
        found: dict[str, object] = json.loads(capsys.readouterr().out)
        return found

    folder = tmp_path / "network"
    made = skipring("network", "init", str(folder), "--nodes", "a,b,c", "--via", "relay.example.org:443")
    assert made["relay"] == {
        "address": "skipring-relay@relay.example.org:443",
        "folder": str(folder / "relay"),
    }
    config = read_node_config(folder / "b" / "node.toml")
    assert config.listen == "127.1.0.2:7601"
    assert config.relay is not None
    assert (config.relay.host, config.relay.port) == ("relay.example.org", 443)
    packed = skipring("network", "pack", "relay", "--dir", str(folder), "--out", str(tmp_path / "relay.tar.gz"))
    assert packed["node"] == "relay"
    plain = tmp_path / "plain"
    skipring("network", "init", str(plain), "--nodes", "a,b,c")
    monkeypatch.setattr(sys, "argv", ["skipring", "network", "pack", "relay", "--dir", str(plain)])
    with pytest.raises(SystemExit):
        main()
    assert "NODE relay: this network has none" in re.sub(r"\s+", " ", capsys.readouterr().err)


def test_people_who_look_on_are_told_that_the_relay_is_away() -> None:
    state = NodeState("clinic-3", running=True, status=dataclasses.replace(STATUS, relay="Connection refused"))
    assert word_of(state) == "relay: Connection refused"
    state.status = dataclasses.replace(STATUS, relay="open")
    assert "relay" not in word_of(state)


def test_the_service_in_the_archive_is_the_one_in_the_repository() -> None:
    path = Path(__file__).parents[2] / "deploy" / "skipring-relay.service"
    assert path.read_text() == service_text(Via.user)
