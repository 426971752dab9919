"""What every accountant can be asked, and what it states: a guarantee, with all that its number is nothing without."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, runtime_checkable

from .._numbers import upper
from ..errors import InvalidInput

#: What is protected: all data of a node, all rows of one person at a node, or one record of a node.
Unit = Literal["node", "person", "record"]
#: What is protected where nobody says; to protect a whole node is asked for.
USUAL_UNIT: Unit = "record"
#: Which data sets nobody can tell apart: in one, what is protected is replaced by any other. How many persons or
#: records a node has is the same in both, and may be known.
RELATION = "replace-one"

#: Who looks, in the words that people read; `Guarantee.sees` says what of the run they see.
ANOTHER_NODE, ALL_OTHERS, OUTSIDER, SERVER = "another node", "all others", "an outsider", "the server"
#: What an outsider sees, and where that is not enough.
SHOWN = "shown the final model and nothing else, who may know the path"
ALONE = "it does not hold if the outsider and a node put together what they saw"

#: What the noise of others may be counted under, and what holds without it.
AMPLIFIED = "the noise of others counts: the loss must be convex and smooth, with learning rate at most 2 / smoothness"
IN_FULL = "each update of the node counts in full, whatever the loss"
EACH_LAP = "each lap counts, whatever the model, its loss and its step"

#: How the guarantee for all data of a node is called beside one for less.
WHOLE_NODE = "whole node"
_WHAT: dict[Unit, str] = {"node": "all data", "person": "all rows of one person", "record": "one record"}
#: What is protected, in a few words.
PROTECTED: dict[Unit, str] = _WHAT | {"node": "all data of a node"}
#: What is public although less than a node is protected.
_KNOWN: dict[Unit, tuple[str, ...]] = {
    "node": (),
    "person": ("how many persons each node has is public, and what is replaced is what their rows say",),
    "record": ("how many records each node has is public, and what is replaced is what they say",),
}
#: Beyond this, an epsilon says nothing: the odds of a guess may change by more than 10^43.
_NOTHING = 100.0


def coalition(members: int) -> str:
    """Return how a number of nodes is called that put together what they saw."""
    return f"a coalition of {members}"


def promised(epsilon: float) -> str:
    """Say an epsilon, or that it is none to speak of.

    >>> promised(1.5), promised(953.0)
    ('1.5', 'nothing is promised (953)')
    """
    return upper(epsilon) if epsilon <= _NOTHING else f"nothing is promised ({upper(epsilon)})"


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """What is promised to those whose data it is: an epsilon, and all that it cannot be read without.

    Parameters
    ----------
    protects, whose : what is protected, and in words of which node.
    against, sees : who looks (another node, a coalition of 3, all others, an outsider), and what they see and know.
    method : by which accounting.
    delta, epsilon : the numbers.
    refused : why there is no epsilon, or why it protects nothing.
    doubt : why an epsilon that others state is not shown to hold.
    assumptions : sentences without a full stop: what it rests on, and what it leaves out.
    not_covered : what no epsilon of it counts.
    stated_by : who states it, where it is not proven here; empty where it is.
    also : further guarantees of the same run, such as against an outsider, or for a whole node.

    >>> print(Guarantee(protects="node", whose="any node", against=ANOTHER_NODE, sees="which knows the path",
    ...                 method="tight", delta=1e-6, epsilon=1.5, assumptions=("each update counts",)).sentence())
    Epsilon 1.5 at delta 1e-06 protects all data of any node (replace-one) against another node, which knows the path (method tight). Each update counts.
    """  # noqa: E501 - a sentence is one line

    protects: Unit
    whose: str
    against: str
    sees: str
    method: str
    delta: float
    epsilon: float | None = None
    refused: str | None = None
    doubt: str | None = None
    assumptions: tuple[str, ...] = ()
    not_covered: str | None = None
    stated_by: str = ""
    also: tuple[Guarantee, ...] = ()
    relation: str = RELATION

    def __post_init__(self) -> None:
        if self.epsilon is None and self.refused is None:
            raise InvalidInput("epsilon", "nothing", "a number, or why there is none")
        if self.epsilon is not None and not self.epsilon >= 0.0:
            raise InvalidInput("epsilon", self.epsilon, "at least 0")
        if self.relation != RELATION:  # a file's: its numbers would mean something else
            raise InvalidInput("relation", self.relation, RELATION)

    def sentence(self) -> str:
        """Say it to people: the number, whose data it protects against whom, and what it rests on and leaves out."""
        what = f"{_WHAT[self.protects]} of {self.whose} ({RELATION})"
        whom = f"against {self.against}, {self.sees} (method {self.method})"
        number = "" if self.epsilon is None else f"epsilon {upper(self.epsilon)} at delta {upper(self.delta)}"
        if self.refused is not None or self.epsilon is None or self.epsilon > _NOTHING:
            first = f"nothing is promised for {what} {whom}: {self.refused or f'{number} says nothing'}"
        else:
            first = f"{number} protects {what} {whom}"
        return said(
            f"{self.stated_by} states: {first}" if self.stated_by else first,
            *self.assumptions,
            *_KNOWN[self.protects],
            *(() if self.not_covered is None else (f"not covered: {self.not_covered}",)),
            *(() if self.doubt is None else (f"do not rely on it: {self.doubt}",)),
        )

    def sentences(self) -> list[str]:
        """Say this guarantee and all further ones."""
        return [each.sentence() for each in (self, *self.also)]

    @property
    def what(self) -> str:
        """What is protected, in a few words."""
        return f"{PROTECTED[self.protects]} ({RELATION})"

    @property
    def number(self) -> str:
        """The epsilon for a table, or why nothing is promised."""
        return f"nothing is promised: {self.refused}" if self.epsilon is None else promised(self.epsilon)

    @property
    def terms(self) -> str:
        """What the number cannot be read without, in one line."""
        if self.refused is not None:
            return f"nothing: {self.refused}"
        return f"{self.what} at delta {upper(self.delta)} against {self.against} (method {self.method})"

    @property
    def further(self) -> str:
        """The further numbers in one line; empty where there are none."""
        return "; ".join(f"{name}: {number}" for name, number in self.further_rows())

    def rows(self) -> list[tuple[str, str]]:
        """Return what a table says of it: all numbers, and what they cannot be read without."""
        terms = ("protects", self.what), ("against", self.against), ("method", self.method)
        return [("epsilon", self.number), *self.further_rows(), ("delta", upper(self.delta)), *terms]

    def further_rows(self) -> list[tuple[str, str]]:
        """Return what a table says of the further guarantees."""
        return [(f"epsilon, {self._name(each)}", each.number) for each in self.also]

    def beside(self, name: str) -> Guarantee | None:
        """Return the further guarantee against an `OUTSIDER` or `ALL_OTHERS`, or that of a `WHOLE_NODE`."""
        return next((each for each in self.also if self._name(each) == name), None)

    def _name(self, further: Guarantee) -> str:
        return WHOLE_NODE if further.protects != self.protects else further.against


def nothing_promised(protects: Unit, delta: float, why: str, *, method: str = "tight") -> Guarantee:
    """Return the guarantee of a run for which there is no epsilon."""
    seen = "always ready, who knows the path and sees the final model"
    return Guarantee(
        protects=protects, whose="any node", against=ANOTHER_NODE, sees=seen, method=method, delta=delta, refused=why
    )


def said(*sentences: str) -> str:
    """Return sentences that have neither a capital nor a full stop as a text."""
    return " ".join(f"{words[0].upper()}{words[1:]}." for words in sentences)


def large_delta(delta: float, unit: Unit, units: int, *, at_least: bool = False) -> str | None:
    """Say so where delta is above 1 / units, the (least) number of units of all nodes; None where it is not.

    A mechanism that gives away one unit chosen at random, and hides nothing of it, keeps such a delta.

    >>> large_delta(1e-3, "record", 500) is None
    True
    >>> str(large_delta(1e-2, "record", 500)).partition(":")[0]
    'delta 0.01 is above 1 / 500, one over the number of records'
    """
    if delta * units <= 1.0:
        return None
    number = f"and there are {units} {unit}s at least" if at_least else f"one over the number of {unit}s"
    return (
        f"delta {delta:g} is above 1 / {units}, {number}: giving one of them away would keep it; choose a smaller one"
    )


@runtime_checkable
class Accountant(Protocol):
    """Says what a run costs, as (epsilon, delta) for either of the two; all numbers are upper bounds.

    Values outside of what the mathematics covers are refused. `delta` never falls with a smaller epsilon, nor `epsilon`
    with a smaller delta, and each is the other's inverse up to rounding.
    """

    def epsilon(self, delta: float) -> float:
        """Return the smallest epsilon that goes with a delta."""

    def delta(self, epsilon: float) -> float:
        """Return the smallest delta that goes with an epsilon."""

    def kinds(self, delta: float) -> int:
        """Return how many kinds of units are told apart; what is stated is the worst of them."""

    def excess(self, epsilon: float, delta: float, kind: int = 0) -> float:
        """Return how far a budget is from being kept for one kind of units: at most 0 where it is.

        It falls with more noise, and nearly as a straight line does in the logarithm of the noise.
        """

    def guarantee(self, delta: float) -> Guarantee:
        """Return the epsilon at a delta with all that it cannot be read without."""
