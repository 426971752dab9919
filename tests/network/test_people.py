"""People come and go between two runs, and certificates are renewed: with real nodes, each a process."""

from __future__ import annotations

import json
import shutil
import stat
import tarfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from networks import ended, init_net, small_run, wait_for

from skipring.errors import InvalidInput
from skipring.network.node import read_node_config
from skipring.network.setup import ExitCode, LocalNetwork, agreed_run, check_node, update_node, with_designed_order
from skipring.network.setup.update import Update
from skipring.network.transport import certificates as x
from skipring.network.transport import node_uri, read_roster, server_name
from skipring.runs import parse_run, read_run_file

Command = Callable[..., Any]
RUN = '[model]\nname = "logistic"\n' + small_run(24, 'epsilon = 4.0\ndelta = 1e-4\nprotects = "record"')
NOW = datetime.now(UTC).replace(microsecond=0)


@pytest.fixture
def net(skipring_words: Command, tmp_path: Path) -> Path:
    """A network of a, b and c, and room for two more ports."""
    return init_net(skipring_words, tmp_path, RUN, "--nodes", "a,b,c", ports=5)


def identity_of(folder: Path) -> str:
    return str(read_run_file(folder / "run.toml").network.identity)


def authority_of(net: Path) -> x.Authority:
    key = x.private_key((net / "ca" / "ca.key").read_bytes())
    certificate = x.certificate((net / "ca" / "ca.crt").read_bytes())
    assert key is not None
    assert certificate is not None
    return x.Authority(key, certificate)


def give_until(net: Path, name: str, end: datetime) -> None:
    """Give a node a certificate for its own key that ends at a moment of the test's choice."""
    roster = read_roster(net / "roster.toml")
    key = x.public_key_from(roster.keys[roster.index(name)])
    assert key is not None
    begin = end - timedelta(days=400)
    hosts = server_name(name), "127.0.0.1"
    own = x.certify(authority_of(net), key, name, hosts, node_uri(name), begin, end)
    (net / name / "node.crt").write_bytes(x.certificate_pem(own))


def log_of(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "node.log").read_text().splitlines()]


@pytest.mark.early
def test_one_leaves_two_join_and_who_stays_needs_no_archive(net: Path, skipring_words: Command, tmp_path: Path) -> None:
    for name in "abc":  # long-lived counts of what was given away
        settings = net / name / "node.toml"
        settings.write_text(settings.read_text().replace('# ledger = "../ledgers/rows', 'ledger = "rows'))
    up = skipring_words("network", "up", "net")
    assert up.code == 0
    lives = " ".join(up.out.split()).partition("Epsilon of all runs in a node's ledger together: ")[2]
    assert "(1 run), b " in lives
    hides = "one record (replace-one) at delta 0.0001 against the other nodes of all runs"
    assert f"(1 run). It protects {hides} (method own accounts, composed)." in lives
    first, far = identity_of(net), tmp_path / "far"
    shutil.copytree(net / "a", far)  # where its owner has it
    own = ("node.key", "node.crt", "node.toml", "rows.ledger")
    before = {file: (far / file).read_bytes() for file in own}
    again = skipring_words("network", "new-run", "net", "--add", "d,e", "--remove", "b")
    assert again.code == 0, again.err
    assert max(map(len, again.out.splitlines())) <= 80
    words = " ".join(again.out.split())
    assert f"The last run is in runs/{first} of each node's folder (a, c)." in words
    assert "b has left; its folder is net/left/b. The others do not let it in any more." in words
    assert "For its owner alone:\n  skipring network pack d --dir net" in again.out
    roster = read_roster(net / "roster.toml")
    assert roster.names == ("a", "c", "d", "e")
    # What follows from the number of nodes is what `network init` would choose for four.
    run = read_run_file(net / "run.toml")
    assert run.network.identity not in (None, first)
    expected = agreed_run(
        with_designed_order(
            parse_run(read_run_file(tmp_path / "asked-for.toml").model_dump(mode="json", exclude_unset=True)), 4
        ),
        4,
        run.network.identity,
    )
    assert run == expected
    assert run.privacy.noise_multiplier != read_run_file(net / "left" / "b" / "run.toml").privacy.noise_multiplier
    assert read_node_config(net / "d" / "node.toml").budget.epsilon == 4.0
    # The owner of a needs one file, in which there is no key.
    update = (net / "update.json").read_bytes()
    assert b"PRIVATE" not in update
    taken = skipring_words("node", "update", "far", "net/update.json", "--json")
    assert taken.code == 0, taken.err
    assert (taken.data["joined"], taken.data["left"], taken.data["new_run"]) == (["d", "e"], ["b"], True)
    assert "privacy.noise_multiplier" in taken.data["changed"]
    for file in ("roster.toml", "run.toml", "ca.crt", "update.json"):
        assert (far / file).read_bytes() == (net / "a" / file).read_bytes()
    assert {file: (far / file).read_bytes() for file in own} == before
    assert {file: (net / "a" / file).read_bytes() for file in own} == before
    assert "has this update already" in skipring_words("node", "update", "far", "net/update.json").out
    # Who leaves is told so, and nothing of it is touched.
    gone = skipring_words("node", "update", "net/left/b", "net/update.json")
    assert (gone.code, "b is not among the nodes any more: a, c, d, e" in " ".join(gone.err.split())) == (2, True)
    # Models of the last run are verified with the roster of the last run, wherever they are now.
    for model in (f"net/a/runs/{first}", f"net/c/runs/{first}", f"far/runs/{first}", "net/left/b"):
        verified = skipring_words("network", "verify", f"{model}/model.npz")
        assert (verified.code, verified.out.startswith("Verified: ")) == (0, True), verified.err
    done = skipring_words("network", "up", "net", "--json")
    assert done.code == 0, done.err
    assert {node["name"] for node in done.data["nodes"]} == {"a", "c", "d", "e"}
    assert len({node["status"]["model"] for node in done.data["nodes"]}) == 1
    assert skipring_words("network", "verify", "net/d/model.npz").code == 0
    ledger = skipring_words("node", "ledger", "net/a", "--json").data
    assert [one["run"] for one in ledger["runs"]] == [first, run.network.identity]


