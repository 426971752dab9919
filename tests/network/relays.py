"""A relay as its administrator runs it: from the archive that they are sent, by a user without rights."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import signal
import subprocess
import tarfile
import tempfile
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from skipring.network.setup import pack_relay


def why_no_relay() -> str:
    """Say why no relay can be run on this machine; nothing if one can."""
    if shutil.which("ssh") is None:
        return "a relay is reached with ssh (Debian: openssh-client)"
    if shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        return "a relay is an sshd (Debian: openssh-server)"
    return "root runs it as another user, with setpriv" if os.geteuid() == 0 and not shutil.which("setpriv") else ""


def account() -> str:
    """Return whom a relay runs as: root never does, so it takes the user that sshd has brought along."""
    return "sshd" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name


def as_account() -> list[str]:
    """Return what runs a command as whom a relay runs as, without any rights."""
    if os.geteuid() != 0:
        return []
    user = pwd.getpwnam(account())
    words = ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]
    return [*words, "--no-new-privs", "--bounding-set=-all", "--pdeathsig=KILL"]


class Relay:
    """A relay from the archive of a network's folder, not started yet; `prefix` runs it elsewhere, in a namespace."""

    def __init__(self, network: Path, prefix: Sequence[str] = ()) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="skipring-relay-"))  # where another user can go, too
        archive = self.folder / "relay.tar.gz"
        pack_relay(network, archive)
        with tarfile.open(archive) as packed:
            packed.extractall(self.folder, filter="fully_trusted")  # ours, with the modes that it has
        if os.geteuid() == 0:
            user = pwd.getpwnam(account())
            for path in (self.folder, *self.folder.rglob("*")):
                os.chown(path, user.pw_uid, user.pw_gid)
        # /tmp is everybody's, which sshd would not have keys below.
        self._words = [*prefix, *as_account(), str(self.folder / "relay" / "start"), "-o", "StrictModes=no"]
        self._process: subprocess.Popen[bytes] | None = None
        self.log = self.folder / "relay.log"

    def __enter__(self) -> Relay:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder)

    def start(self, *options: str) -> None:
        """Start it, and wait until it listens."""
        before = self.said().count("Server listening")
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen([*self._words, *options], stdin=subprocess.DEVNULL, stderr=log)
        until = time.monotonic() + 20.0
        while self.said().count("Server listening") <= before:
            assert self._process.poll() is None, self.said()
            assert time.monotonic() < until, self.said()
            time.sleep(0.02)

    def said(self) -> str:
        """Return its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def kill(self) -> None:
        """Kill it at once, with all connections that it has, as if its machine had died."""
        if self._process is None:
            return
        found = set[int]()
        # First let all stand still: what is started meanwhile would be left over.
        while new := {self._process.pid, *descendants(self._process.pid)} - found:
            found |= new
            send(signal.SIGSTOP, new)
        send(signal.SIGKILL, found)
        self._process.wait()
        self._process = None


def send(number: signal.Signals, pids: Iterable[int]) -> None:
    """Send a signal to processes, if they are still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that these have."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name of the program, in brackets, may have blanks in it.
            parents.setdefault(int(path.read_text().rpartition(")")[2].split()[1]), []).append(int(path.parent.name))
    found, open_ends = list[int](), [pid]
    while open_ends:
        mine = parents.get(open_ends.pop(), [])
        found += mine
        open_ends += mine
    return found
