"""Who the nodes are: certificates, rosters, what is packed and what is refused."""

from __future__ import annotations

import hashlib
import shutil
import socket
import ssl
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.network.node import read_node_config
from skipring.network.setup import check_network, check_node, make_network, pack_node
from skipring.network.transport import (
    Address,
    Roster,
    node_uri,
    parse_nodes,
    peer_name,
    read_roster,
    server_name,
    spelled,
)
from skipring.network.transport import certificates as x

Command = Callable[[str], Any]
NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A network of a, b and c on this machine, which tests only read."""
    folder = tmp_path_factory.mktemp("networks") / "net"
    make_network(folder, *parse_nodes("a,b,c"))
    return folder


@pytest.fixture
def net(shared: Path, tmp_path: Path) -> Path:
    """A copy of it to spoil."""
    return Path(shutil.copytree(shared, tmp_path / "net"))


def der(folder: Path) -> bytes:
    return ssl.PEM_cert_to_DER_cert((folder / "node.crt").read_text())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def authority_of(net: Path) -> x.Authority:
    key = x.private_key((net / "ca" / "ca.key").read_bytes())
    certificate = x.certificate((net / "ca" / "ca.crt").read_bytes())
    assert key is not None
    assert certificate is not None
    return x.Authority(key, certificate)


RUN = """
[data]
name = "breast-cancer"
[model]
name = "logistic"
[schedule]
steps = 12
[delay]
timeout = 20.0
[privacy]
protects = "node"
noise_multiplier = 3.0
[network]
identity = "2026-03-01-000102030405060708090a0b"
"""


def forge(
    folder: Path,
    authority: x.Authority,
    name: str,
    *,
    uri: str | None = None,
    begin: timedelta = -timedelta(hours=1),
    end: timedelta = timedelta(days=100),
) -> Path:
    """Put a new key and certificate into a folder."""
    folder.mkdir(exist_ok=True)
    key, certificate = x.issue(
        authority, name, (server_name(name), "127.0.0.1"), uri or node_uri(name), NOW + begin, NOW + end
    )
    (folder / "node.key").write_bytes(x.key_pem(key))
    (folder / "node.key").chmod(0o600)
    (folder / "node.crt").write_bytes(x.certificate_pem(certificate))
    return folder


# The folder


def test_a_network_has_a_folder_for_each_node_and_keys_only_their_owner_can_read(shared: Path) -> None:
    assert sorted(p.name for p in shared.iterdir()) == ["a", "b", "c", "ca", "roster.toml"]
    own = ["ca.crt", "node.crt", "node.key", "node.toml", "roster.toml"]
    for name in "abc":
        assert sorted(p.name for p in (shared / name).iterdir()) == own
        assert mode(shared / name / "node.key") == 0o600
        assert (shared / name / "roster.toml").read_bytes() == (shared / "roster.toml").read_bytes()
        assert (shared / name / "ca.crt").read_bytes() == (shared / "ca" / "ca.crt").read_bytes()
    assert mode(shared / "ca" / "ca.key") == 0o600
    assert mode(shared) == 0o700
    assert list(shared.parent.iterdir()) == [shared]


def test_the_roster_has_the_fingerprints_of_the_certificates(shared: Path) -> None:
    roster = read_roster(shared / "roster.toml")
    assert roster.names == ("a", "b", "c")
    assert [str(address) for address in roster.addresses] == [f"127.0.0.1:{7600 + i}" for i in range(3)]
    assert roster.fingerprints == tuple(hashlib.sha256(der(shared / name)).hexdigest() for name in "abc")


def test_an_interrupted_init_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    issue, calls = x.issue, []

    def interrupted(*arguments: Any) -> Any:
        calls.append(arguments)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return issue(*arguments)

    monkeypatch.setattr(x, "issue", interrupted)
    with pytest.raises(KeyboardInterrupt):
        make_network(tmp_path / "net", *parse_nodes("4"))
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_nothing_and_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("skipring.network.setup.folders.write_file", full)
    with pytest.raises(InvalidInput, match="No space left on device"):
        make_network(tmp_path / "net", *parse_nodes("4"))
    assert list(tmp_path.iterdir()) == []


# Certificates, as others see them


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the openssl command")
def test_openssl_agrees(shared: Path) -> None:
    def openssl(*words: str) -> str:
        done = subprocess.run(["openssl", *words], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    roster = read_roster(shared / "roster.toml")
    for name, fingerprint in zip(roster.names, roster.fingerprints, strict=True):
        node = shared / name
        for purpose in ("sslserver", "sslclient"):
            words = ["-x509_strict", "-purpose", purpose, "-CAfile", f"{node}/ca.crt", "-verify_ip", "127.0.0.1"]
            assert openssl("verify", *words, f"{node}/node.crt").strip().endswith("OK")
        text = openssl("x509", "-in", f"{node}/node.crt", "-noout", "-text", "-fingerprint", "-sha256")
        assert f"URI:skipring://node/{name}" in text
        assert f"DNS:{name}.node.skipring" in text
        assert f"CN = {name}" in text or f"CN={name}" in text
        assert "TLS Web Server Authentication, TLS Web Client Authentication" in text
        assert "NIST CURVE: P-256" in text
        assert fingerprint in text.replace(":", "").lower()
    refused = subprocess.run(
        ["openssl", "verify", "-CAfile", f"{shared}/a/node.crt", f"{shared}/b/node.crt"],
        capture_output=True,
        check=False,
    )
    assert refused.returncode != 0


def handshake(
    server: Path, client: Path | None, *, trusts: Path | None = None, host: str = "127.0.0.1"
) -> tuple[bytes, bytes]:
    """Connect over TLS 1.3 on loopback; both ends return the other's certificate, or the first error is raised."""
    inner = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inner.load_cert_chain(server / "node.crt", server / "node.key")
    inner.load_verify_locations(server / "ca.crt")
    inner.verify_mode = ssl.CERT_REQUIRED
    outer = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    outer.load_verify_locations((trusts or server) / "ca.crt")
    if client is not None:
        outer.load_cert_chain(client / "node.crt", client / "node.key")
    inner.minimum_version = outer.minimum_version = ssl.TLSVersion.TLSv1_3
    seen: list[bytes] = []
    errors: list[Exception] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(5)

        def serve() -> None:
            try:
                raw, _ = listener.accept()
                raw.settimeout(5)
                with inner.wrap_socket(raw, server_side=True) as end:
                    seen.append(end.getpeercert(binary_form=True) or b"")
                    end.sendall(b"hello")
            except OSError as error:
                errors.append(error)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            with (
                socket.create_connection(listener.getsockname(), timeout=5) as raw,
                outer.wrap_socket(raw, server_hostname=host) as end,
            ):
                assert end.version() == "TLSv1.3"
                other = end.getpeercert(binary_form=True) or b""
                heard = end.recv(5)  # in TLS 1.3 a client learns only here that it was refused
        except OSError as error:
            thread.join()
            raise (errors[0] if errors else error) from None
        thread.join()
    if errors:
        raise errors[0]
    assert heard == b"hello"
    return seen[0], other


