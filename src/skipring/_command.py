"""Commands that are printed for people to copy."""

from __future__ import annotations

import shlex


def command(*words: object) -> str:
    """Return a skipring command as a shell reads it, whatever is in its words.

    >>> print(command("simulate", "my run.toml", "--set", "delay.timeout=inf"))
    skipring simulate 'my run.toml' --set delay.timeout=inf
    """
    return shlex.join(["skipring", *map(str, words)])