def test_whoever_has_left_is_not_let_in(net: Path, skipring_words: Command) -> None:
    assert skipring_words("network", "new-run", "net", "--add", "d", "--remove", "b").code == 0
    for name in "acd":  # no run without d, which comes last
        settings = net / name / "node.toml"
        settings.write_text(settings.read_text().replace("[data]", "start_wait = 300.0\n[data]", 1))
    left = net / "left" / "b"
    run = (left / "run.toml").read_text()
    # It knows the new run, and has a roster of its own making with itself in it.
    (left / "run.toml").write_bytes((net / "run.toml").read_bytes())
    mixed = (net / "roster.toml").read_text().split("\n[[node]]")
    was = (left / "roster.toml").read_text().split("\n[[node]]")
    (left / "roster.toml").write_text("\n[[node]]".join([mixed[0], mixed[1], was[2], mixed[3]]))
    assert run != (left / "run.toml").read_text()
    network = LocalNetwork(net)
    stranger = LocalNetwork.__new__(LocalNetwork)  # one process like theirs, in another folder
    stranger.__dict__ |= network.__dict__ | {"folder": net / "left", "_processes": {}}
    stranger.roster = read_roster(left / "roster.toml")
    stranger.states = [type(network.states[0])(name, running=False) for name in stranger.roster.names]
    try:
        network.start_node("a")
        stranger.start_node("b")

        def refused() -> bool:
            return any("unknown: 'b' is no node of the roster" in str(line.get("why")) for line in log_of(net / "a"))

        wait_for(refused)
        network.start_node("c")
        network.start_node("d")
        wait_for(lambda: network.look(restart=False) is not None and network.over)
        assert {state.status.model is not None for state in network.states if state.status} == {True}
        assert not (left / "model.npy").exists()
    finally:
        network.stop()
        for process in stranger._processes.values():
            process.kill()
            process.wait()
    assert all(state.code == 0 for state in network.states)


