"""The delay law that a line of text spells."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

from ..errors import InvalidInput
from .base import Delay, real_number
from .closed_form import Constant, Exponential, Gamma, Lomax, Never
from .composed import Mixture, Shifted
from .empirical import Empirical
from .from_scipy import ScipyDelay
from .traces import Trace

_CLOSED_FORMS: dict[str, Any] = {law.__name__.lower(): law for law in (Constant, Exponential, Gamma, Lomax, Never)}
_KNOWN = (
    "one of exponential:MEAN, gamma:SHAPE,SCALE, lomax:SHAPE,SCALE, constant:TIME, empirical:FILE.csv, "
    "trace:FILE, scipy:NAME,ARGUMENTS, never, CONSTANT+LAW, WEIGHT*LAW|WEIGHT*LAW"
)
_SHIFT = re.compile(r"\s*([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?|[-+]?inf|nan)\s*\+(.*)", re.DOTALL)


def register_delay(name: str, make: Callable[..., Delay]) -> None:
    """Make a law of your own known as ``name:NUMBER,NUMBER,...``, for run files and commands alike.

    `make` gets the numbers, in the order of its parameters, and returns the law.
    """
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or name in ("empirical", "scipy", "trace"):
        raise InvalidInput("name", name, "lower-case letters, digits and hyphens, and not empirical, scipy or trace")
    if name in _CLOSED_FORMS and _CLOSED_FORMS[name] is not make:
        raise InvalidInput.because("name", name, "is the name of another law")
    _CLOSED_FORMS[name] = make


def parse_delay(text: str) -> Delay:
    """Return the delay law that a command line spells.

    >>> parse_delay("gamma:0.25,1")
    Gamma(shape=0.25, scale=1.0)
    >>> parse_delay("0.9*exponential:1|0.1*never").mass_at_infinity
    0.1
    """
    try:
        return _parse(text)
    except InvalidInput as error:
        part = str(error.given)
        reason = error.reason if part == text.strip() else f"in {part or 'an empty part'}, {error.reason}"
        raise InvalidInput.because("delay", text, reason) from None


def _parse(text: str) -> Delay:
    text = text.strip()
    name, _, rest = text.partition(":")
    if name == "empirical":
        return Empirical.from_csv(rest)
    if name == "trace":
        return Trace.read(text)
    if "|" in text or "*" in text:
        parts = [part.partition("*") for part in text.split("|")]
        weights = [real_number(text, "a weight", weight) for weight, _, _ in parts]
        return Mixture(weights, [_parse(law) for _, _, law in parts])
    if shift := _SHIFT.fullmatch(text):
        return Shifted(float(shift[1]), _parse(shift[2]))
    given = [part.strip() for part in rest.split(",")] if rest.strip() else []
    if name == "scipy" and given:
        return _parse_scipy(text, given[0], [real_number(text, "an argument", value) for value in given[1:]])
    if name not in _CLOSED_FORMS:
        raise InvalidInput("delay", text, _KNOWN)
    law: Any = _CLOSED_FORMS[name]
    wanted = list(inspect.signature(law).parameters)
    if len(given) != len(wanted):
        count = f"{len(wanted)} ({', '.join(wanted)})" if wanted else "0"
        raise InvalidInput.because("delay", text, f"{name} takes {count} numbers, not {len(given)}")
    found: Delay = law(*(real_number(text, f"the {what}", value) for what, value in zip(wanted, given, strict=True)))
    return found


def _parse_scipy(text: str, name: str, arguments: list[float]) -> ScipyDelay:
    from scipy import stats  # slow to import

    law = getattr(stats, name, None)
    if not isinstance(law, stats.rv_continuous):
        raise InvalidInput.because("delay", text, f"scipy.stats has no continuous law called {name!r}")
    shapes = [shape.strip() for shape in law.shapes.split(",")] if law.shapes else []
    if not len(shapes) <= len(arguments) <= len(shapes) + 2:
        needed = f"{', '.join(shapes) or 'no shape'}, then optionally loc, scale"
        raise InvalidInput.because("delay", text, f"{name} takes {needed}, not {len(arguments)} numbers")
    return ScipyDelay(law(*arguments))
