"""Reading the small TOML files of a network, and writing files that only their owner may read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import InvalidInput
from ..runs import expected, read_toml, unknown_key


class Section(BaseModel):
    """A table of a TOML file: unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_Model = TypeVar("_Model", bound=BaseModel)


def read_checked(path: str | Path, model: type[_Model], *, what: str) -> _Model:
    """Read a TOML file and check it; one line names the first key that is wrong."""
    values = read_toml(path, if_missing="does not exist; `skipring network init` writes one")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        refusal = first.get("ctx", {}).get("error")
        key = ".".join(map(str, first["loc"]))
        if isinstance(refusal, InvalidInput):
            reason = str(refusal)
        elif first["type"] == "extra_forbidden":
            reason = f"{key} is not a key of {what}{unknown_key(first['loc'], model)}"
        elif first["type"] == "missing":
            reason = f"{key} is missing"
        else:
            given = "a table" if isinstance(first["input"], Mapping) else first["input"]
            reason = f"{key} = {given}: {expected(first, model)}"
        raise InvalidInput.because("FILE", path, reason) from None


def quoted(text: str) -> str:
    """Return a text as a TOML string."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
