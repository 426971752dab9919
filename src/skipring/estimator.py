"""The protocol as a scikit-learn classifier: fit it on rows that belong to nodes, and read off what it cost."""

from __future__ import annotations

import dataclasses
import math
import numbers
import secrets
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from ._arrays import Doubles, Ints
from ._digest import digest
from .data import Dealing, NodeData, Recipe, Scaling, encoder, require_one_spelling, split_over_nodes
from .delays import Delay, parse_delay
from .errors import InvalidInput, require_integer, require_non_negative
from .learning import usual_loss
from .models import Inputs, ModelFacts, TrainedModel, save_model
from .privacy import (
    USUAL_UNIT,
    Guarantee,
    PlannedLaps,
    PlannedRun,
    Unit,
    accountant,
    large_delta,
    nothing_promised,
    promise,
)
from .runs import RunFile, parse_run, protected_rows
from .schedules import AUTO, SCHEDULES, Laps, usual_schedule
from .simulation import DealtRows, planned, planned_laps, run_one, setup_on

__all__ = ["SkipRingClassifier"]


_MOST_NODES = 100
_ROWS_PER_NODE = 4
#: Below this, epsilon is in the tens of millions, and the accountants run out of digits.
_LEAST_NOISE = 1e-3
#: What no epsilon counts.
_SCALES = "the mean and standard deviation of each feature, and "
_READ_OFF = "which classes there are, read off all training rows; nor other fits on the same rows"
#: Why a saved model states no epsilon.
_KNOWN_NOISE = "its noise follows from random_state, and who knows that can take it off; fit without one"
_ON_A_GPU = "a GPU drew its noise from too few random bits to keep it secret"
#: The keys of the run file that parameters set, one each; all but one have the parameter's name.
_KEYS = {"learning_rate": "learning.rate"} | {
    key.partition(".")[2]: key
    for key in (
        *("laps.laps", "laps.coalition", "delay.timeout", "delay.hop_latency", "learning.batch", "learning.diameter"),
        *("model.ridge", "data.rows_per_person", "privacy.epsilon", "privacy.delta", "privacy.noise_multiplier"),
    )
}
#: What else is refused by a name that this class does not use.
_OTHERS = {
    "schedule.name": "schedule",
    "schedule.steps": "rounds",
    "delay.law": "delay",
    "data.nodes": "nodes",
    "data.person": "persons",
    "features": "X",
    "encoder": "features",
}
_NAMES = {key: parameter for parameter, key in _KEYS.items()} | _OTHERS


@dataclass(eq=False, repr=False)
class _Parameters(BaseEstimator):  # type: ignore[misc] # scikit-learn carries no types
    """What can be chosen, with its defaults; `SkipRingClassifier` says what each of them is."""

    schedule: str = AUTO
    laps: int | str = "auto"
    coalition: int | None = None
    rounds: int = 30
    delay: str | Delay | None = None
    timeout: float | str | None = None
    hop_latency: float = 0.01
    learning_rate: float = 0.3
    batch: int | None = None
    diameter: float = 10.0
    epsilon: float | None = 8.0
    delta: float = 1e-5
    noise_multiplier: float | None = None
    nodes: int | None = None
    standardise: bool = True
    intercept: bool = True
    ridge: float = 0.0
    features: str = "none"
    random_state: int | np.random.RandomState | None = None
    protects: str = "auto"
    rows_per_person: int | None = None


