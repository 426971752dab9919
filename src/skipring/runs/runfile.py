"""Run files: a run described in TOML, for simulations and nodes. Every value has a default; unknown keys are errors."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from pydantic import ValidationError

from ..data import Schema, is_published
from ..errors import InvalidInput
from ..learning import rows_of_one
from ..schedules import AUTO, RIVALS, USUAL_SCHEDULE, Laps, usual_schedule
from .columns import with_columns, with_files_beside, with_schema_file
from .sections import (
    ComputeSection,
    DataSection,
    DelaySection,
    FederatedSection,
    GossipSection,
    LapsSection,
    LearningSection,
    ModelSection,
    NetworkSection,
    PrivacySection,
    ScheduleSection,
    Section,
    SimulationSection,
    Stragglers,
)
from .wording import by_key, refusal, require_no_quotes, sections

#: Two keys of which one may be given.
EITHER = (
    ("delay.timeout", "delay.skip"),
    ("delay.timeout", "laps.deadline"),
    ("delay.skip", "laps.deadline"),
    ("gossip.slots", "gossip.access"),
    ("model.classes", "model.label_bound"),
    ("privacy.noise_multiplier", "privacy.epsilon"),
)


class RunFile(Section):
    """A run, section by section."""

    data: DataSection = DataSection()
    model: ModelSection = ModelSection()
    schedule: ScheduleSection = ScheduleSection()
    delay: DelaySection = DelaySection()
    compute: ComputeSection = ComputeSection()
    stragglers: Stragglers = Stragglers()
    laps: LapsSection = LapsSection()
    gossip: GossipSection = GossipSection()
    federated: FederatedSection = FederatedSection()
    learning: LearningSection = LearningSection()
    privacy: PrivacySection = PrivacySection()
    simulation: SimulationSection = SimulationSection()
    network: NetworkSection = NetworkSection()
    column: list[dict[str, Any]] | None = None

    @property
    def table(self) -> Schema | None:
        """What the columns of tables mean, if the file says so in `[[column]]` entries."""
        return None if self.column is None else Schema.of(self.column)

    @property
    def rows_of_one(self) -> int:
        """The most rows of a person that are used, or 1 where no persons are protected."""
        with by_key():
            return rows_of_one(self.privacy.protects, self.data.rows_per_person)

    @property
    def standardises(self) -> bool:
        """Whether features get mean 0 and deviation 1 over all nodes' rows: in laps only where the file asks for it."""
        asked = self.data.standardise
        return (self.schedule.name != Laps.name if asked is None else asked) and not self.model.takes_pixels

    @property
    def takes_ranges(self) -> bool:
        """Whether features are scaled by the ranges of their data set, if it has some."""
        return self.data.standardise is None and not self.standardises and not self.model.takes_pixels

    @property
    def is_published(self) -> bool:
        """Whether the classes of its rows are published: a data set has a name then, and is no file or array."""
        return self.data.path is None and is_published(self.data.name)

    def _given(self, key: str) -> Any:
        return getattr(getattr(self, _section(key)), _key(key))

    def having(self, **sections: Mapping[str, Any]) -> Self:
        """Return the same with other values of these sections, which nobody checks; None is as good as not given."""
        changed = {name: getattr(self, name).model_copy(update=values) for name, values in sections.items()}
        return self.model_copy(update=changed)

    def walking(self) -> Self:
        """Return the same for real nodes, which walk where nobody has named a schedule."""
        return self if "name" in self.schedule.model_fields_set else self._by(USUAL_SCHEDULE)

    def _by(self, schedule: str) -> Self:
        """Return the same with a schedule that nobody has named: others ask whether it is in `model_fields_set`."""
        section = self.schedule.model_copy(update={"name": schedule})
        section.model_fields_set.discard("name")
        return self.model_copy(update={"schedule": section})

    def model_post_init(self, _: Any) -> None:
        """Name the schedule where nobody did; refuse two values where one is meant, and what does not go together."""
        if self.schedule.name == AUTO:
            usual = self._by(usual_schedule(self.privacy.protects, network=self.model.is_network))
            object.__setattr__(self, "schedule", usual.schedule)
        for first, second in EITHER:
            if self._given(first) is not None and (given := self._given(second)) is not None:
                names = (first, second) if _section(first) != _section(second) else map(_key, (first, second))
                raise InvalidInput.because(second, given, "give either {} or {}, not both".format(*names))
        if self.compute.late == "fewer-rows" and self.privacy.protects == "person":
            # How long rows take would tell how many of them a person has, for which no noise was chosen.
            reason = "persons are protected, and how many rows one has would decide who else is in an update; say skip"
            raise InvalidInput.because("compute.late", self.compute.late, reason)
        if self.data.path is not None and self.data.label is None:
            raise InvalidInput.because("data.label", "missing", "say which column of the file is the label")
        if self.model.intercept_share is not None and not self.data.unit_rows and self.column is None:
            reason = "rows that are not scaled to norm 1 (data.unit_rows) have no square to share"
            raise InvalidInput.because("model.intercept_share", self.model.intercept_share, reason)