def test_only_the_newest_that_the_authority_has_signed_is_taken(net: Path, skipring_words: Command) -> None:
    a = net / "a"
    far = Path(shutil.copytree(a, net.parent / "far"))
    roster = (far / "roster.toml").read_bytes()
    assert skipring_words("network", "new-run", "net", "--add", "d").code == 0
    older = (net / "update.json").read_bytes()
    assert skipring_words("network", "new-run", "net", "--remove", "d").code == 0
    newer = json.loads((net / "update.json").read_text())
    file = net.parent / "sent.json"

    def refused(content: bytes, reason: str) -> None:
        before = {path.name: path.read_bytes() for path in far.iterdir() if path.is_file()}
        file.write_bytes(content)
        with pytest.raises(InvalidInput, match=reason):
            update_node(far, file)
        assert {path.name: path.read_bytes() for path in far.iterdir() if path.is_file()} == before

    refused(b"no json", "is no update")
    refused(b'{"update": {"made": 3}, "signature": ""}', "is no update")
    for key in ("made", "roster", "run", "authority"):  # each of them is under the signature
        changed = json.loads(json.dumps(newer))
        changed["update"][key] = changed["update"][key].replace("2", "3", 1)
        refused(json.dumps(changed).encode(), "is not signed by the authority of this network")
    without = json.loads(json.dumps(newer))
    without["update"]["certificates"] = {}
    refused(json.dumps(without).encode(), "is not signed by the authority of this network")
    # Another authority's signature is worth nothing, also with its certificate beside it.
    other = x.new_authority(NOW, NOW + timedelta(days=9))
    forged = Update(**newer["update"] | {"authority": x.certificate_pem(other.certificate).decode()})
    signed = {"update": forged.__dict__, "signature": x.sign(other.key, forged.signed_bytes).hex()}
    refused(json.dumps(signed).encode(), "is not signed by the authority of this network")
    file.write_text(json.dumps(newer))
    assert update_node(far, file).new_run
    refused(older, "it would be a step back")
    file.write_text(json.dumps(newer))
    assert update_node(far, file).known
    assert read_roster(far / "roster.toml").keys == read_roster(net / "roster.toml").keys
    assert (far / "roster.toml").read_bytes() == roster  # d came and went


def test_a_node_that_runs_is_given_no_other_run(net: Path, skipring_words: Command) -> None:
    far = Path(shutil.copytree(net / "a", net.parent / "far"))
    assert skipring_words("network", "new-run", "net").code == 0
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    (far / "node.pid").write_text(f"{Path('/proc/self').resolve().name} {fields[19]}\n")  # this process stands in
    with pytest.raises(InvalidInput, match="a is running"):
        update_node(far, net / "update.json")
    assert skipring_words("network", "renew", "net").code == 0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--remove", "x"], "--remove x: is none of the nodes: a, b, c"),
        (["--remove", "b,c"], "--remove b, c: leaves a; a network has at least 2 nodes"),
        (["--add", "a=127.0.0.1:9"], "--add a: is a node of this network already"),
        (["--add", "A=127.0.0.1:9"], "--add A: is named twice"),
        (["--add", "ca=127.0.0.1:9"], "is the name of the authority's folder"),
        (["--add", "left=127.0.0.1:9"], "--add left: net/left exists already; choose another name"),
        (["--add", "d=::1"], "brackets around an IPv6 address"),
        (["--add", "d", "--days", "0"], "--days 0: must be from 1 to 36500"),
        (["--add", "d", "--data", "nowhere"], "--data nowhere: is not a folder"),
        (["--add", "d", "--data", "net"], "there is no d.csv, and no d.parquet, for node d"),
    ],
)
def test_who_cannot_join_or_leave_changes_nothing(
    net: Path, skipring_words: Command, words: list[str], reason: str
) -> None:
    def everything() -> dict[str, bytes]:
        return {str(path): path.read_bytes() for path in net.rglob("*") if path.is_file()}

    before = everything()
    refused = skipring_words("network", "new-run", "net", *words)
    assert refused.code == 2
    assert reason in " ".join(refused.err.split())
    assert everything() == before


