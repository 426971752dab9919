"""Run the commands as ``python -m skipring``."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    # Python has put the current folder before all others. An archive may be unpacked there, and is no code.
    if not sys.flags.safe_path and sys.path[:1] == [os.getcwd()]:
        del sys.path[0]
    from .cli import main

    main()