def test_nodes_connect_and_know_each_other(shared: Path) -> None:
    roster = read_roster(shared / "roster.toml")
    of_client, of_server = handshake(shared / "a", shared / "b")
    assert peer_name(of_client, roster) == "b"
    assert peer_name(of_server, roster) == "a"


def test_tls_refuses_a_server_that_is_another_node_of_the_same_host(shared: Path) -> None:
    handshake(shared / "c", shared / "a", host=server_name("c"))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        handshake(shared / "b", shared / "a", host=server_name("c"))


def test_tls_refuses_a_client_without_a_certificate(shared: Path) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)did not return a certificate"):
        handshake(shared / "a", None)


def test_tls_refuses_another_authoritys_node_of_the_same_name(shared: Path, tmp_path: Path) -> None:
    make_network(tmp_path / "other", *parse_nodes("a,b"))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.verify.failed"):
        handshake(shared / "a", tmp_path / "other" / "b")
    with pytest.raises(ssl.SSLError, match="unknown ca"):
        handshake(tmp_path / "other" / "a", shared / "b", trusts=shared / "b")


def test_tls_refuses_an_expired_certificate(net: Path, tmp_path: Path) -> None:
    old = forge(tmp_path / "old", authority_of(net), "b", begin=timedelta(days=-9), end=timedelta(days=-1))
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate has expired"):
        handshake(net / "a", old)


def test_a_nodes_own_key_cannot_sign_for_others(net: Path, tmp_path: Path) -> None:
    key, own = (
        x.private_key((net / "b" / "node.key").read_bytes()),
        x.certificate((net / "b" / "node.crt").read_bytes()),
    )
    assert key is not None
    assert own is not None
    forged = forge(tmp_path / "forged", x.Authority(key, own), "c")
    with (forged / "node.crt").open("ab") as chain:
        chain.write((net / "b" / "node.crt").read_bytes())
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate.verify.failed"):
        handshake(net / "a", forged)