def test_without_what_was_asked_or_the_authoritys_key_nobody_joins(net: Path, skipring_words: Command) -> None:
    (net / "asked.toml").rename(net / "elsewhere.toml")
    refused = skipring_words("network", "new-run", "net", "--add", "d")
    assert (refused.code, "give the run file that was asked for" in " ".join(refused.err.split())) == (2, True)
    old = skipring_words("network", "new-run", "net", "--add", "d", "--run", "net/run.toml")
    assert (old.code, "data.nodes 3: the roster has 4 nodes" in " ".join(old.err.split())) == (2, True)
    (net / "ca" / "ca.key").rename(net / "kept-elsewhere.key")
    for words in (["new-run", "net", "--add", "d", "--run", "net/elsewhere.toml"], ["renew", "net"]):
        refused = skipring_words("network", *words)
        told = " ".join(refused.err.split())
        assert (refused.code, "only the person who keeps the authority's key" in told) == (2, True)
    # The same people need no key for another run; there is nothing that is signed, then.
    again = skipring_words("network", "new-run", "net", "--json")
    assert (again.code, again.data["update"]) == (0, None)


def test_a_name_is_not_given_to_somebody_else(net: Path, skipring_words: Command) -> None:
    assert skipring_words("network", "new-run", "net", "--remove", "b").code == 0
    refused = skipring_words("network", "new-run", "net", "--add", "b")
    assert (refused.code, "has left with a certificate of this name" in " ".join(refused.err.split())) == (2, True)
    for words in (["--add", "d"], ["--remove", "a"]):
        refused = skipring_words("network", "new-run", "net/a", *words)
        assert (refused.code, "is for the network's folder" in " ".join(refused.err.split())) == (2, True)


def test_the_archive_of_who_joins_has_its_own_key_and_what_all_were_told(net: Path, skipring_words: Command) -> None:
    assert skipring_words("network", "new-run", "net", "--add", "d").code == 0
    assert skipring_words("network", "pack", "d", "--dir", "net").code == 0
    with tarfile.open(net.parent / "d.tar.gz") as archive:
        archive.extractall(net.parent / "there", filter="data")
        modes = {one.name: one.mode for one in archive.getmembers()}
    assert modes["d/node.key"] == 0o600
    assert check_node(net.parent / "there" / "d").problems == ()
    assert update_node(net.parent / "there" / "d", net / "update.json").known
    assert stat.S_IMODE((net / "d" / "node.key").stat().st_mode) == 0o600


# Certificates that end


def test_warnings_come_a_month_before_and_renewal_ends_them(net: Path, skipring_words: Command) -> None:
    give_until(net, "b", NOW + timedelta(days=31, hours=1))
    assert check_node(net / "b").warnings == ()
    give_until(net, "b", NOW + timedelta(days=5, hours=1))
    key, roster = (net / "b" / "node.key").read_bytes(), (net / "roster.toml").read_bytes()
    far = Path(shutil.copytree(net / "b", net.parent / "far"))
    said = f"node.crt expires on {NOW + timedelta(days=5, hours=1):%Y-%m-%d}, in 5 days; "
    said += "renew it: skipring network renew DIR --node b"
    checked = skipring_words("network", "check", "net")
    assert (checked.code, f"b: {said.replace('DIR', 'net')}" in checked.out.splitlines()) == (0, True)
    assert skipring_words("network", "check", "net/b", "--json").data["checked"][0]["warnings"] == [said]
    renewed = skipring_words("network", "renew", "net", "--node", "b", "--days", "400", "--json")
    assert renewed.code == 0, renewed.err
    assert (renewed.data["nodes"], renewed.data["authority"]) == (["b"], True)  # it lasts as long
    assert "renew it" not in skipring_words("network", "check", "net").out
    taken = skipring_words("node", "update", "far", "net/update.json", "--json").data
    assert (taken["new_run"], taken["renewed"], taken["restart"]) == (False, ["ca.crt", "node.crt"], False)
    assert check_node(far).warnings == check_node(far).problems == ()
    assert (far / "node.key").read_bytes() == (net / "b" / "node.key").read_bytes() == key
    assert (net / "roster.toml").read_bytes() == (far / "roster.toml").read_bytes() == roster
    wrong = skipring_words("network", "renew", "net", "--node", "x")
    assert (wrong.code, wrong.err) == (2, "error: --node x: is not in the roster; nodes are a, b, c\n")


