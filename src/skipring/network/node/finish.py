"""An owner asks for the run to end: a file in the node's folder, which the node takes up as soon as it runs.

Only who may write to the folder can ask, whether the node runs or not. Nothing is asked over the network.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path

from ..protocol import Peer

#: The file by which an owner asks; it has the identity of the run in it.
FINISH = "finish"
_LOOK = 0.5  # seconds between two looks


class FinishWatch:
    """Looks now and then whether the node's owner has asked for the run to end.

    Parameters
    ----------
    path : the file.
    run : the identity of the run; what was asked of another one is not meant.
    begun : returns the protocol, once the run has begun here.
    wish : lets the node sign the wish, write it down and tell all; says whether that went well.
    """

    def __init__(self, path: Path, run: str, begun: Callable[[], Peer | None], wish: Callable[[], bool]) -> None:
        self._path, self._run, self._begun, self._wish = path, run, begun, wish

    async def keep(self) -> None:
        """Look, as long as the node runs."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK)

    def look(self) -> None:
        """Take up what the owner has asked for; the file goes once it is in the journal."""
        peer = self._begun()
        if peer is None or not self._path.exists():
            return
        with contextlib.suppress(OSError):
            meant = self._path.read_text(encoding="utf-8").strip() == self._run and peer.memory.outcome is None
            if not meant or self._wish():
                self._path.unlink()