# Whose certificate it is


def test_b_cannot_pass_as_c(net: Path, tmp_path: Path) -> None:
    roster = read_roster(net / "roster.toml")
    assert peer_name(der(net / "b"), roster) == "b"
    authority = authority_of(net)
    second = forge(tmp_path / "second", authority, "c")  # even the authority cannot make a second c
    assert peer_name(handshake(net / "a", net / "c")[0], roster) == "c"
    accepted_by_tls, _ = handshake(net / "a", second)
    with pytest.raises(InvalidInput, match="not the one that the roster has for node c"):
        peer_name(accepted_by_tls, roster)


def with_key(roster: Roster, name: str, certificate: bytes) -> Roster:
    keys, found = list(roster.keys), x.certificate(certificate)
    assert found is not None
    keys[roster.index(name)] = str(x.key_of(found))
    return replace(roster, keys=tuple(keys))


def test_a_peer_is_refused_with_the_reason(net: Path, tmp_path: Path) -> None:
    roster, authority = read_roster(net / "roster.toml"), authority_of(net)

    def refused(certificate: bytes, reason: str, known: Roster = roster) -> None:
        with pytest.raises(InvalidInput, match=reason) as problem:
            peer_name(certificate, known)
        assert "\n" not in str(problem.value)

    refused(b"", "is not a certificate")
    refused(b"\x30\x82" + b"\xff" * 50, "is not a certificate")
    refused(der(net / "b")[:-1], "is not a certificate")
    refused(der(forge(tmp_path / "d", authority, "d")), "unknown: 'd' is no node")
    refused(der(forge(tmp_path / "web", authority, "b", uri="https://b.example")), "bound to no node's name")
    refused(ssl.PEM_cert_to_DER_cert((net / "ca" / "ca.crt").read_text()), "bound to no node's name")
    swapped = der(forge(tmp_path / "swapped", authority, "b", uri=node_uri("c")))
    refused(swapped, "not the one that the roster has for node c", with_key(roster, "b", swapped))
    refused(swapped, "wrong name", with_key(roster, "c", swapped))
    old = der(forge(tmp_path / "old", authority, "b", begin=timedelta(days=-9), end=timedelta(days=-1)))
    refused(old, "expired on", with_key(roster, "b", old))
    early = der(forge(tmp_path / "early", authority, "b", begin=timedelta(days=1), end=timedelta(days=2)))
    refused(early, "is not valid before", with_key(roster, "b", early))


# Rosters and settings


def test_a_roster_keeps_its_digest_however_it_is_laid_out(shared: Path, tmp_path: Path) -> None:
    roster = read_roster(shared / "roster.toml")
    (tmp_path / "again.toml").write_text("# another comment\n" + roster.to_toml().replace(" = ", "="))
    again = read_roster(tmp_path / "again.toml")
    assert again == roster
    assert again.digest == roster.digest
    turned = Roster(roster.names[::-1], roster.addresses[::-1], roster.fingerprints[::-1], roster.keys[::-1])
    moved = replace(roster, addresses=(Address("h", 1), *roster.addresses[1:]))
    swapped = replace(roster, keys=roster.keys[::-1])
    assert len({roster.digest, turned.digest, moved.digest, swapped.digest}) == 4


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('name = "b"', 'name = "a"', "nodes = a: is named twice"),
        ('name = "b"', 'name = "A"', "is named twice"),
        ('name = "b"', 'name = "../b"', "letters, digits"),
        ('name = "b"', "name = 3", r"node.1.name = 3: must be a text in quotes"),
        ('name = "b"', "", "node.1.name is missing"),
        ("127.0.0.1:7601", "127.0.0.1:7600", "is the address of two nodes"),
        ("127.0.0.1:7601", "127.0.0.1:0", "port = 0: must be between"),
        ("127.0.0.1:7601", "127.0.0.1:70000", "port = 70000: must be between"),
        ("127.0.0.1:7601", "127.0.0.1", "of the form host:port"),
        ("127.0.0.1:7601", "::1:7601", "brackets"),
        ("127.0.0.1:7601", "1.2.3.400:7601", "host name or an IP"),
        ("127.0.0.1:7601", "0.0.0.0:7601", "can reach"),
        ('fingerprint = "', 'fingerprint = "0', "64 hexadecimal digits"),
        ('key = "', 'key = "0', "66 hexadecimal digits"),
        ("\nkey = ", "\n# key = ", "node.0.key is missing"),
        ("[[node]]", "[[knot]]", "knot is not a key of a roster|node is missing"),
        ("[[node]]", "[[node", "is not TOML"),
    ],
)
def test_a_bad_roster_is_refused_in_one_line(shared: Path, tmp_path: Path, old: str, new: str, reason: str) -> None:
    file = tmp_path / "roster.toml"
    file.write_text((shared / "roster.toml").read_text().replace(old, new))
    with pytest.raises(InvalidInput, match=reason) as problem:
        read_roster(file)
    assert "\n" not in str(problem.value)
    assert str(file) in str(problem.value)


