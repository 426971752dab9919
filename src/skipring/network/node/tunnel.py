"""A node's way to the relay: one outgoing ssh connection, which is opened again whenever it breaks."""

from __future__ import annotations

import asyncio
import contextlib
import random
import shutil
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from ...errors import InvalidInput
from .events import Event, RelayNews

#: Seconds before another attempt, at first and at most; an attempt itself may take ten (ConnectTimeout).
_FIRST, _LONGEST = 0.5, 5.0
#: A connection is open if it has not ended this long after the relay has let the node in: by then ports are lent.
_LENT = 1.0
#: How often the same reason is said again.
_REMIND = 60.0
#: What was said last leaves within this time; ssh drops what it has not passed on when it is ended.
_FAREWELL = 0.5
#: Where another ssh of this node can use the same connection, in the folder of its settings.
_CONTROL = "control"
#: What ssh says when the relay has let the node in, and what it says that is no reason for an end.
_LET_IN = "Authenticated to"
_NO_REASON = (_LET_IN, "Transferred:", "Bytes per second", "channel ", "connect_to ")

# ssh must not outlive a node that is killed: it would keep the node's ports. This shell ends it when the pipe to the
# node is closed, however the node has ended; and it ends itself with ssh, and with its exit code.
_WITH_US = (
    'exec 3<&0; "$@" 3<&- </dev/null & ssh=$!; { read -r _ <&3; kill $ssh; } >/dev/null 2>&1 & watch=$!;'
    " exec 3<&-; wait $ssh; code=$?; kill $watch 2>/dev/null; exit $code"
)


def require_ssh() -> None:
    """Say what to install, if there is no ssh on this machine."""
    if shutil.which("ssh") is None:
        raise InvalidInput.because(
            "relay", "ssh", "is not installed, and the relay is reached with it; on Debian: openssh-client"
        )


class Tunnel:
    """Keeps ssh running, and says whether the relay is reached.

    Parameters
    ----------
    folder : where the node's key for the relay is; ssh runs there.
    words : returns ssh's options, and the host after them (`ssh_words`); it is asked again for each connection, so that
        the relay may move.
    note : is told when the tunnel opens, and why it does not.
    clock : the time in seconds; only differences matter.
    """

    def __init__(
        self,
        folder: Path,
        words: Callable[[], tuple[list[str], str]],
        note: Callable[[Event], None],
        clock: Callable[[], float],
    ) -> None:
        self._folder, self._words, self._note, self._clock = folder, words, note, clock
        self._open = False
        self._told: tuple[str, float] | None = None  # the reason that was said last, and when
        #: What a node's owner is told: open, or why it is not.
        self.state = "connecting"

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Keep the tunnel open, or try to, as long as this lasts."""
        task = asyncio.create_task(self._keep())
        try:
            yield
        finally:
            if self._open:
                await asyncio.sleep(_FAREWELL)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _keep(self) -> None:
        pause = _FIRST
        while True:
            try:
                why = await self._connect()
            except (OSError, ValueError) as error:  # no more processes, for instance; or a line without an end
                why = f"ssh cannot be run: {error}"
            pause = _FIRST if self._open else pause
            self._down(why)
            # Not all at once: after a restart of the relay all nodes come back.
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2.0 * pause, _LONGEST)

    async def _connect(self) -> str:
        """Run ssh until it ends; return why it did."""
        (self._folder / _CONTROL).unlink(missing_ok=True)  # of one that was killed
        options, host = self._words()
        words = ["ssh", "-N", "-o", "LogLevel=VERBOSE", "-o", "ControlMaster=yes", "-o", f"ControlPath={_CONTROL}"]
        words += [*options, "--", host]
        process = await asyncio.create_subprocess_exec(
            *("sh", "-c", _WITH_US, "sh", *words),
            cwd=self._folder,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for the node, which needs the tunnel until it has passed the token on
        )
        assert process.stdin is not None
        assert process.stderr is not None
        said, opened, hastened = "", None, None
        try:
            async for line in process.stderr:
                text = "".join(c for c in line.decode(errors="replace").strip() if c.isprintable())[:300]
                if text.startswith(_LET_IN):
                    opened = asyncio.get_running_loop().call_later(_LENT, self._opened)
                    hastened = asyncio.create_task(self._hasten(host))
                elif text and not text.startswith(_NO_REASON):
                    said = text
            code = await process.wait()
        finally:
            if opened is not None:
                opened.cancel()
            if hastened is not None:
                hastened.cancel()
            process.stdin.close()  # which ends it, if it runs
            if process.returncode is None:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(process.wait(), 2.0)
        return said or f"ssh has ended with exit code {code}"

    async def _hasten(self, host: str) -> None:
        """Ask the relay on the same connection for a command, which it refuses, and so to send small packets at once.

        sshd switches Nagle's algorithm off when its client wants a session, and not for forwarded ports alone. Without
        this each hop takes 40 ms more: small packets wait for the acknowledgement of those before them.
        """
        words = ["-T", "-F", "none", "-o", "ControlMaster=no", "-o", f"ControlPath={_CONTROL}"]
        words += ["-o", "BatchMode=yes", "-o", "ProxyCommand=false"]  # on that connection, or not at all
        for _ in range(5):
            await asyncio.sleep(0.2)  # until ssh listens for it
            if not (self._folder / _CONTROL).exists():
                continue
            quiet = asyncio.subprocess.DEVNULL
            asked = await asyncio.create_subprocess_exec(
                *("ssh", *words, "--", host, "true"), cwd=self._folder, stdin=quiet, stdout=quiet, stderr=quiet
            )
            try:
                await asyncio.wait_for(asked.wait(), 10.0)
            finally:
                if asked.returncode is None:
                    asked.kill()
            return

    def _opened(self) -> None:
        self._open, self._told, self.state = True, None, "open"
        self._note(RelayNews("open"))

    def _down(self, why: str) -> None:
        now = self._clock()
        self._open, self.state = False, why
        if self._told is None or self._told[0] != why or now - self._told[1] >= _REMIND:
            self._told = why, now
            self._note(RelayNews("down", why))
