"""The scikit-learn classifier: conventions, accuracy, privacy and messages."""

from __future__ import annotations

import math
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import skipring
from skipring.delays import Gamma
from skipring.errors import InvalidInput
from skipring.estimator import SkipRingClassifier
from skipring.privacy import LapsAccountant, PlannedLaps, forecast, planned_run
from skipring.timeouts import best_timeout, skip_probability

Clinics = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@pytest.fixture(scope="module")
def clinics() -> Clinics:
    """569 patients of 113 clinics."""
    X, y = load_breast_cancer(return_X_y=True)
    return X, y, np.arange(len(X)) % 113


def quiet(**changes: Any) -> SkipRingClassifier:
    """A classifier without noise, by a walk."""
    usual = {"schedule": "random-ring", "epsilon": None, "noise_multiplier": 0.0, "random_state": 0}
    return SkipRingClassifier(**(usual | changes))


@parametrize_with_checks([quiet(random_state=None)])  # type: ignore[untyped-decorator] # scikit-learn's
def test_follows_scikit_learns_conventions(estimator: SkipRingClassifier, check: Callable[[Any], None]) -> None:
    check(estimator)


# The defaults, too: a few dozen rows with noise for epsilon 8 are enough for what the checks ask.
@pytest.mark.sample(10)
@parametrize_with_checks([SkipRingClassifier()])  # type: ignore[untyped-decorator] # scikit-learn's
def test_follows_them_with_its_defaults(estimator: SkipRingClassifier, check: Callable[[Any], None]) -> None:
    check(estimator)