def test_an_expired_certificate_is_refused_with_its_date_and_the_command(net: Path, skipring_words: Command) -> None:
    give_until(net, "b", NOW - timedelta(days=2))
    code, said = ended(net / "b" / "node.toml")
    assert code == ExitCode.SETTINGS
    expected = f"node.crt expired on {NOW - timedelta(days=2):%Y-%m-%d}; renew it: skipring network renew DIR --node b"
    assert expected in said["why"]
    checked = {one["name"]: one for one in skipring_words("network", "check", "net", "--json").data["checked"]}
    assert (checked["b"]["days_left"], checked["b"]["problems"]) == (-2, [expected.replace("DIR", "net")])
    assert skipring_words("network", "renew", "net").code == 0
    done = skipring_words("network", "up", "net")
    assert done.code == 0, done.err


def test_old_and_new_certificates_of_the_authority_hold_together(net: Path, skipring_words: Command) -> None:
    before = {name: [(net / name / file).read_bytes() for file in ("node.crt", "ca.crt")] for name in "bc"}
    assert skipring_words("network", "renew", "net", "--days", "900").code == 0
    for name, contents in before.items():  # two of three have not been told yet
        for file, content in zip(("node.crt", "ca.crt"), contents, strict=True):
            (net / name / file).write_bytes(content)
    assert (net / "a" / "ca.crt").read_bytes() != (net / "b" / "ca.crt").read_bytes()
    done = skipring_words("network", "up", "net", "--json")
    assert done.code == 0, done.err
    ends = [node["status"] for node in done.data["nodes"]]
    assert all(sum(end["updates_by_node"]) == end["steps"] for end in ends)  # nobody was skipped


def test_a_node_says_so_while_it_runs(net: Path, skipring_words: Command) -> None:
    give_until(net, "a", NOW + timedelta(days=3, hours=1))
    network = LocalNetwork(net)
    try:
        network.start_node("a")  # alone: it waits for the others
        wait_for(lambda: (net / "a" / "node.log").exists() and "certificate" in (net / "a" / "node.log").read_text())
        said = next(line for line in log_of(net / "a") if line["event"] == "certificate")
        assert said["level"] == "warning"
        assert "in 3 days; renew it: skipring network renew DIR --node a" in said["what"]
        shown = skipring_words("network", "status", "net")
        assert "a: node.crt expires on" in shown.out
        status = skipring_words("network", "status", "net", "--json").data["nodes"][0]["status"]
        assert 3 * 86400 < status["expires_in"] < 3 * 86400 + 3600
        renewed = skipring_words("network", "renew", "net")
        assert "Running with the old ones until stopped and started again: a." in renewed.out
        status = skipring_words("network", "status", "net", "--json").data["nodes"][0]["status"]
        assert status["expiring"] == "certificates were renewed: stop the node and start it again, which loses nothing"
    finally:
        for process in network._processes.values():
            process.terminate()
            process.wait()


@pytest.mark.slow
def test_a_run_outlives_its_certificates(net: Path, skipring_words: Command) -> None:
    for name in "abc":
        settings = net / name / "node.toml"
        law = 'law = "exponential:0.8"'
        settings.write_text(settings.read_text().replace("# law = ", f"{law}    # ", 1))
    end = datetime.now(UTC) + timedelta(seconds=25)
    for name in "abc":
        give_until(net, name, end)
    network = LocalNetwork(net)
    try:
        network.start()
        wait_for(lambda: all("certificate" in (net / name / "node.log").read_text() for name in "abc"))
        wait_for(lambda: datetime.now(UTC) > end + timedelta(seconds=1))
        assert not network.over  # the run is longer than its certificates
        # One that comes back after the end is refused, by itself.
        network._processes["b"].kill()
        network._processes["b"].wait()
        code, said = ended(net / "b" / "node.toml")
        assert (code, "node.crt expired on" in said["why"]) == (ExitCode.SETTINGS, True)
        assert skipring_words("network", "renew", "net").code == 0
        network.start_node("b")
        for name in "ac":  # one after the other; each passes the token on, if it has it
            network._processes[name].terminate()
            network._processes[name].wait()
            network.start_node(name)
        wait_for(lambda: bool(network.look()) and network.over, 240.0)
    finally:
        network.stop()
    models = {(net / name / "model.npy").read_bytes() for name in "abc"}
    assert len(models) == 1
    assert skipring_words("network", "verify", "net/b/model.npz").code == 0