def test_a_roster_needs_two_nodes_with_two_certificates() -> None:
    one, two = Address("127.0.0.1", 1), Address("127.0.0.1", 2)
    with pytest.raises(InvalidInput, match="at least 2"):
        Roster(("a",), (one,), ("0" * 64,), ("02" + "0" * 64,))
    two_keys = ("02" + "0" * 64, "03" + "0" * 64)
    with pytest.raises(InvalidInput, match=r"fingerprint = 0+: belongs to two nodes"):
        Roster(("a", "b"), (one, two), ("0" * 64, "0" * 64), two_keys)
    with pytest.raises(InvalidInput, match=r"key = 020+: belongs to two nodes"):
        Roster(("a", "b"), (one, two), ("0" * 64, "1" * 64), two_keys[:1] * 2)
    with pytest.raises(InvalidInput, match="each needs"):
        Roster(("a", "b"), (one,), ("0" * 64, "1" * 64), two_keys)


def test_ports_count_up_on_one_host_and_stay_on_several() -> None:
    def addresses(text: str, **more: Any) -> list[str]:
        return [str(address) for address in parse_nodes(text, **more)[1]]

    assert addresses("3", port=9000) == ["127.0.0.1:9000", "127.0.0.1:9001", "127.0.0.1:9002"]
    assert addresses("a,b", host="::1") == ["[::1]:7600", "[::1]:7601"]
    assert addresses("a=x.example,b=y.example,c=[2001:db8::1]") == [
        "x.example:7600",
        "y.example:7600",
        "[2001:db8::1]:7600",
    ]
    assert addresses("a=x:1,b", host="y") == ["x:1", "y:7600"]
    with pytest.raises(InvalidInput, match="address of two nodes"):
        addresses("a=x,b=x,c=y")


def test_of_two_nodes_the_later_one_calls_unless_it_is_the_other_that_nobody_can_call(tmp_path: Path) -> None:
    roster = make_network(tmp_path / "net", *parse_nodes("a=x.example,b=outgoing,c=y.example"))
    assert read_roster(tmp_path / "net" / "roster.toml") == roster
    assert [spelled(address) for address in roster.addresses] == ["x.example:7600", "outgoing", "y.example:7600"]
    assert {(one, other) for one in range(3) for other in range(3) if one != other and roster.calls(one, other)} == {
        (1, 0),
        (2, 0),
        (1, 2),
    }
    assert read_node_config(tmp_path / "net" / "b" / "node.toml").listen is None
    assert {(node.name, node.problems) for node in check_network(tmp_path / "net") if node.name == "b"} == {("b", ())}
    with pytest.raises(
        InvalidInput, match="a, c: nobody can call either of them; give one an address, or let all meet"
    ):
        parse_nodes("a=outgoing,b=x.example,c=outgoing")


