"""An archive is not code: whatever is in it, `check`, `run` and `update` neither import nor execute any of it."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
from networks import IDENTITY, free_ports, small_run, wait_for

from skipring.errors import InvalidInput
from skipring.network.node import read_node_config
from skipring.network.setup import (
    Via,
    agreed_run,
    begin_new_run,
    hooks_of,
    make_network,
    pack_node,
    relay_addresses,
    run_text,
)
from skipring.network.transport import parse_nodes
from skipring.runs import read_run_file

#: What an archive of somebody who means ill has in it, under any name that a node might look for.
EVIL = 'from pathlib import Path\nPath({place!r}).write_text("was here")\ndef prepare(features, labels): return None\n'
OWN = """
from pathlib import Path
Path({place!r}).write_text("the owner's")
def prepare(features, labels):
    return None
def squares():
    return lambda rows: rows**2
"""


class Site:
    """A machine where an archive is unpacked as the guide says, and commands are typed where it lies."""

    def __init__(self, folder: Path, *, via: bool = False) -> None:
        self.here = folder / "there"
        self.here.mkdir()
        self.mark = folder / "evil-was-here"
        self.owner = folder / "config" / "owner.toml"
        net = folder / "net"
        (folder / "asked.toml").write_text(small_run(12, "noise_multiplier = 3.0"))
        text = run_text(agreed_run(read_run_file(folder / "asked.toml"), 2, IDENTITY)).encode()
        names, addresses = parse_nodes("2", port=free_ports(2))
        relay = None
        if via:
            port = free_ports(3)
            relay = Via("127.0.0.1", port + 2)
            addresses = relay_addresses(2, port, relay)
        make_network(net, names, addresses, run=text, via=relay)
        begin_new_run(net, text.decode())  # which signs an update, too
        pack_node(net, "node1", folder / "node1.tar.gz")
        self._archive = folder / "node1.tar.gz"

    def unpack(self, extra: dict[str, str], replaced: dict[str, tuple[str, str]]) -> None:
        """Change the archive as whoever packs it can, and unpack it."""
        with tarfile.open(self._archive) as packed:
            found = {
                entry.name: (packed.extractfile(entry) or io.BytesIO()).read() for entry in packed if entry.isfile()
            }
        for name, (old, new) in replaced.items():
            assert old in found[name].decode()
            found[name] = found[name].decode().replace(old, new, 1).encode()
        found |= {name: text.format(place=str(self.mark)).encode() for name, text in extra.items()}
        with tarfile.open(self._archive, "w:gz") as packed:
            for name, content in found.items():
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o600
                packed.addfile(entry, io.BytesIO(content))
        with tarfile.open(self._archive) as packed:
            packed.extractall(self.here, filter="tar")

    def environment(self) -> dict[str, str]:
        return os.environ | {"SKIPRING_OWNER": str(self.owner)}

    def skipring(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command where the archive lies, with `python -m`, which puts that folder before all others."""
        call = [sys.executable, "-m", "skipring", *words]
        return subprocess.run(
            call, cwd=cwd or self.here, capture_output=True, text=True, check=False, timeout=60, env=self.environment()
        )


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


SETTINGS, RUN = "node1/node.toml", "node1/run.toml"
PREPARE = {SETTINGS: ("[data]", '[data]\nprepare = "clinic_hook:prepare"')}
FEATURES = {RUN: ('name = "logistic"', 'name = "logistic"\nfeatures = "clinic_hook:prepare"')}
NETWORK = {RUN: ('name = "logistic"', 'name = "clinic_hook:prepare"')}


@pytest.mark.parametrize("replaced", [PREPARE, FEATURES, NETWORK], ids=["prepare", "features", "network"])
def test_a_module_in_an_archive_is_never_imported(site: Site, replaced: dict[str, tuple[str, str]]) -> None:
    evil = dict.fromkeys(("node1/clinic_hook.py", "clinic_hook.py", "node1/sitecustomize.py", "typer.py"), EVIL)
    site.unpack(evil, replaced)
    checked = site.skipring("network", "check", "node1")
    assert checked.returncode == 1, checked
    assert "clinic_hook:prepare: is code, which the owner of this machine has not allowed" in checked.stdout
    assert checked.stdout.count("\n") == 1
    told = json.loads(site.skipring("network", "check", "node1", "--json").stdout)
    (hook,) = told["checked"][0]["hooks"]
    assert (hook["name"], hook["file"], bool(hook["refused"])) == ("clinic_hook:prepare", None, True)
    ran = site.skipring("node", "run", "node1/node.toml")
    assert (ran.returncode, "has not allowed" in ran.stderr) == (2, True), ran
    inside = site.skipring("node", "run", "node.toml", cwd=site.here / "node1")
    assert (inside.returncode, "has not allowed" in inside.stderr) == (2, True), inside
    site.skipring("node", "update", "node1", str(site.here.parent / "net" / "update.json"))
    site.skipring("node", "model", "node1")
    site.skipring("node", "privacy", "node1")
    assert not site.mark.exists()