class SkipRingClassifier(ClassifierMixin, _Parameters):  # type: ignore[misc] # scikit-learn carries no types
    """A linear classifier that nodes learn together, each with its own rows, in one simulated run of the protocol.

    Two classes are told apart by logistic regression, more by softmax regression. Every row is scaled to norm 1, which
    bounds what a node can contribute to an update.

    Parameters
    ----------
    schedule : ``laps``, private sums to which all nodes that are ready add; or who gets the token next. That is
        ``ring``, ``random-ring``, ``random-walk``, or ``designed-ring``, whose order is chosen so that epsilon holds
        for every pair of nodes. ``auto`` is laps for records and persons, and random-ring for whole nodes.
    laps : how many laps; ``auto`` is 5, and 100 for models of more than 100 parameters.
    coalition : laps: how many nodes may put together what they know (default: a fifth of them, and one at least).
    rounds : length of a walk, in hops per node.
    delay : how long a node takes, as text (``exponential:1``, ``lomax:3,2``, ...) or as a law of `skipring.delays`.
        Without one nobody is skipped, and virtual time goes by gamma:0.25,1.
    timeout : how long a node or lap is waited for: a time, ``inf`` (skip nobody; the default without a `delay`), or
        ``most-updates`` (least time per update; the default with one).
    hop_latency : the time that a hop takes.
    learning_rate : a walk's step size of the first update; that of update number t is smaller by sqrt(t). Laps find
        their steps in their sums.
    protects : what `epsilon` protects: ``record`` (one row), ``person`` (all rows of one person, see `fit`) or ``node``
        (all rows of a node). ``auto`` is persons if `fit` is told whose each row is, and records otherwise.
        `protects_` says which it was.
    rows_per_person : for persons, how many rows of one are used at most: the first ones. It must be given then, and
        without looking at the data.
    batch : the most rows of an update. For records and persons the sum over them is divided by it, and a node with more
        rows rotates through parts (default: the rows of the largest node). For nodes they are drawn anew for each
        update (default: all of a node).
    diameter : of the ball that the parameters of a walk are kept in.
    epsilon, delta : the privacy budget, from which the noise follows.
    noise_multiplier : standard deviation of the noise over the most that what is protected can contribute; if given, it
        is used in place of what `epsilon` asks for. 0 means no noise and no privacy; otherwise at least 0.001.
    nodes : how many nodes the rows (or persons, if `fit` is told of them) are dealt to at random if `fit` is not told.
        The default is one for every four, but at least 2 and at most 100.
    standardise : give each feature mean 0 and standard deviation 1 before the rows are scaled.
    intercept : learn a constant as well. It takes half of each row's square, so the features' part is noisier: leave
        it out where the classes are about balanced and the features standardised.
    features : public features of each row, on which the linear model then learns: ``none``, ``scattering`` for images,
        ``random-fourier:N`` for N of them, or ``module:function``; see `skipring.data.features`.
    ridge : weight of half the squared norm of the parameters.
    random_state : a seed or a `numpy.random.RandomState`, for the same result every time; by default, fresh randomness
        of the operating system. A model that is to be handed on needs the latter.

    Attributes
    ----------
    classes_ : the labels, sorted.
    coef_, intercept_ : the model, for rows as `scaling_` makes them: one row of coefficients and one constant for two
        classes, and otherwise one of each for every class.
    n_features_in_ : number of features. If they have names, `feature_names_in_` holds them.
    epsilon_ : what is promised at `delta` for such a run whose noise nobody knows; infinity without noise.
    protects_ : what it hides: ``record``, ``person`` or ``node``.
    planned_ : the run as accountants see it, for composing it with others; None without noise.
    noise_multiplier_, timeout_ : what was used.
    latency_, updates_ : how long the run took in virtual time, and how many updates it made.
    scaling_ : how features become what the model sees.

    Notes
    -----
    `epsilon_` bounds, at `delta`, what others learn about one record, about one person or about all rows of a node
    (`protects_`). What is protected may be replaced by any other. In laps the others are any `coalition` of nodes. It
    sees everything on the wire. In a walk it is any one other node. It learns from every token that it is offered and
    from the final model. Where records or persons are protected, next to nothing is promised for a
    node as a whole. Three things are outside of it:

    - The mean and standard deviation of the features come from all training rows, and so do the labels in `classes_`.
      They are not covered by `epsilon_`. Pass ``standardise=False``, or scale by what is known publicly, to avoid the
      first.
    - Every further fit on the same rows is a run of its own. `GridSearchCV` makes one for each candidate and fold, and
      `epsilon_` of the best is about that fit alone: neither the others nor the choice are covered. This is:
      ``Composition(*(forecast(model.planned_) for model in fitted)).epsilon(delta)`` (`skipring.privacy`) of walks. Of
      laps, mu^2 adds up.
    - Who knows `random_state` can compute the noise and take it off. Leave it out if the model is to be handed on; with
      one, `save_model` states no epsilon.

    In a walk, amplification by the noise of others needs a learning rate of at most 2 / smoothness (8 for two classes,
    4 for more, less with `ridge`). Beyond it, only the noise of a node's own updates counts, and a warning says so.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clinic = np.arange(len(X)) % 113
    >>> model = SkipRingClassifier(epsilon=8.0, random_state=1).fit(X, y, groups=clinic)
    >>> bool(model.score(X, y) > 0.8), round(model.epsilon_, 3)
    (True, 8.0)
    """

    classes_: NDArray[Any]
    coef_: Doubles
    intercept_: Doubles
    n_features_in_: int
    epsilon_: float
    protects_: Unit
    planned_: PlannedRun | PlannedLaps | None
    noise_multiplier_: float
    timeout_: float
    latency_: float
    updates_: int
    scaling_: Scaling

    def fit(
        self, X: ArrayLike, y: ArrayLike, groups: ArrayLike | None = None, persons: ArrayLike | None = None
    ) -> Self:
        """Learn from rows; `groups` says, by a number or a name for each row, which node it belongs to.

        `persons` says in the same way whose row it is, where persons are protected. Without `groups`, rows are dealt to
        `nodes` nodes at random: one by one, or all rows of a person together. A name of `y` (of a pandas Series, say)
        is what a saved model takes the label's column of a table for.
        """
        with np.errstate(invalid="ignore"):  # sums of finite but extreme values, by which scikit-learn looks for others
            features, labels = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(labels)
        classes, numbered = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInput.because("y", f"only {classes[0]}", "one class cannot be told apart; give at least 2")
        owners = None if groups is None else _numbered(groups, features, "groups")
        whose = None if persons is None else _numbered(persons, features, "persons")
        if owners is not None and len(owners.names) < 2:
            given = f"only {owners.names[0]}"
            raise InvalidInput.because("groups", given, "the token needs at least 2 nodes to walk between")
        with _in_words_of_this_class():
            self._learn(features, classes, numbered, owners, whose)
        called = getattr(y, "name", None)
        known = map(str, getattr(self, "feature_names_in_", ()))
        self._label = called if isinstance(called, str) and called.strip() and called not in known else None
        return self

    def _learn(
        self,
        features: Doubles,
        classes: NDArray[Any],
        labels: Ints,
        owners: _Numbered | None,
        persons: _Numbered | None,
    ) -> None:
        self._check_parameters()
        made = encoder(self.features, features.shape[1])
        recipe = Recipe(standardise=self.standardise, intercept=self.intercept, encoder=made)
        scaling = Scaling.learn(features, recipe)
        rows = scaling.apply(features)
        seed = self._seed()
        data = self._deal(rows, labels, owners, persons, seed)
        self.protects_ = self._protected(persons is not None)
        run = self._run(data.nodes, seed)
        data = protected_rows(run, data, persons.names if persons else (), owners.names if owners else ())
        # Nobody asks for metrics: a single row costs least.
        dealt = DealtRows(data, data.features[:1], data.labels[:1], len(classes))
        setup = setup_on(run, dealt, delay=_delay(self.delay), secret=self.random_state is None)
        laps = isinstance(setup.schedule, Laps)
        if setup.noise_multiplier > 0.0:
            why = None if laps else setup.model.why_not(setup.step_sizes.largest)
            alone = f"{why}: only the noise of a node's own updates protects it" if why else None
            many = large_delta(float(self.delta), self.protects_, sum(setup.units or ()))
            for warning in filter(None, (alone, many)):
                warnings.warn(warning, UserWarning, stacklevel=3)
        output = run_one(setup, 0)
        parameters = np.asarray(output.model, np.float64).reshape(-1, rows.shape[1])
        if self.intercept:
            # The constant column holds the factor by which the features were shrunk to make room for it.
            parameters = parameters * rows[0, -1]
            self.coef_, self.intercept_ = parameters[:, :-1], parameters[:, -1]
        else:
            self.coef_, self.intercept_ = parameters, np.zeros(len(parameters))
        self._why_no_epsilon = (
            _KNOWN_NOISE if self.random_state is not None else _ON_A_GPU if output.foreseeable else None
        )
        self._vector = np.asarray(output.model, np.float64)
        # Without its seed, which must stay a secret.
        self._run_digest = digest(run.having(simulation={"seed": 0}).model_dump(mode="json")).hex()
        self.classes_ = classes
        self.scaling_ = dataclasses.replace(scaling, intercept=False)
        self.noise_multiplier_, self.timeout_ = float(setup.noise_multiplier), float(setup.timeout)
        self.planned_ = None
        if setup.noise_multiplier > 0.0:
            self.planned_ = planned_laps(setup) if laps else planned(setup)
        account = None if self.planned_ is None else accountant("tight", self.planned_)
        self.epsilon_ = math.inf if account is None else float(account.epsilon(self.delta))
        self.latency_, self.updates_ = float(output.latency[-1]), int(output.updates[-1])

    def _protected(self, persons: bool) -> Unit:
        if self.rows_per_person is not None and not persons:
            raise InvalidInput.because(
                "rows_per_person", self.rows_per_person, "is for persons; give `fit` persons, too"
            )
        if self.protects == "auto":
            return "person" if persons else USUAL_UNIT
        if persons and self.protects != "person":
            reason = f"protects = {self.protects!r} does not protect persons; leave them out, or say 'person' or 'auto'"
            raise InvalidInput.because("persons", "", reason)
        if not persons and self.protects == "person":
            raise InvalidInput.because("persons", "missing", "protects = 'person': tell `fit` whose each row is")
        return self.protects  # type: ignore[return-value] # it was checked

    def _check_parameters(self) -> None:
        """Refuse what the rooms below would not be asked about, or would not name in the words of this class."""
        require_integer("rounds", self.rounds, 1)
        if self.batch is not None:
            require_integer("batch", self.batch, 1)
        if self.protects not in ("auto", *get_args(Unit)):
            raise InvalidInput("protects", self.protects, "record, person, node or auto")
        if self.rows_per_person is not None:
            require_integer("rows_per_person", self.rows_per_person, 1)
        for name in ("standardise", "intercept"):
            if not isinstance(getattr(self, name), bool | np.bool_):
                raise InvalidInput(name, repr(getattr(self, name)), "True or False")
        if not isinstance(self.features, str):
            raise InvalidInput("encoder", repr(self.features), "the name of an encoder, or none")
        if not isinstance(self.schedule, str):
            raise InvalidInput("schedule", repr(self.schedule), "the name of a schedule")
        timeout: object = self.timeout  # whatever was given
        if isinstance(timeout, bool) or (not isinstance(timeout, numbers.Real | None) and timeout != "most-updates"):
            raise InvalidInput("timeout", repr(timeout), "a number above 0, infinity or 'most-updates'")
        if self.epsilon is None and self.noise_multiplier is None:
            raise InvalidInput("epsilon", None, "a number, unless noise_multiplier is one")
        if self.noise_multiplier is not None:
            require_non_negative("noise_multiplier", self.noise_multiplier)
            if 0.0 < self.noise_multiplier < _LEAST_NOISE:
                allowed = f"at least {_LEAST_NOISE:g}, or 0 for no privacy at all"
                raise InvalidInput("noise_multiplier", self.noise_multiplier, allowed)

    def _seed(self) -> int:
        if self.random_state is None:
            # Not numpy's global generator, which often starts from a known seed. It is for the split and a designed
            # order, which `planned_` tells; the noise has a stream of its own (`Setup.streams`).
            return secrets.randbits(128)
        return int.from_bytes(check_random_state(self.random_state).bytes(16), "little")

    def _deal(
        self,
        rows: NDArray[np.floating[Any]],
        labels: Ints,
        owners: _Numbered | None,
        persons: _Numbered | None,
        seed: int,
    ) -> NodeData:
        # The run has the stream of number 0; the split has one of its own.
        rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2**32 - 1,)))
        whose = None if persons is None else persons.codes
        if owners is not None:
            as_said = Dealing(kind="groups")
            return split_over_nodes(rows, labels, self.nodes, rng, as_said, groups=owners.codes, persons=whose)
        units = len(rows) if persons is None else len(persons.names)
        usual = min(_MOST_NODES, max(2, units // _ROWS_PER_NODE))
        nodes = self.nodes if self.nodes is not None else usual
        require_integer("nodes", nodes, 2)
        return split_over_nodes(rows, labels, nodes, rng, persons=whose)

    def _run(self, nodes: int, seed: int) -> RunFile:
        """Return the run file that says what this object's parameters say."""
        name = usual_schedule(self.protects_) if self.schedule == AUTO else self.schedule
        steps = {"steps": int(self.rounds) * nodes} if name in SCHEDULES else {}
        values: dict[str, dict[str, Any]] = {
            "schedule": {"name": name, **steps},
            "privacy": {"protects": self.protects_},
            "simulation": {"seed": seed, "evaluate_every": 10**9},
        }
        for parameter, key in _KEYS.items():
            given, (section, _, name) = getattr(self, parameter), key.partition(".")
            left_out = given is None and getattr(_Parameters, parameter) is None
            if not left_out and not (parameter == "epsilon" and self.noise_multiplier is not None):
                values.setdefault(section, {})[name] = given if isinstance(given, str) else _number(parameter, given)
        return parse_run(values)

    def decision_function(self, X: ArrayLike) -> Doubles:
        """Return how much speaks for the second of two classes, or for each of more."""
        check_is_fitted(self)
        with np.errstate(invalid="ignore"):
            features = validate_data(self, X, dtype=np.float64, reset=False)
        with _in_words_of_this_class():
            rows = self.scaling_.apply(features)
        scores = rows @ self.coef_.T + self.intercept_
        return scores[:, 0] if len(self.classes_) == 2 else scores

    def predict_proba(self, X: ArrayLike) -> Doubles:
        """Return the probability of each class (columns, in the order of `classes_`) for each row."""
        scores = self.decision_function(X)
        if scores.ndim == 1:
            return np.column_stack([expit(-scores), expit(scores)])
        return np.asarray(softmax(scores, axis=1))

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Return the likeliest class of each row."""
        scores = self.decision_function(X)
        chosen = (scores > 0.0).astype(np.intp) if scores.ndim == 1 else scores.argmax(axis=1)
        return self.classes_[chosen]

    def save_model(self, path: str | Path, *, made: str | None = None) -> None:
        """Write the fitted model, with what it cost, to a file for `skipring.load_model` and `skipring predict`.

        `made` says when, if the file is to say so. A model that was fitted with a `random_state` states no epsilon: who
        knows that state can compute its noise and take it off. The scales in the file come from the training
        rows (see the notes above).
        """
        check_is_fitted(self)
        facts = ModelFacts(
            name=usual_loss(len(self.classes_)).name,
            updates=self.updates_,
            run=self._run_digest,
            guarantee=self._guarantee(),
            source="SkipRingClassifier",
            made=made,
        )
        inputs = Inputs(
            columns=self.n_features_in_,
            names=tuple(map(str, getattr(self, "feature_names_in_", ()))),
            classes=self.classes_ if self.classes_.dtype.kind in "Ubiuf" else self.classes_.astype(str),
            scaling=dataclasses.replace(self.scaling_, encoder=None),
            features=self.features,
            intercept=bool(self.intercept),
            label=self._label,
        )
        save_model(TrainedModel(facts, inputs, self._vector), path)

    def _guarantee(self) -> Guarantee:
        """Return what the fitted model promises, with all that its epsilon cannot be read without."""
        why_not = "there is no noise" if self.planned_ is None else self._why_no_epsilon
        uncovered, delta = f"{_SCALES if self.standardise else ''}{_READ_OFF}", float(self.delta)
        if why_not is None and self.planned_ is not None:
            account = accountant("tight", self.planned_)
            if isinstance(self.planned_, PlannedLaps):
                promised = promise(account, delta, units=None)
            else:
                promised = account.guarantee(delta, self.epsilon_)
        else:
            promised = nothing_promised(self.protects_, delta, why_not or "there is no noise")
        return dataclasses.replace(promised, not_covered=uncovered)


@contextmanager
def _in_words_of_this_class() -> Iterator[None]:
    """Refuse what is refused in here by the name that this class has for it."""
    try:
        yield
    except InvalidInput as problem:
        name = _NAMES.get(problem.parameter, problem.parameter.rpartition(".")[2])
        raise InvalidInput.because(name, problem.given, problem.reason) from None


class _Numbered(NamedTuple):
    """The number of each row's node, or person, and what they are called."""

    codes: Ints
    names: tuple[str, ...]


def _numbered(given: ArrayLike, features: Doubles, what: str) -> _Numbered:
    """Number the nodes, or the persons, of all rows, whatever they are called."""
    # A missing name is refused: rows without an owner would become a node of their own.
    names = column_or_1d(check_array(given, dtype=None, ensure_2d=False, input_name=what))
    check_consistent_length(features, names)
    if names.dtype == object and any(name is None for name in names):
        raise InvalidInput(what, None, "a name for every row")
    try:
        found, numbered = np.unique(names, return_inverse=True)
    except TypeError:
        raise InvalidInput(what, "a mixture of types", "all numbers or all text") from None
    if all(isinstance(name, str) for name in found.tolist()):
        require_one_spelling(what, "", found.tolist())
    return _Numbered(numbered.astype(np.int64), tuple(map(str, found.tolist())))


def _delay(given: str | Delay | None) -> Delay | None:
    if given is None or isinstance(given, Delay):
        return given
    if not isinstance(given, str):
        raise InvalidInput("delay", repr(given), "text such as gamma:0.25,1, or a law of skipring.delays")
    return parse_delay(given)


def _number(name: str, given: Any) -> int | float:
    """Return a number of any type, numpy's included, as one that a run file may hold."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise InvalidInput(name, repr(given), "a number")
    return int(given) if isinstance(given, numbers.Integral) else float(given)