def test_settings_are_read_with_paths_from_their_folder(net: Path) -> None:
    file = net / "a" / "node.toml"
    config = read_node_config(file)
    assert (config.name, config.listen) == ("a", "127.0.0.1:7600")
    assert config.journal == net / "a" / "journal.sqlite"
    assert (config.run, config.data.path, config.budget.epsilon) == (None, None, None)
    file.write_text(file.read_text().replace("# path", "path").replace("# eps", "eps").replace("# delta", "delta"))
    config = read_node_config(file)
    assert config.data.path == net / "a" / "rows.csv"
    assert (config.budget.epsilon, config.budget.delta) == (2.0, 1e-5)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("# epsilon", "epsilon", "budget.delta = missing: a budget is an epsilon and a delta"),
        ("# delta = 1e-5", "delta = 2.0", "budget.delta = 2.0: must be .* below 1"),
        ("# epsilon = 2.0", "epsilon = inf", "budget.epsilon = inf: must be a finite number"),
        ("[budget]", "[budgets]", "budgets is not a key"),
        ("127.0.0.1:7600", "127.0.0.1", "of the form host:port"),
        ("127.0.0.1:7600", "0.0.0.0:99999", "between 1 and 65535"),
        ("127.0.0.1:7600", "0.0.0.0: -oProxyCommand=x:7600", "of the form host:port"),
        ("127.0.0.1:7600", "0.0.0.0:[::]:7600", "of the form host:port"),
    ],
)
def test_bad_settings_are_refused_in_one_line(net: Path, old: str, new: str, reason: str) -> None:
    file = net / "a" / "node.toml"
    file.write_text(file.read_text().replace(old, new, 1))
    with pytest.raises(InvalidInput, match=reason) as problem:
        read_node_config(file)
    assert "\n" not in str(problem.value)


def test_a_node_elsewhere_listens_on_all_interfaces(tmp_path: Path) -> None:
    make_network(tmp_path / "net", *parse_nodes("a=x.example,b=[2001:db8::1]:8000"))
    assert read_node_config(tmp_path / "net" / "a" / "node.toml").listen == "0.0.0.0:7600"
    assert read_node_config(tmp_path / "net" / "b" / "node.toml").listen == "[::]:8000"
    assert not any(found.problems for found in check_network(tmp_path / "net"))


# Packing


def test_a_pack_has_one_nodes_files_and_no_other_key(net: Path, tmp_path: Path) -> None:
    (net / "b" / "journal.sqlite").write_bytes(b"secret releases")
    pack_node(net, "b", tmp_path / "b.tar.gz")
    pack_node(net, "b", tmp_path / "again.tar.gz")
    assert (tmp_path / "b.tar.gz").read_bytes() == (tmp_path / "again.tar.gz").read_bytes()
    assert mode(tmp_path / "b.tar.gz") == 0o600
    with tarfile.open(tmp_path / "b.tar.gz") as archive:
        modes = {entry.name: entry.mode for entry in archive.getmembers()}
        archive.extractall(tmp_path / "there", filter="data")
    public = dict.fromkeys(("b/ca.crt", "b/node.crt", "b/node.toml", "b/roster.toml"), 0o644)
    assert modes == {"b": 0o700, "b/node.key": 0o600, **public}
    assert check_node(tmp_path / "there" / "b").problems == ()
    packed = b"".join(path.read_bytes() for path in (tmp_path / "there" / "b").iterdir())
    for other in (net / "ca" / "ca.key", net / "a" / "node.key", net / "c" / "node.key"):
        assert other.read_bytes().splitlines()[1] not in packed


def test_a_pack_is_refused_if_it_would_hold_a_wrong_key(net: Path, tmp_path: Path) -> None:
    for wrong in (net / "ca" / "ca.key", net / "c" / "node.key"):
        shutil.copy(wrong, net / "b" / "node.key")
        with pytest.raises(InvalidInput, match=r"does not belong to node\.crt"):
            pack_node(net, "b", tmp_path / "b.tar.gz")
    for unknown in ("ca", "../net/a", "d"):
        with pytest.raises(InvalidInput, match="is not in the roster"):
            pack_node(net, unknown, tmp_path / "b.tar.gz")
    assert not (tmp_path / "b.tar.gz").exists()


# Checking


def spoil_mode(net: Path) -> None:
    (net / "b" / "node.key").chmod(0o640)


def spoil_key(net: Path) -> None:
    shutil.copy(net / "c" / "node.key", net / "b" / "node.key")


def spoil_signature(net: Path) -> None:
    forge(net / "b", x.new_authority(NOW, NOW + timedelta(days=1)), "b")


def spoil_name(net: Path) -> None:
    forge(net / "b", authority_of(net), "c")


def spoil_date(net: Path) -> None:
    forge(net / "b", authority_of(net), "b", begin=timedelta(days=-9), end=timedelta(days=-1))


def spoil_roster_key(net: Path) -> None:
    forge(net / "b", authority_of(net), "b")


def spoil_roster(net: Path) -> None:
    with (net / "b" / "roster.toml").open("a") as file:
        file.write("# mine\n")


