"""Run the commands as ``python -m skipring``."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    main()
