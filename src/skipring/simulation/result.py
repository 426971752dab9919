"""What a simulation leaves: metrics of all runs, in memory and as a folder."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from .._json import from_json, json_text, to_json
from .._numbers import number, upper
from .._writing import whole_file, write_file
from ..errors import InvalidInput
from ..learning import Guess
from ..privacy import PROTECTED, PrivacyReport
from ..schedules import RIVALS, Rival
from .setup import RunOutput
from .table import latex_rows, result_row

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_ARRAYS = ("points", "test_error", "loss", "latency", "updates", "models", "offered", "skipped")


@dataclass(frozen=True, kw_only=True)
class ResolvedFacts:
    """What the defaults and searches of a run file came to.

    `model` is the name of the loss (or of the network). `smoothness` is None where the loss has none. `labels_clipped`
    is how many labels were clipped to an agreed bound, None where there is no bound. `rival` is how gossip or federated
    learning went, None for a token. `noise_std` is the noise on an update's gradient, and `batch` the most rows of an
    update (None: all of a node). `parts` is the most parts that a node's rows rotate through (None where nodes are
    protected). `rows_left_out` is how many rows were left out because a person has too many. `notes` say what a user
    who chose these values may not expect, each a sentence without capital and full stop. `guess` is the test error of
    always guessing the commonest class (of numbers: the mean) of the training rows. `rows` are learned from,
    `test_rows` tested on, and `columns` are those of the table that a model sees.
    """

    nodes: int
    steps: int
    timeout: float
    noise_multiplier: float
    gradient_bound: float
    smoothness: float | None
    model: str
    parameters: int
    noise_std: float
    rows: int
    test_rows: int
    columns: int
    labels_clipped: int | None = None
    rival: Rival | None = None
    batch: int | None = None
    parts: int | None = None
    rows_left_out: int | None = None
    notes: tuple[str, ...] = ()
    guess: Guess | None = None


@dataclass(frozen=True)
class Spread:
    """Mean and standard deviation over runs."""

    mean: float
    std: float

    @classmethod
    def of(cls, values: Floats) -> Spread:
        """Return the spread of one number for each run; a single run has none."""
        return cls(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


@dataclass(frozen=True, kw_only=True)
class RunSummary:
    """The final metrics of all runs, and the privacy they cost."""

    runs: int
    test_error: Spread
    loss: Spread
    latency: Spread
    updates: Spread
    skip_rate: float
    privacy: PrivacyReport


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """Metrics of all runs (rows) at the points where they were taken (columns), with settings and privacy.

    `settings` are the values of the run file by section, and `resolved` is what its defaults and searches came to.
    `offered` and `skipped` count, for each node, how often it was its turn and how often it was skipped, over all runs.
    """

    settings: Mapping[str, Any]
    resolved: ResolvedFacts
    points: NDArray[np.int64]
    test_error: Floats
    loss: Floats
    latency: Floats
    updates: NDArray[np.int64]
    models: Floats
    offered: NDArray[np.int64]
    skipped: NDArray[np.int64]
    privacy: PrivacyReport
    versions: Mapping[str, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        """Say in two lines what was simulated and what came out."""
        summary, resolved, promised = self.summary(), self.resolved, self.privacy.promised
        error = f"test error {number(summary.test_error.mean)} ± {summary.test_error.std:.2g}"
        stated = "no epsilon"
        if promised.epsilon is not None:
            stated = f"epsilon {upper(promised.epsilon)} at delta {promised.delta:g}"
            stated += f" for {PROTECTED[promised.protects]}"
        return (
            f"<Result of {self.schedule}: {resolved.model}, {resolved.nodes} nodes, {resolved.steps} steps,"
            f" {self.runs} {'run' if self.runs == 1 else 'runs'};\n"
            f" {error}, latency {number(summary.latency.mean)}, {stated} (promised)>"
        )

    @property
    def schedule(self) -> str:
        """Name of the schedule, or of the rival that has none."""
        return str(self.settings["schedule"]["name"])

    @property
    def data(self) -> str:
        """What was learned from: the name of a data set, the path of a file, or ``arrays``."""
        said = self.settings.get("data", {})
        return str(said.get("path") or said.get("name") or "-")

    @property
    def data_words(self) -> str:
        """The same with how much of it there is, as far as that is known."""
        facts = self.resolved
        columns = f"{facts.columns} column{'' if facts.columns == 1 else 's'}"
        return (
            f"{self.data}: {facts.rows} rows to learn from, {facts.test_rows} to test, {columns}, {facts.nodes} nodes"
        )

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.test_error)

    def summary(self) -> RunSummary:
        """Return the final metrics: mean and standard deviation over runs, and the privacy."""
        return RunSummary(
            runs=self.runs,
            test_error=Spread.of(self.test_error[:, -1]),
            loss=Spread.of(self.loss[:, -1]),
            latency=Spread.of(self.latency[:, -1]),
            updates=Spread.of(self.updates[:, -1].astype(np.float64)),
            skip_rate=float(self.skipped.sum() / max(1, self.offered.sum())),
            privacy=self.privacy,
        )

    @property
    def remark(self) -> str | None:
        """One line where the mean test error at the end is no better than guessing; None where it is, or who knows."""
        guess = self.resolved.guess
        return None if guess is None else guess.remark(float(self.test_error[:, -1].mean()))

    def all_settings(self) -> dict[str, Any]:
        """Return the run file's values with what they came to (`resolved`) and the `versions` used: run.json."""
        return dict(self.settings) | {"resolved": to_json(self.resolved), "versions": dict(self.versions)}

    def on_latency_grid(self, points: int = 200, *, first: float | None = None) -> tuple[Floats, Floats, Floats]:
        """Return latencies, and mean and standard deviation over runs of the test error that was reached by then.

        Runs are put together step by step: the error after some steps stands at their mean latency. So the last point
        has the numbers of `summary`. For a log axis, say at which latency it is to begin.
        """
        latency = self.latency.mean(axis=0)
        end = float(latency[-1])
        grid = np.linspace(0.0, end, points) if first is None else np.geomspace(first, end, points)
        grid[-1] = end  # and not a rounding error before it
        reached = self.test_error[:, np.searchsorted(latency, grid, side="right") - 1]
        return grid, reached.mean(axis=0), reached.std(axis=0, ddof=1) if self.runs > 1 else np.zeros(points)

    def time_to_error(self, error: float) -> float:
        """Return the mean latency at which the mean test error first falls to this value; infinity if it never does."""
        reached = np.flatnonzero(self.test_error.mean(axis=0) <= error)
        return float(self.latency.mean(axis=0)[reached[0]]) if len(reached) else math.inf

    def to_pandas(self) -> DataFrame:
        """Return the metrics as a pandas frame: a row for each run and point; pandas has to be installed."""
        try:
            import pandas as pd
        except ImportError:
            raise InvalidInput.because("to_pandas", "called", "needs pandas: pip install pandas") from None
        count = len(self.points)
        return pd.DataFrame(
            {
                "run": np.repeat(np.arange(self.runs), count),
                "steps": np.tile(self.points, self.runs),
                "updates": self.updates.ravel(),
                "latency": self.latency.ravel(),
                "test_error": self.test_error.ravel(),
                "loss": self.loss.ravel(),
            }
        )

    def latex(self, name: str | None = None) -> str:
        """Return the final numbers as a table for LaTeX, as `skipring report` does; the row's name is the schedule's.

        Several results in one table: `skipring.simulation.table.latex_rows`.
        """
        return latex_rows([result_row(self.schedule if name is None else name, self)])

    def plot(self) -> Figure:
        """Draw the mean test error against latency, with a band of one standard deviation over runs on either side.

        The figure belongs to no window: a notebook shows it, and `savefig` writes it.
        """
        from matplotlib.figure import Figure  # loading matplotlib takes longer than most simulations

        class NotebookFigure(Figure):
            """A figure that a notebook shows as the value of a cell, without pyplot and `%matplotlib inline`."""

            def _repr_png_(self) -> bytes:  # by this name IPython asks for the picture
                held = io.BytesIO()
                self.savefig(held, format="png")
                return held.getvalue()

        latency, mean, deviation = self.on_latency_grid()
        figure = NotebookFigure(figsize=(6.4, 4.2), layout="constrained")
        axes = figure.add_subplot()
        if self.runs > 1:
            low = np.maximum(mean - deviation, 0.0)  # an error is never negative, and a band must not say so
            axes.fill_between(
                latency, low, mean + deviation, color="#0072B2", alpha=0.2, lw=0.0, label="± one standard deviation"
            )
        axes.plot(latency, mean, color="#0072B2", lw=1.5, label=f"mean of {self.runs} runs" if self.runs > 1 else "run")
        axes.set(xlabel="latency", ylabel="test error")
        axes.set_xlim(left=0.0)
        axes.set_ylim(bottom=0.0)
        axes.grid(alpha=0.3)
        axes.legend(frameon=False)
        return figure

    def save(self, folder: str | Path) -> None:
        """Write run.json, metrics.npz and privacy.json into a folder."""
        target = Path(folder)
        try:
            target.mkdir(parents=True, exist_ok=True)
            write_file(target / "run.json", json_text(self.all_settings(), indent=2), synced=False)
            write_file(target / "privacy.json", json_text(self.privacy, indent=2), synced=False)
            _write_arrays(target / "metrics.npz", {name: getattr(self, name) for name in _ARRAYS})
        except OSError as error:
            raise InvalidInput.because("out", target, f"cannot be written: {error.strerror}") from error

    @classmethod
    def load(cls, folder: str | Path) -> Result:
        """Read a result from the folder that `save` wrote."""
        source = Path(folder)
        try:
            settings = json.loads((source / "run.json").read_text())
            said = settings.pop("resolved")
            resolved = from_json(ResolvedFacts, said, "resolved")
            if resolved.rival is not None:
                rival = from_json(RIVALS[settings["schedule"]["name"]], said["rival"], "resolved.rival")
                resolved = dataclasses.replace(resolved, rival=rival)
            versions = settings.pop("versions", {})
            privacy = from_json(PrivacyReport, json.loads((source / "privacy.json").read_text()), "privacy")
            with np.load(source / "metrics.npz", allow_pickle=False) as file:
                arrays = {name: file[name] for name in _ARRAYS}
        except FileNotFoundError as error:
            missing = Path(str(error.filename)).name
            raise InvalidInput.because(
                "folder", source, f"holds no finished simulation: {missing} is missing"
            ) from None
        except (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, zipfile.BadZipFile) as error:
            raise InvalidInput.because("folder", source, f"is damaged: {error}") from None
        return cls(settings=settings, resolved=resolved, versions=versions, privacy=privacy, **arrays)