def spoil_with_the_authoritys_key(net: Path) -> None:
    shutil.copy(net / "ca" / "ca.key", net / "b" / "notes.txt")


def spoil_with_anothers_key(net: Path) -> None:
    shutil.copy(net / "c" / "node.key", net / "b" / "old.key")


def spoil_by_loss(net: Path) -> None:
    (net / "b" / "ca.crt").unlink()


def follow_a_run(net: Path) -> None:
    """Give nodes a run that they can start with."""
    for folder in (net, *(net / name for name in "abc")):
        (folder / "run.toml").write_text(RUN)
    for name in "abc":
        settings = net / name / "node.toml"
        text = settings.read_text().replace('# run = "run.toml"', 'run = "run.toml"')
        settings.write_text(text.replace("# epsilon = 2.0", "epsilon = 20.0").replace("# delta = 1e-5", "delta = 1e-5"))


def spoil_certificate(net: Path) -> None:
    (net / "b" / "node.crt").write_text("nonsense")


def spoil_settings(net: Path) -> None:
    shutil.copy(net / "c" / "node.toml", net / "b" / "node.toml")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (spoil_mode, "node.key can be used by others: its mode is 0640, not 0600"),
        (spoil_key, "node.key does not belong to node.crt"),
        (spoil_signature, "node.crt is not signed by ca.crt"),
        (spoil_name, "node.crt is not bound to the name b"),
        (spoil_date, "node.crt expired on"),
        (spoil_roster_key, "roster.toml has another key for b than node.crt"),
        (spoil_roster, "roster.toml differs from the network's"),
        (spoil_with_the_authoritys_key, "notes.txt is the authority's key; it must not be here"),
        (spoil_with_anothers_key, "old.key is another key; it must not be here"),
        (spoil_by_loss, "ca.crt is missing"),
        (spoil_certificate, "node.crt is not a certificate"),
        (spoil_settings, "node.toml is that of node c"),
    ],
)
def test_check_finds_what_is_wrong(skipring: Command, net: Path, spoil: Callable[[Path], None], said: str) -> None:
    follow_a_run(net)
    spoil(net)
    answer = skipring("network check net")
    assert answer.code == 1
    lines = answer.out.splitlines()
    assert any(line.startswith(f"b: {said}") for line in lines), lines
    assert all(line.startswith("b: ") and len(line) <= 80 for line in lines)
    data = skipring("network check net --json").data
    assert data["good"] is False
    assert [bool(one["problems"]) for one in data["checked"]] == [False, False, True, False]


def test_check_says_how_long_certificates_last(skipring: Command, net: Path) -> None:
    follow_a_run(net)
    answer = skipring("network check net")
    assert answer == (0, "All 3 nodes are as they should be; certificates last 364 more days.\n", "")
    data = skipring("network check net/b --json").data
    assert (data["good"], data["days_left"]) == (True, 364)
    assert [one["name"] for one in data["checked"]] == ["b"]
    late = check_network(net, now=NOW + timedelta(days=400))
    assert all(any("expired" in problem for problem in one.problems) for one in late)
    shutil.rmtree(net / "ca")  # kept offline
    assert skipring("network check net").code == 0


# Commands


