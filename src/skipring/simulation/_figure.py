"""A figure that belongs to no window and that a notebook shows all the same."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that a notebook shows as the value of a cell, without pyplot and without `%matplotlib inline`."""

    def _repr_png_(self) -> bytes:
        """Return the picture, which IPython asks for by this name."""
        held = io.BytesIO()
        self.savefig(held, format="png")
        return held.getvalue()