class TestAccuracy:
    def test_clinics_learn_within_epsilon_8(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        scores = [SkipRingClassifier(random_state=seed).fit(X, y, groups=clinic).score(X, y) for seed in range(10)]
        # Over many seeds the mean is 0.87 with a standard deviation of 0.07: three standard errors below it is 0.8.
        assert np.mean(scores) > 0.8

    def test_without_noise_it_comes_near_a_plain_logistic_regression(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        X_train, X_test, y_train, y_test, clinic_train, _ = train_test_split(X, y, clinic, random_state=0)
        # Without noise nothing speaks for small steps in a small ball.
        model = quiet(diameter=40.0, learning_rate=4.0, timeout=math.inf).fit(X_train, y_train, groups=clinic_train)
        plain = LogisticRegression().fit(model.scaling_.apply(X_train), y_train)
        assert model.score(X_test, y_test) > plain.score(model.scaling_.apply(X_test), y_test) - 0.03

    def test_digits_are_told_apart_by_softmax(self) -> None:
        X, y = load_digits(return_X_y=True)
        X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
        model = quiet(diameter=40.0, learning_rate=4.0).fit(X_train, y_train)
        assert model.coef_.shape == (10, 64)
        assert model.intercept_.shape == (10,)
        assert model.score(X_test, y_test) > 0.85

    def test_the_intercept_shifts_the_decision(self) -> None:
        # The features say nothing: only a constant can tell that the second class is more frequent.
        X, y = np.random.default_rng(0).normal(size=(200, 2)), np.arange(200) % 10 > 0
        assert quiet().fit(X, y).intercept_[0] > 0.3
        assert quiet(intercept=False).fit(X, y).intercept_ == 0.0

    def test_scores_are_those_of_scaled_rows(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        model = quiet().fit(X, y, groups=clinic)
        rows = model.scaling_.apply(X)
        assert np.allclose(np.linalg.norm(rows, axis=1), 1.0)
        assert np.allclose(model.decision_function(X), rows @ model.coef_[0] + model.intercept_)
        # The parameters are kept in a ball, and making room for the intercept only shrinks them.
        assert np.sqrt((model.coef_**2).sum() + model.intercept_[0] ** 2) <= 5.0


class TestPrivacy:
    @pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk", "designed-ring"])
    def test_epsilon_is_the_forecast_of_the_same_run(self, clinics: Clinics, schedule: Any) -> None:
        X, y, clinic = clinics
        delay = Gamma(0.25, 1.0)
        model = SkipRingClassifier(schedule=schedule, delay=delay, rounds=5, noise_multiplier=3.0, random_state=0)
        model.fit(X, y, groups=clinic)
        timeout = best_timeout(delay, 0.01)
        assert model.planned_ is not None
        run = planned_run(
            schedule=schedule,
            nodes=113,
            steps=5 * 113,
            skip=skip_probability(delay, timeout),
            noise_multiplier=3.0,
            order_seed=model.planned_.keywords.get("order_seed") if schedule == "designed-ring" else None,
        )
        assert model.timeout_ == timeout
        assert model.noise_multiplier_ == 3.0
        assert model.epsilon_ == forecast(run).epsilon(1e-5)

    def test_the_budget_is_kept_and_used(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        model = SkipRingClassifier(epsilon=2.0, rounds=5, random_state=0).fit(X, y, groups=clinic)
        assert model.epsilon_ == pytest.approx(2.0, rel=1e-6)

    def test_without_noise_there_is_no_privacy(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        assert quiet(rounds=1).fit(X, y, groups=clinic).epsilon_ == math.inf

    def test_too_large_a_learning_rate_costs_amplification_and_says_so(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        options: dict[str, Any] = {"schedule": "random-ring", "rounds": 5, "noise_multiplier": 3.0, "random_state": 0}
        amplified = SkipRingClassifier(learning_rate=8.0, **options).fit(X, y, groups=clinic)
        with pytest.warns(UserWarning, match=r"learning rate 8\.1 is above 2 / smoothness = 8"):
            alone = SkipRingClassifier(learning_rate=8.1, **options).fit(X, y, groups=clinic)
        assert alone.epsilon_ > amplified.epsilon_

    def test_unstandardised_rows_are_scaled_one_by_one(self) -> None:
        rng = np.random.default_rng(0)
        X, y = rng.normal(size=(40, 3)), np.arange(40) % 2
        model = quiet(standardise=False, rounds=1).fit(X, y)
        others = quiet(standardise=False, rounds=1).fit(rng.normal(size=(40, 3)), y)
        row = rng.normal(size=(1, 3))
        # Nothing of the training rows shows in how a new row is scaled.
        assert np.array_equal(model.scaling_.apply(row), others.scaling_.apply(row))


class TestRandomness:
    def test_the_same_seed_gives_the_same_model(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        first, again, other = (SkipRingClassifier(rounds=2, random_state=seed).fit(X, y) for seed in (1, 1, 2))
        assert np.array_equal(first.coef_, again.coef_)
        assert (first.latency_, first.updates_) == (again.latency_, again.updates_)
        assert not np.array_equal(first.coef_, other.coef_)

    def test_without_a_seed_noise_cannot_be_foreseen(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        models = []
        for _ in range(2):
            np.random.seed(0)  # noqa: NPY002 - a seed that others set must not matter
            models.append(SkipRingClassifier(rounds=2).fit(X, y))
        assert not np.array_equal(models[0].coef_, models[1].coef_)

    def test_a_random_state_moves_on(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        state = np.random.RandomState(0)
        model = SkipRingClassifier(rounds=2, random_state=state)
        first = model.fit(X, y).coef_
        assert not np.array_equal(first, model.fit(X, y).coef_)


class TestNodes:
    def test_names_and_numbers_of_nodes_are_alike(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        named = np.array([f"clinic {number:03d}" for number in clinic])
        by_number, by_name = (quiet(rounds=2).fit(X, y, groups=groups) for groups in (clinic, named))
        assert np.array_equal(by_number.coef_, by_name.coef_)

    def test_every_node_is_waited_for_without_a_timeout(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        model = quiet(rounds=3, timeout=math.inf).fit(X, y, groups=clinic)
        assert model.updates_ == 3 * 113
        assert model.latency_ > 3 * 113 * 0.01

    @pytest.mark.parametrize(("rows", "nodes"), [(5, 2), (40, 10), (569, 100)])
    def test_the_usual_number_of_nodes_follows_the_rows(self, clinics: Clinics, rows: int, nodes: int) -> None:
        X, y = clinics[0][:rows], np.arange(rows) % 2
        assert quiet(rounds=1, timeout=math.inf).fit(X, y).updates_ == nodes

    def test_a_delay_may_be_a_law(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        by_law, by_text = (quiet(rounds=2, delay=delay).fit(X, y) for delay in (Gamma(0.25, 1.0), "gamma:0.25,1"))
        assert by_law.latency_ == by_text.latency_


class TestInScikitLearn:
    def test_a_pipeline_hands_the_groups_on(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        line = make_pipeline(StandardScaler(), quiet(timeout=math.inf, rounds=2, standardise=False))
        line.fit(X, y, skipringclassifier__groups=clinic)
        assert line[-1].updates_ == 2 * 113
        assert line.score(X, y) > 0.8

    def test_a_grid_search_finds_the_better_learning_rate(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        search = GridSearchCV(quiet(rounds=5, nodes=50), {"learning_rate": [1e-6, 0.3]}, cv=3).fit(X, y)
        assert search.best_params_ == {"learning_rate": 0.3}
        assert search.best_score_ > 0.85

    def test_a_clone_has_the_parameters_and_nothing_learned(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        model = quiet(rounds=2, schedule="ring").fit(X, y)
        copy = clone(model)
        assert copy.get_params() == model.get_params()
        with pytest.raises(NotFittedError):
            copy.predict(X)

    def test_a_pickled_model_predicts_the_same(self, clinics: Clinics) -> None:
        X, y, _ = clinics
        model = quiet(rounds=2).fit(X, y)
        assert np.array_equal(pickle.loads(pickle.dumps(model)).predict_proba(X), model.predict_proba(X))


class TestBadInput:
    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"schedule": "star"}, "schedule = star: must be one of ring"),
            ({"schedule": None}, "schedule = None"),
            ({"rounds": 0}, "rounds = 0: must be a whole number of at least 1"),
            ({"rounds": 2.5}, "rounds = 2.5"),
            ({"delay": "slow"}, "delay = slow"),
            ({"delay": 3}, "delay = 3: must be text"),
            ({"timeout": 0.0}, "timeout = 0.0: must be above 0"),
            ({"timeout": math.nan}, "timeout = nan"),
            ({"timeout": "never"}, "timeout = 'never': must be a number above 0, infinity or 'most-updates'"),
            ({"timeout": True}, "timeout = True"),
            ({"delay": "0.9*exponential:1|0.1*never", "timeout": math.inf}, "timeout = infinity"),
            ({"hop_latency": -1.0}, "hop_latency = -1.0"),
            ({"learning_rate": -0.3}, "learning_rate = -0.3: must be a finite number above 0"),
            ({"batch": 0}, "batch = 0"),
            ({"batch": 5, "protects": "node"}, "batch = 5: must be at most 4, the number of rows of the smallest node"),
            ({"diameter": 0.0}, "diameter = 0.0"),
            ({"epsilon": -1.0}, "epsilon = -1.0"),
            ({"epsilon": None}, "epsilon = None: must be a number, unless noise_multiplier is one"),
            ({"delta": 1.0}, "delta = 1.0: must be at least 1e-75"),
            ({"noise_multiplier": -1.0}, "noise_multiplier = -1.0"),
            ({"noise_multiplier": 1e-9}, "noise_multiplier = 1e-09: must be at least 0.001, or 0"),
            ({"nodes": 1}, "nodes = 1: must be a whole number of at least 2"),
            ({"nodes": 41}, "nodes = 41: there are only 40 rows"),
            ({"standardise": "no"}, "standardise = 'no': must be True or False"),
            ({"intercept": 1}, "intercept = 1: must be True or False"),
            ({"ridge": -1.0}, "ridge = -1.0"),
            ({"random_state": "seed"}, "'seed' cannot be used to seed"),
        ],
    )
    def test_a_bad_parameter_is_named(self, changes: dict[str, Any], message: str) -> None:
        X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
        with pytest.raises(ValueError, match=re.escape(message)):
            SkipRingClassifier(**changes).fit(X, y)

    @pytest.mark.parametrize(
        ("groups", "message"),
        [
            ([0] * 40, "groups = only 0: the token needs at least 2 nodes"),
            ([0, 1] * 10, "inconsistent numbers of samples: [40, 20]"),
            ([0.0, math.nan] * 20, "NaN"),
            (np.array(["a", None] * 20, dtype=object), "groups = None: must be a name for every row"),
            (np.array(["a", 1] * 20, dtype=object), "groups = a mixture of types"),
        ],
    )
    def test_bad_groups_are_refused(self, groups: Any, message: str) -> None:
        X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
        with pytest.raises(ValueError, match=re.escape(message)):
            quiet().fit(X, y, groups=groups)

    def test_groups_and_another_number_of_nodes_contradict_each_other(self) -> None:
        X, y = np.random.default_rng(0).normal(size=(40, 3)), np.arange(40) % 2
        with pytest.raises(InvalidInput, match="nodes = 3"):
            quiet(nodes=3).fit(X, y, groups=np.arange(40) % 4)

    def test_one_class_is_refused(self) -> None:
        with pytest.raises(InvalidInput, match="one class"):
            quiet().fit(np.zeros((40, 3)), np.zeros(40, int))


class TestExtremes:
    def test_features_further_apart_than_a_double_holds_are_learned_from(self) -> None:
        """All values are finite, and their differences are not."""
        ordinary, y = np.random.default_rng(0).uniform(-1.7, 1.7, size=(40, 3)), np.arange(40) % 2
        ordinary[:2] = [[1.7] * 3, [-1.7] * 3]
        models = [SkipRingClassifier(random_state=0).fit(X, y) for X in (ordinary, ordinary * 1e308)]
        assert models[1].coef_ == pytest.approx(models[0].coef_, rel=1e-9)
        assert models[1].predict(ordinary * 1e308).tolist() == models[0].predict(ordinary).tolist()

    def test_a_row_that_cannot_be_scaled_is_refused(self) -> None:
        X, y = np.random.default_rng(0).normal(size=(40, 3)) * 1e-200, np.arange(40) % 2
        model = SkipRingClassifier(random_state=0, rounds=1).fit(X, y)
        for ask in (model.predict, model.predict_proba, model.decision_function):
            with pytest.raises(InvalidInput, match=r"^X = 1e\+150 \(feature 2 of row 1\): is so far from the training"):
                ask([[0.0, 1e150, 0.0]])


class TestFromTheTop:
    def test_the_package_loads_without_scikit_learn_and_offers_the_short_way_in(self) -> None:
        program = (
            "import sys, skipring\n"
            "assert 'sklearn' not in sys.modules and 'numba' not in sys.modules\n"
            "assert skipring.simulate.__module__ == 'skipring.simulation.simulate'\n"
            "assert 'sklearn' not in sys.modules\n"
            "assert skipring.SkipRingClassifier.__module__ == 'skipring.estimator'\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True)

    def test_other_names_are_unknown(self) -> None:
        with pytest.raises(AttributeError, match="no attribute 'simulato'"):
            _ = skipring.simulato


class TestWhomItProtects:
    """One record, one person or a whole node: told in `protects_`, and never guessed against what is given."""

    X, y = load_breast_cancer(return_X_y=True)
    nodes = np.arange(len(X)) % 6
    persons = nodes * 1000 + np.arange(len(X)) // 18  # three rows each

    def fitted(self, groups: Any = None, persons: Any = None, **changes: Any) -> SkipRingClassifier:
        model = SkipRingClassifier(**({"epsilon": 2.0, "random_state": 1} | changes))
        return model.fit(self.X, self.y, groups=groups, persons=persons)

    def test_auto_follows_what_is_given(self) -> None:
        assert self.fitted().protects_ == "record"
        assert self.fitted(np.arange(len(self.X))).protects_ == "record"  # also where a node has one row
        record = self.fitted(self.nodes)
        assert record.protects_ == "record"
        assert record.planned_ is not None
        assert record.planned_.protects == "record"
        assert self.fitted(self.nodes, self.persons, rows_per_person=3).protects_ == "person"
        assert self.fitted(self.nodes, protects="node").protects_ == "node"

    def test_hiding_a_record_leaves_more_to_learn_than_hiding_a_node(self) -> None:
        scores = {}
        for protects in ("record", "node"):
            runs = [self.fitted(self.nodes, protects=protects, random_state=seed) for seed in range(7)]
            scores[protects] = np.median([model.score(self.X, self.y) for model in runs])
        assert scores["record"] > 0.9
        assert scores["record"] > scores["node"] + 0.1

    def test_persons_that_would_not_be_hidden_are_refused(self) -> None:
        with pytest.raises(InvalidInput, match="persons: protects = 'record' does not protect persons"):
            self.fitted(self.nodes, self.persons, protects="record")
        with pytest.raises(InvalidInput, match="protects = household"):
            self.fitted(self.nodes, protects="household")
        with pytest.raises(InvalidInput, match=r"^persons: '0' has rows at 0 and 1; a person belongs to one node$"):
            self.fitted(self.nodes, np.arange(len(self.X)) // 2, protects="person")

    def test_without_groups_whole_persons_are_dealt_to_nodes(self) -> None:
        model = self.fitted(persons=self.persons, rows_per_person=3)
        assert model.protects_ == "person"
        assert model.planned_ is not None
        assert model.planned_.nodes == len(np.unique(self.persons)) // 4
        with pytest.raises(InvalidInput, match="nodes = 300: there are only 192 persons; use at most 192 nodes"):
            self.fitted(persons=self.persons, rows_per_person=3, nodes=300)

    def test_what_is_missing_is_named_as_this_class_calls_it(self) -> None:
        with pytest.raises(InvalidInput, match=r"^persons = missing: protects = 'person': tell `fit` whose each"):
            self.fitted(self.nodes, protects="person")
        with pytest.raises(InvalidInput, match=r"^rows_per_person = missing: persons are protected: say how many rows"):
            self.fitted(self.nodes, self.persons)
        with pytest.raises(InvalidInput, match=r"^rows_per_person = 3: is for persons; give `fit` persons, too$"):
            self.fitted(self.nodes, rows_per_person=3)
        with pytest.raises(InvalidInput, match=r"^persons: '7' and '7.0' are the same number"):
            self.fitted(self.nodes, ["7", "7.0"] + ["8"] * (len(self.X) - 2))


class TestLaps:
    """Records and persons are learned about by laps unless somebody asks for a walk."""

    def test_they_are_the_default_but_for_whole_nodes(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        few = clinic % 12
        cases: list[tuple[dict[str, Any], bool]] = [
            ({}, True),
            ({"protects": "node"}, False),
            ({"schedule": "ring"}, False),
        ]
        for options, laps in cases:
            model = SkipRingClassifier(rounds=2, random_state=1, **options).fit(X, y, groups=few)
            assert isinstance(model.planned_, PlannedLaps) == laps
            assert model.epsilon_ == pytest.approx(8.0, rel=1e-6)
        assert SkipRingClassifier(random_state=1).fit(X, y, groups=few).score(X, y) > 0.9

    def test_their_number_and_coalition_can_be_chosen(self, clinics: Clinics) -> None:
        X, y, clinic = clinics
        model = SkipRingClassifier(laps=7, coalition=4, epsilon=2.0, random_state=1).fit(X, y, groups=clinic % 12)
        run = model.planned_
        assert isinstance(run, PlannedLaps)
        assert (run.laps, run.withstood, run.nodes) == (7, 4, 12)
        assert model.epsilon_ == LapsAccountant(run).epsilon(1e-5) == pytest.approx(2.0, rel=1e-6)
        assert model.updates_ == 7 * 12
        wrong: list[tuple[dict[str, Any], str]] = [({"coalition": 12}, "coalition"), ({"laps": 0}, "laps")]
        for options, name in (*wrong, ({"laps": "many"}, "laps")):
            with pytest.raises(InvalidInput) as refused:
                SkipRingClassifier(**options).fit(X, y, groups=clinic % 12)
            assert refused.value.parameter == name
        with pytest.raises(InvalidInput) as refused:
            SkipRingClassifier(schedule="ring", coalition=2).fit(X, y, groups=clinic % 12)
        assert refused.value.parameter == "coalition"

    def test_a_saved_model_says_against_whom(self, clinics: Clinics, tmp_path: Path) -> None:
        X, y, clinic = clinics
        model = SkipRingClassifier(epsilon=2.0).fit(X, y, groups=clinic % 12)
        model.save_model(tmp_path / "model")
        said = skipring.load_model(tmp_path / "model").facts.guarantee
        assert (said.against, said.method, said.epsilon) == ("a coalition of 2", "laps", model.epsilon_)
        assert "standard deviation" in str(said.not_covered)
        seeded = SkipRingClassifier(epsilon=2.0, random_state=1).fit(X, y, groups=clinic % 12)
        seeded.save_model(tmp_path / "seeded")
        known = skipring.load_model(tmp_path / "seeded").facts.guarantee
        assert (known.epsilon, known.also) == (None, ())
        assert "random_state" in str(known.refused)