def test_init_pack_check(skipring: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[data]\nname = 'breast-cancer'\nnodes = 3\n[schedule]\nname = 'ring'\n")
    answer = skipring("network init net --nodes 3 --host 127.0.0.1 --port 9000 --days 30 --run run.toml --json")
    assert [node["name"] for node in answer.data["nodes"]] == ["node1", "node2", "node3"]
    roster = read_roster(tmp_path / "net" / "roster.toml")
    assert answer.data["roster_digest"] == roster.digest
    assert [node["fingerprint"] for node in answer.data["nodes"]] == list(roster.fingerprints)
    packed = skipring("network pack node2 --dir net --json").data
    assert packed["archive"] == "node2.tar.gz"
    assert packed["sha256"] == hashlib.sha256((tmp_path / "node2.tar.gz").read_bytes()).hexdigest()
    told = skipring("network pack node3 --dir net").out
    assert hashlib.sha256((tmp_path / "node3.tar.gz").read_bytes()).hexdigest() in told.split()
    assert "node2/run.toml" in packed["files"]
    assert skipring("network pack node2 --dir net").err == "error: --out node2.tar.gz: exists already\n"
    assert skipring("network check net --json").data["days_left"] == 29
    assert read_node_config(tmp_path / "net" / "node1" / "node.toml").run == tmp_path / "net" / "node1" / "run.toml"


def test_people_are_told_what_to_do_next_in_80_columns(skipring: Command) -> None:
    texts = [
        skipring("network init net --nodes a,b").out,
        skipring("network pack a --dir net").out,
        skipring("network check net").out,
        *(skipring(f"network {command} --help").out for command in ("", "init", "pack", "check")),
    ]
    assert "Keep net/ca/ca.key offline" in texts[0]
    assert "skipring network pack a --dir net" in texts[0]
    assert max(len(line) for text in texts for line in text.splitlines()) <= 80


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("init there --nodes 3", "DIR there: exists already"),
        ("init no/such/net --nodes 3", "DIR no/such/net: cannot be written: No such file"),
        ("init net --nodes a", "--nodes a: must be at least 2"),
        ("init net --nodes 1", "--nodes 1: must be from 2"),
        ("init net --nodes 0", "--nodes 0: must be from 2"),
        ("init net --nodes 99999999999999999999", "must be from 2"),
        ("init net --nodes a,b,a", "--nodes a: is named twice"),
        ("init net --nodes a,,b", "--nodes (empty): must be names of letters"),
        ("init net --nodes a,b_c", "--nodes b_c: must be names of letters"),
        ("init net --nodes a,../b", "--nodes ../b: must be names of letters"),
        ("init net --nodes a,é", "--nodes é: must be names of letters"),
        (f"init net --nodes a,{'b' * 64}", "63 at most"),
        ("init net --nodes a,ca", "--nodes ca: is the name of the authority's folder"),
        ("init net --nodes a,b --port 0", "--port 0: must be between 1 and 65535"),
        ("init net --nodes a,b --port 65535", "--port 65535: must be at most 65534"),
        ("init net --nodes 9 --port 65530", "--nodes 9: must be from 2 to 6"),
        ("init net --nodes a,b --port x", "--port x: "),
        ("init net --nodes a=h:99999,b", "--nodes a=h:99999: its port must be"),
        ("init net --nodes a=h:1,b=h:1", "--nodes h:1: is the address of two nodes"),
        ("init net --nodes a,b --host a/b", "--host a/b: must be a host name"),
        ("init net --nodes a,b=c.node.skipring", "--nodes b=c.node.skipring: .node.skipring is for the names of nodes"),
        ("init net --nodes a,b-", "--nodes b-: must be names of letters"),
        ("init net --nodes a,b --days 0", "--days 0: must be from 1"),
        ("init net --nodes a,b --days 99999999999", "--days 99999999999: must be from 1"),
        ("init net --nodes a,b --run none.toml", "--run none.toml: does not exist"),
        ("init net --nodes a,b --run many.toml", "data.nodes 113: the roster has 2 nodes"),
        (
            "init net --nodes a,b --run gossip.toml",
            "schedule.name gossip: has no token to pass between nodes;"
            " take one of ring, random-ring, random-walk, designed-ring",
        ),
        ("pack a --dir nowhere", "FILE nowhere/roster.toml: does not exist"),
        ("check nowhere", "DIR nowhere: is not a folder"),
        ("check there", "FILE there/roster.toml: does not exist"),
    ],
)
def test_bad_input_is_refused_in_one_line(skipring: Command, tmp_path: Path, line: str, said: str) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "many.toml").write_text("[data]\nname = 'breast-cancer'\nnodes = 113\n")
    (tmp_path / "gossip.toml").write_text("[data]\nname = 'digits'\n[schedule]\nname = 'gossip'\n")
    answer = skipring(f"network {line}")
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert said in answer.err
    assert answer.err.count("\n") == 1
    assert answer.out == ""
    assert sorted(p.name for p in tmp_path.iterdir()) == ["gossip.toml", "many.toml", "there"]


def test_without_cryptography_one_line_says_what_to_install(tmp_path: Path) -> None:
    program = (
        "import sys; sys.modules['cryptography'] = None\n"
        "import skipring.network.transport.identity, skipring.network.transport.roster, skipring.network.node.config\n"
        "sys.argv = ['skipring', *sys.argv[1:]]\n"
        "from skipring.cli import main\n"
        "main()\n"
    )
    words = ["network", "init", str(tmp_path / "net"), "--nodes", "2"]
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.endswith("needs cryptography: pip install skipring[network]\n")
    assert done.stderr.count("\n") == 1