def test_the_owners_module_is_used_and_not_the_archives(site: Site) -> None:
    evil = dict.fromkeys(("node1/clinic_hook.py", "clinic_hook.py"), EVIL)
    features = {RUN: ('name = "logistic"', 'name = "logistic"\nfeatures = "clinic_hook:squares"')}
    site.unpack(evil, PREPARE | features)
    mine = site.here.parent / "mine"
    mine.mkdir()
    (mine / "clinic_hook.py").write_text(OWN.format(place=str(mine / "imported")))
    allow = f'[hooks]\nallow = ["clinic_hook:prepare", "clinic_hook:squares"]\npath = ["{mine}"]\n'
    site.owner.parent.mkdir()
    site.owner.write_text(allow)
    for where, folder in ((None, "node1"), (site.here / "node1", ".")):
        done = site.skipring("network", "check", folder, cwd=where)
        assert done.returncode == 0, done
        assert f"node1: calls clinic_hook:prepare (data.prepare) of {mine / 'clinic_hook.py'}" in done.stdout
        assert (mine / "imported").exists()
    # Nor is a link followed that leads into the node's folder.
    (mine / "clinic_hook.py").rename(mine / "kept.py")
    (mine / "clinic_hook.py").symlink_to(site.here / "node1" / "clinic_hook.py")
    done = site.skipring("network", "check", "node1")
    assert (done.returncode, "is in the node's folder, which others have packed" in done.stdout) == (1, True), done
    # What is said of where code is must not lie among what others have packed.
    site.owner.write_text(allow.replace(str(mine), str(site.here / "node1")))
    done = site.skipring("network", "check", "node1")
    assert done.returncode == 1
    assert "is in the node's folder, which others have packed" in done.stdout
    inside = subprocess.run(
        [sys.executable, "-m", "skipring", "network", "check", "node1"],
        env=site.environment() | {"SKIPRING_OWNER": str(shutil.copy(site.owner, site.here / "node1" / "owner.toml"))},
        cwd=site.here,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (inside.returncode, "is in the node's folder" in inside.stdout) == (1, True), inside
    assert not site.mark.exists()


def test_functions_of_installed_packages_are_not_called_because_an_archive_names_them(site: Site) -> None:
    """Called without arguments, as a network's maker is, pytest would import the archive's own conftest.py."""
    site.unpack({"node1/conftest.py": EVIL}, {RUN: ('name = "logistic"', 'name = "pytest:main"')})
    assert site.skipring("network", "check", "node1").returncode == 1
    assert site.skipring("node", "run", "node1/node.toml").returncode == 2
    (hook,) = hooks_of(site.here / "node1")
    assert hook.file is not None
    assert "pytest" in hook.file
    assert not site.mark.exists()


@pytest.fixture
def met(tmp_path: Path) -> Site:
    if shutil.which("ssh") is None:
        pytest.skip("a relay is reached with ssh (Debian: openssh-client)")
    return Site(tmp_path, via=True)


def test_no_ssh_config_of_an_archive_is_read(met: Site) -> None:
    evil = (
        f"Match exec \"touch '{met.mark}'\"\nHost *\nProxyCommand touch '{met.mark}'\nLocalCommand touch '{met.mark}'\n"
    )
    files = ("node1/relay/ssh_config", "node1/relay/config", "node1/relay/.ssh/config", ".ssh/config")
    met.unpack(dict.fromkeys(files, evil + "PermitLocalCommand yes\n"), {})
    checked = met.skipring("network", "check", "node1")
    assert checked.returncode == 0, checked
    with open(met.here / "log", "w") as log:
        words = [sys.executable, "-m", "skipring", "node", "run", "node1/node.toml"]
        node = subprocess.Popen(words, cwd=met.here, stderr=log, env=met.environment())
        try:
            wait_for(lambda: '"event": "relay", "state": "down"' in (met.here / "log").read_text())
        finally:
            node.send_signal(signal.SIGTERM)
            node.wait(30)
    assert "Connection refused" in (met.here / "log").read_text()
    assert not met.mark.exists()


def test_the_owners_own_way_out_is_used(met: Site) -> None:
    met.unpack({}, {})
    met.owner.parent.mkdir()
    met.owner.write_text(f"[ssh]\nproxy_command = \"touch '{met.here.parent / 'mine'}'\"\n")
    words = [sys.executable, "-m", "skipring", "node", "run", "node1/node.toml"]
    node = subprocess.Popen(words, cwd=met.here, stderr=subprocess.DEVNULL, env=met.environment())
    try:
        wait_for((met.here.parent / "mine").exists)
    finally:
        node.send_signal(signal.SIGTERM)
        node.wait(30)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("host", "-oProxyCommand=touch evil"),
        ("host", "relay.example.org -oProxyCommand=x"),
        ("host", 'relay"'),
        ("host", "relay\nProxyCommand x"),
        ("host", "::1%;x"),
        ("user", "-l"),
        ("user", "me you"),
        ("user", "me\nProxyCommand x"),
    ],
)
def test_what_ssh_could_take_for_something_else_is_refused(tmp_path: Path, key: str, value: str) -> None:
    values = {"host": "relay.example.org"} | {key: value}
    lines = [f"{name} = {json.dumps(given)}" for name, given in values.items()]
    (tmp_path / "node.toml").write_text("\n".join(['name = "a"', "[relay]", *lines]))
    with pytest.raises(InvalidInput, match=rf"relay\.{key} = "):
        read_node_config(tmp_path / "node.toml")


def test_settings_of_numba_in_the_current_folder_are_not_followed(tmp_path: Path) -> None:
    """A node's folder may bring them, with a cache of pickles."""
    pytest.importorskip("yaml")  # numba reads that file where it is installed
    (tmp_path / ".numba_config.yaml").write_text("cache_dir: brought\n")
    asked = "import numba; print(repr(numba.config.CACHE_DIR))"
    env = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    for first, expected in (("import skipring; ", "''"), ("", "'brought'")):
        done = subprocess.run(
            [sys.executable, "-c", first + asked], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
        )
        assert done.stdout.strip() == expected