def gather(
    outputs: Iterable[RunOutput],
    points: NDArray[np.int64],
    settings: Mapping[str, Any],
    resolved: ResolvedFacts,
    versions: Mapping[str, str],
    privacy: PrivacyReport,
) -> Result:
    """Put runs together, in the order of their numbers."""
    ordered = sorted(outputs, key=lambda output: output.number)
    metrics = {
        name: np.array([getattr(output, name) for output in ordered])
        for name in ("test_error", "loss", "latency", "updates")
    }
    return Result(
        settings=settings,
        resolved=resolved,
        versions=versions,
        points=points,
        **metrics,
        models=np.array([output.model for output in ordered]),
        offered=np.sum([output.turns for output in ordered], axis=0),
        skipped=np.sum([output.skips for output in ordered], axis=0),
        privacy=privacy,
    )


def save_run(folder: Path, output: RunOutput) -> None:
    """Write one finished run, so that an interrupted simulation loses none."""
    arrays = {name: getattr(output, name) for name in RunOutput.__dataclass_fields__ if name != "number"}
    try:
        _write_arrays(folder / "runs" / f"{output.number:06d}.npz", arrays)
    except OSError as error:
        reason = f"cannot be written: {error.strerror}; finished runs are kept, and --resume goes on"
        raise InvalidInput.because("out", folder, reason) from error


def load_run(path: Path) -> RunOutput:
    """Read a run that `save_run` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in RunOutput.__dataclass_fields__ if name != "number"}
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise InvalidInput.because("out", path, f"is damaged ({error}); delete it to compute that run again") from None
    return RunOutput(number=int(path.stem), **arrays | {"foreseeable": bool(arrays["foreseeable"])})


def _write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    with whole_file(path, synced=False) as file:  # hundreds of them, and all can be computed again
        np.savez(file, **arrays)  # type: ignore[arg-type] # numpy's stub takes the names for its own options