def _section(key: str) -> str:
    return key.partition(".")[0]


def _key(key: str) -> str:
    return key.partition(".")[2]


def parse_run(values: Mapping[str, Any], *, folder: Path | None = None) -> RunFile:
    """Check the values of a run file, whose files lie in `folder`; one line names the first that is wrong."""
    if folder is not None:
        values = with_schema_file(with_files_beside(dict(values), folder), folder, read_toml)
    require_no_quotes(values, RunFile)
    try:
        return RunFile.model_validate(with_columns(values))
    except ValidationError as error:
        first = error.errors()[0]
        if isinstance(own := first.get("ctx", {}).get("error"), InvalidInput):
            raise own from None
        raise refusal(first, RunFile) from None


def read_run_file(path: str | Path, *, whole_paths: bool = False) -> RunFile:
    """Read a run file; with `whole_paths`, its files are found from anywhere."""
    values, beside = _read(path), Path(path).parent
    return parse_run(values, folder=beside.absolute() if whole_paths else beside)


def with_changes(path: str | Path | None, changes: Sequence[str]) -> RunFile:
    """Read a run file and change some values, each given as ``section.key=value``.

    With another schedule, what the file says of its own one alone is left out.
    """
    values = {} if path is None else _read(path)
    parsed = [parse_change(change) for change in changes]
    for key, value in parsed:
        if key == "schedule.name":
            change_schedule(values, value)
    for key, value in parsed:
        change_value(values, key, value)
    return parse_run(values, folder=Path() if path is None else Path(path).parent)


def _read(path: str | Path) -> dict[str, Any]:
    return read_toml(path, if_missing="does not exist; `skipring init` writes one")


def read_toml(path: str | Path, *, if_missing: str) -> dict[str, Any]:
    """Read a TOML file; one line says what is wrong with it."""
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidInput.because("FILE", path, if_missing) from None
    except IsADirectoryError:
        inside = sorted(each.name for each in Path(path).glob("*.toml"))
        hint = f"; it has {', '.join(inside[:5])} in it" if inside else ""
        raise InvalidInput.because("FILE", path, f"is a folder, and not a file{hint}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput.because("FILE", path, f"cannot be read: {error}") from None
    except (ValueError, RecursionError) as error:  # also numbers of thousands of digits, and brackets in brackets
        raise InvalidInput.because("FILE", path, f"is not TOML: {error}") from None


def parse_change(change: str) -> tuple[str, Any]:
    """Return the key and the value of ``section.key=value``.

    The file of a schema is one where the command runs, if there is such a file; else it lies beside the run file.
    """
    key, separator, text = change.partition("=")
    if not separator or "." not in key:
        raise InvalidInput("set", change, "of the form section.key=value")
    name = key.strip()
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()  # a word without quotes
    if name == "data.schema_file" and isinstance(value, str) and Path(value).is_file():
        value = str(Path(value).absolute())
    return name, value


def change_value(values: dict[str, Any], key: str, value: Any) -> None:
    """Set ``section.key`` among a run file's values; of two values that exclude each other, the new one counts."""
    section, _, name = key.partition(".")
    table = values.setdefault(section, {})
    if not isinstance(table, dict):
        raise InvalidInput("set", f"{key}={value}", "about a section of the run file")
    for pair in EITHER:
        if key in pair:
            other, _, its = pair[1 - pair.index(key)].partition(".")
            if isinstance(values.get(other), dict):
                values[other].pop(its, None)
    table[name] = value


def change_schedule(values: dict[str, Any], name: object) -> None:
    """Leave out what only another schedule than this one reads: a file may be about several that are compared."""
    for section in RIVALS:
        if section != name:
            values.pop(section, None)
    if name == Laps.name and isinstance(values.get("schedule"), dict):
        for key in ("steps", "closing", "search"):
            values["schedule"].pop(key, None)


def example_run_file() -> str:
    """Return a run file with every key, its default and what it means."""
    lines = ["# A run for skipring. Every value has a default; lines that begin with # show it.", ""]
    for section, table in sections(RunFile).items():
        lines.append(f"[{section}]    # {(table.__doc__ or '').partition('.')[0].lower()}")
        for name, key in table.model_fields.items():
            if key.default is None:
                lines.append(f"# {name} =    # {key.description}")
            else:
                lines.append(f"{name} = {toml_value(key.default)}    # {key.description}")
        lines.append("")
    return "\n".join(lines)


def toml_value(value: object) -> str:
    """Return a value as TOML writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, float) and math.isinf(value):
        return "inf"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml_value, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml_value(str(key))} = {toml_value(each)}" for key, each in value.items()) + "}"
    return repr(value)
