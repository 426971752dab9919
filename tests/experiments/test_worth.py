"""Is it worth it: every number of the comparison beside a slow or independent one, and the sentence that concludes."""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from skipring.data import NodeData, Schema, from_arrays, load_dataset, made_up_rows
from skipring.errors import InvalidInput
from skipring.experiments import Band, Worth, WorthRow, baselines, worth
from skipring.experiments.solver import RIDGES, cross_validated
from skipring.experiments.split_scores import Case, OneSplit, cases_of
from skipring.learning import LinearLaps, LinearModel, on_grid
from skipring.learning.reference import mean_loss
from skipring.privacy import Unit, gdp_epsilon, gdp_mu
from skipring.runs import RunFile, dataset_of, dealt_rows, parse_run, read_run_file
from skipring.simulation import Interrupted, build, run_one, simulate
from skipring.simulation.laps import lap_rule, share_in

Command = Callable[[str], Any]
ROOT = Path(__file__).resolve().parents[2]
HOSPITALS = read_run_file(ROOT / "examples" / "hospitals" / "run.toml")
DIGITS: dict[str, Any] = {
    "data": {"name": "digits", "nodes": 6},
    "schedule": {"name": "random-ring", "steps": 60},
    "delay": {"timeout": math.inf},
    "learning": {"rate": 2.0},
    "privacy": {"protects": "record"},
}


def split_of(run: RunFile) -> OneSplit:
    return OneSplit(run, dataset_of(run))


def scikit(x: Any, y: Any, ridge: float) -> LogisticRegression:
    """Fit what scikit-learn fits with a ridge beside the sum of losses; the constant, if any, is a column."""
    return LogisticRegression(C=1.0 / ridge, fit_intercept=False, tol=1e-10, max_iter=100_000).fit(x, y)


def part(owned: NodeData, low: int, high: int) -> NodeData:
    return NodeData(owned.features[low:high], owned.labels[low:high], np.array([0, high - low]))


def test_who_guesses_the_majority_is_wrong_as_often_as_others_occur() -> None:
    split, (dataset, ready, owned) = split_of(HOSPITALS), dealt_rows(HOSPITALS)
    assert dataset.classes == ("healthy", "sick")
    common = Counter(owned.labels.tolist()).most_common(1)[0][0]
    assert ready.test_groups is not None
    wrong = [float(np.mean(ready.test_y[ready.test_groups == node] != common)) for node in range(4)]
    score = split.score(Case("guess"))
    assert score.all_rows == pytest.approx(float(np.mean(ready.test_y != common)))
    assert score.at_nodes == pytest.approx(wrong)
    assert score.mean_over_nodes == pytest.approx(sum(wrong) / 4)
    own = split.score(Case("own guess"))
    for node in range(4):
        mine = Counter(owned.labels[owned.start[node] : owned.start[node + 1]].tolist()).most_common(1)[0][0]
        assert own.at_nodes[node] == pytest.approx(float(np.mean(ready.test_y[ready.test_groups == node] != mine)))
    assert own.all_rows < score.all_rows  # Zurich has hardly anybody who is healthy


def test_test_rows_keep_their_node() -> None:
    dataset = load_dataset("hospitals")
    _, ready, owned = dealt_rows(HOSPITALS, dataset)
    assert ready.test_groups is not None
    counts = np.bincount(ready.test_groups, minlength=4) + owned.sizes
    assert dataset.groups is not None
    assert counts.tolist() == np.bincount(dataset.groups).tolist()


def test_a_hospital_alone_learns_from_its_own_rows_and_is_tested_on_its_own() -> None:
    split, (_, ready, owned) = split_of(HOSPITALS), dealt_rows(HOSPITALS)
    model = build(HOSPITALS).model
    assert isinstance(model, LinearModel)
    assert ready.test_groups is not None
    wrong, losses, likely = [], [], np.zeros(len(ready.test_y))
    for node in range(4):
        own, mine = part(owned, int(owned.start[node]), int(owned.start[node + 1])), ready.test_groups == node
        ridge = cross_validated(model, own.features, own.labels, np.random.default_rng((1, node)))
        likely[mine] = scikit(own.features, own.labels, ridge).predict_proba(ready.test_x[mine])[:, 1]
        wrong.append((likely[mine] > 0.5) != ready.test_y[mine])
        losses.append(log_loss(ready.test_y[mine], likely[mine], labels=[0, 1]))
    score = split.score(Case("alone"))
    assert score.at_nodes == pytest.approx([each.mean() for each in wrong])
    assert score.mean_over_nodes == pytest.approx(np.mean([each.mean() for each in wrong]))
    assert score.all_rows == pytest.approx(np.concatenate(wrong).mean())
    assert score.log_loss == pytest.approx((np.mean(losses), log_loss(ready.test_y, likely)), abs=1e-5)
    assert score.auc == pytest.approx(roc_auc_score(ready.test_y, likely), abs=1e-4)


def test_the_ridge_is_the_best_of_those_that_scikit_learn_would_compare() -> None:
    _, _, owned = dealt_rows(HOSPITALS)
    model = build(HOSPITALS).model
    assert isinstance(model, LinearModel)
    x, y = owned.features[:200], owned.labels[:200]
    folds = np.random.default_rng(5).permutation(200) % 5
    losses = [
        sum(
            log_loss(
                y[folds == fold], scikit(x[folds != fold], y[folds != fold], ridge).predict_proba(x[folds == fold])
            )
            for fold in range(5)
        )
        for ridge in RIDGES
    ]
    assert cross_validated(model, x, y, np.random.default_rng(5)) == RIDGES[int(np.argmin(losses))]
    assert cross_validated(model, x[:1], y[:1], np.random.default_rng(5)) == RIDGES[0]


@pytest.mark.parametrize(("protects", "batch"), [("record", None), ("node", None), ("record", 40)])
def test_pooled_is_one_node_that_holds_all_rows(protects: Unit, batch: int | None) -> None:
    changes = {"privacy": {"protects": protects}, "learning": {"rate": 2.0, "batch": batch}}
    run = parse_run(DIGITS | changes)
    _, ready, owned = dealt_rows(run)
    score, split = split_of(run).solved("pooled", ridge=1.0), split_of(run)
    fitted = scikit(owned.features, owned.labels, 1.0)
    assert score.all_rows == pytest.approx(float((fitted.predict(ready.test_x) != ready.test_y).mean()), abs=1e-9)
    assert score.mean_over_nodes == score.all_rows  # test rows belong to no node
    assert score.log_loss is not None
    assert score.log_loss[1] == pytest.approx(log_loss(ready.test_y, fitted.predict_proba(ready.test_x)), abs=1e-4)
    assert score.auc is None
    best = split.score(Case("pooled"))
    assert best.log_loss is not None
    assert best.log_loss[1] < score.log_loss[1]
    if protects == "record":
        setup = split._in_one_place(part(owned, 0, len(owned.labels)), 2.0)
        assert (setup.data.nodes, setup.protection.batch, setup.part_counts) == (1, len(owned.labels), (1,))


def test_a_number_is_solved_for_as_least_squares() -> None:
    schema = Schema.of([{"name": "a", "range": [0, 1]}, {"name": "b", "range": [0, 1]}, LABEL])
    dataset = made_up_rows(schema, 300, np.random.default_rng(2))
    run = parse_run(
        {
            "data": {"nodes": 3, "standardise": False, "unit_rows": False},
            "model": {"label_bound": 10.0},
            "privacy": {"protects": "record"},
            "schedule": {"name": "random-ring", "steps": 9},
        }
    )
    score = OneSplit(run, dataset).solved("pooled", ridge=0.5)
    _, ready, owned = dealt_rows(run, dataset)
    x = owned.features
    w = np.linalg.solve(x.T @ x + 0.5 * np.eye(x.shape[1]), x.T @ owned.labels)
    assert score.all_rows == pytest.approx(float(np.mean((ready.test_x @ w - ready.test_y) ** 2)), rel=1e-5)
    assert (score.log_loss, score.auc) == (None, None)
    assert OneSplit(run, dataset).score(Case("pooled", 8.0)).noise_multiplier > 0.0


LABEL: dict[str, Any] = {"name": "y", "label": True, "range": [10, 30]}


@pytest.mark.parametrize("epsilon", [None, 2.0])
def test_together_is_the_simulation_of_the_run_file(epsilon: float | None) -> None:
    quiet = {"noise_multiplier": 0.0, "epsilon": None}
    changed = HOSPITALS.privacy.model_copy(update=quiet if epsilon is None else {"epsilon": epsilon})
    once = HOSPITALS.simulation.model_copy(update={"runs": 1})
    run = HOSPITALS.model_copy(update={"privacy": changed, "simulation": once})
    result = simulate(run)
    score = split_of(HOSPITALS).score(Case("together", epsilon))
    assert score.all_rows == pytest.approx(result.test_error[0, -1], abs=1e-12)
    assert score.noise_multiplier == pytest.approx(result.resolved.noise_multiplier)


@pytest.mark.parametrize("schedule", ["random-ring", "laps"])
@pytest.mark.parametrize(("batch", "laps"), [(None, "auto"), (110, 3)])
def test_one_place_has_the_noise_of_a_trusted_server(schedule: str, batch: int | None, laps: Any) -> None:
    steps = {"name": schedule, "steps": 80 if schedule == "random-ring" else None}
    run = HOSPITALS.having(learning={"batch": batch}, schedule=steps, laps={"laps": laps} if schedule == "laps" else {})
    split = split_of(run)
    assert len(split._places("pooled")) == 1
    for own in [*split._places("alone"), *split._places("pooled")]:
        setup = split._in_one_place(own, 2.0)
        assert setup.steps == (3 if schedule == "laps" and laps == 3 else 5)
        assert setup.parts == [[pytest.approx(np.arange(len(own.labels)))]]  # each lap takes all rows
        rule = lap_rule(setup)
        # Each lap is a Gaussian mechanism; together they are one, whose mu has the sum of squares.
        mu2 = sum((rule.sum_of(lap).sensitivity / share_in(setup, rule, lap, 1)) ** 2 for lap in range(setup.steps))
        assert gdp_epsilon(math.sqrt(mu2), 1e-4) == pytest.approx(2.0, rel=1e-4)


def test_pooled_with_noise_is_what_laps_of_its_sums_come_to() -> None:
    """Add up the sums of all rows by hand, with as much noise as follows from mu, and take the steps."""
    split, (_, ready, owned) = split_of(HOSPITALS), dealt_rows(HOSPITALS)
    model = build(HOSPITALS).model
    assert isinstance(model, LinearModel)
    rng, mu = np.random.default_rng(4), gdp_mu(8.0, 1e-4)
    rule, found = LinearLaps(model, mu), []
    for _ in range(40):
        state = rule.start()
        for lap, weight in enumerate(rule.weights):
            kind = rule.sum_of(lap)
            total = rule.contribution(state, on_grid(owned.features), owned.labels) * kind.grid
            std = kind.sensitivity / (mu * math.sqrt(weight))
            total = total + std * kind.scales * rng.standard_normal(len(kind.scales))
            state = rule.step(state, total, std=std, rows=len(owned.labels))
        found.append(mean_loss(model, state.average, ready.test_x, ready.test_y))
    drawn, setup = [], split._in_one_place(split._places("pooled")[0], 8.0)
    for seed in range(40):
        drawn.append(float(run_one(setup, seed).loss[-1]))
    # Five standard errors of the difference of two means.
    error = math.sqrt((np.var(found) + np.var(drawn)) / 40)
    assert abs(np.mean(found) - np.mean(drawn)) < 5.0 * error
    assert error < 0.01


@pytest.mark.parametrize("epsilon", [None, 1.0])
def test_together_by_laps_is_the_simulation_of_laps(epsilon: float | None) -> None:
    quiet = {"noise_multiplier": 0.0, "epsilon": None}
    run = HOSPITALS.having(
        schedule={"name": "laps", "steps": None},
        privacy=quiet if epsilon is None else {"epsilon": epsilon},
        simulation={"runs": 1},
    )
    result, score = simulate(run), split_of(run).score(Case("together", epsilon))
    assert score.all_rows == pytest.approx(result.test_error[0, -1], abs=1e-12)
    assert score.log_loss is not None
    assert score.log_loss[1] == pytest.approx(result.loss[0, -1], abs=1e-9)
    assert score.noise_multiplier == pytest.approx(result.resolved.noise_multiplier)


@pytest.mark.parametrize("schedule", ["laps", "random-ring"])
@pytest.mark.parametrize("who", ["together", "alone", "pooled"])
def test_no_epsilon_is_kept_where_labels_decide_on_noise_or_lateness(schedule: str, who: str) -> None:
    rng = np.random.default_rng(1)
    x, groups = rng.normal(size=(60, 3)), np.arange(60) % 5
    late = {"stragglers": {"slow_class": 1}, "delay": {"law": "exponential:1", "timeout": 2.0}}
    for labels, more in ((3.0 * x[:, 0], {}), ((x[:, 0] > 0.0).astype(int), late)):
        run = parse_run({"schedule": {"name": schedule}} | more).having(data={"name": "arrays", "path": None})
        split = OneSplit(run, from_arrays(x, labels, groups))
        assert split.score(Case(who)).noise_multiplier == 0.0
        with pytest.raises(InvalidInput, match="labels") as refused:
            split.score(Case(who, 1.0))
        assert refused.value.parameter == "privacy.epsilon"


def test_rows_of_persons_are_pooled_and_left_alone_with_their_persons() -> None:
    rng = np.random.default_rng(1)
    schema = Schema.of([{"name": "a", "range": [0, 1]}, {"name": "y", "label": True, "categories": ["n", "p"]}])
    dataset = made_up_rows(schema, 120, rng, rows_of_one=3)
    run = parse_run(
        {
            "data": {"nodes": 4, "person": "p", "rows_per_person": 3, "standardise": False, "unit_rows": False},
            "privacy": {"protects": "person", "delta": 1e-4},
            "schedule": {"name": "random-ring", "steps": 40},
            "delay": {"timeout": math.inf},
        }
    )
    split = OneSplit(run, dataset)
    found = {(case.who, case.epsilon): split.score(case) for case in cases_of(run, [1.0], own_rows=False)}
    assert found["pooled", 1.0].noise_multiplier == found["alone", 1.0].noise_multiplier
    assert found["pooled", 1.0].noise_multiplier > 0.0


def test_a_seed_gives_the_same_numbers_on_any_number_of_threads() -> None:
    one, three = (worth(HOSPITALS, epsilons=[1.0], splits=2, threads=threads) for threads in (1, 3))
    assert one == three
    other = HOSPITALS.model_copy(update={"simulation": HOSPITALS.simulation.model_copy(update={"seed": 2})})
    shifted = worth(other, epsilons=[1.0], splits=1)
    # The second split of seed 1 is the first of seed 2.
    assert [row.errors[1] for row in one.rows] == [row.errors[0] for row in shifted.rows]
    assert [row.errors[0] for row in one.rows] != [row.errors[0] for row in shifted.rows]
    first = one.rows[-1]
    assert first.mean_over_nodes == Band.of(first.errors)
    assert first.mean_over_nodes.median == pytest.approx(sum(first.errors) / 2)


def test_baselines_of_a_comparison_have_no_noise() -> None:
    found = baselines(HOSPITALS)
    assert list(found) == ["guess", "alone", "pooled"]
    assert {score.noise_multiplier for score in found.values()} == {0.0}


def test_what_is_wrong_is_said_before_anything_takes_its_time() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"epsilons": []}, "epsilons"),
        ({"epsilons": [1.0, -1.0]}, "epsilons"),
        ({"epsilons": [math.inf]}, "epsilons"),
        ({"splits": 0}, "splits"),
        ({"rows": 100}, "made_up"),
    ]
    for changes, said in wrong:
        with pytest.raises(InvalidInput) as refused:
            worth(HOSPITALS, **changes)
        assert refused.value.parameter == said
    with pytest.raises(InvalidInput, match=r"model\.name = cnn"):
        worth(parse_run(DIGITS | {"model": {"name": "cnn"}, "learning": {"gradient_bound": 1.0}}))
    with pytest.raises(InvalidInput, match="no epsilon can be stated"):
        worth(parse_run(DIGITS | {"stragglers": {"slow_class": 1}}), splits=1)
    stopped = threading.Event()
    stopped.set()
    with pytest.raises(Interrupted, match="0 of 2 splits"):
        worth(HOSPITALS, splits=2, stop=stopped)


# The sentence that concludes.


def found(
    together: dict[float | None, list[float]],
    *,
    guess: float = 0.4,
    alone: float | list[float] = 0.2,
    own: float | None = None,
    protects: Unit = "record",
) -> Worth:
    splits = len(next(iter(together.values())))

    def row(who: str, epsilon: float | None, errors: list[float]) -> WorthRow:
        band = Band.of(errors)
        return WorthRow(
            who=who,
            epsilon=epsilon,
            mean_over_nodes=band,
            all_rows=band,
            log_loss=None,
            errors=tuple(errors),
            noise_multiplier=0.0,
        )

    by_split = alone if isinstance(alone, list) else [alone] * splits
    rows = [row("guess", None, [guess] * splits), row("alone", None, by_split)]
    rows += [] if own is None else [row("own guess", None, [own] * splits)]
    return Worth(
        rows=(*rows, *(row("together", epsilon, errors) for epsilon, errors in together.items())),
        splits=splits,
        nodes=4,
        protects=protects,
        delta=1e-5,
        laps=False,
        own_rows=own is not None,
        same_test_rows=False,
        numbers=False,
    )


@pytest.mark.parametrize(
    ("case", "says"),
    [
        (
            found({1.0: [0.3] * 10, 2.0: [0.15] * 9 + [0.25], 8.0: [0.1] * 10, None: [0.1] * 10}),
            "together at epsilon 2 beats what a node reaches alone without noise (mean over nodes) in 9 of 10 splits, "
            "in the median split by 0.05",
        ),
        (
            # Medians of 0.2 on both sides, which would tell nothing of the gain.
            found(
                {1.0: [0.1, 0.1, 0.1, 0.1, 0.2, 0.2, 0.2, 0.2, 0.3, 0.3], None: [0.1] * 10},
                alone=[0.15, 0.15, 0.15, 0.15, 0.15, 0.25, 0.25, 0.25, 0.35, 0.35],
            ),
            "together at epsilon 1 beats what a node reaches alone without noise (mean over nodes) in 9 of 10 splits, "
            "in the median split by 0.05",
        ),
        (
            found({1.0: [0.3] * 10, None: [0.2] * 10}),
            "each node alone does as well: even without noise, together beats what a node reaches alone without noise "
            "(mean over nodes) only in 0 of 10 splits, so learning together gains nothing here",
        ),
        (
            found({1.0: [0.5] * 10, None: [0.3] * 10}),
            "each node alone does better: even without noise, together beats what a node reaches alone without noise "
            "(mean over nodes) only in 0 of 10 splits, so learning together gains nothing here; and at epsilon 1 and "
            "below nothing is learned: no better than guessing",
        ),
        (
            found({1.0: [0.3] * 10, None: [0.15] * 10}, own=0.1),
            "guessing does better: even without noise, together beats it only in 0 of 10 splits, so learning together "
            "gains nothing here",
        ),
        (
            found({1.0: [0.5] * 9 + [0.3], None: [0.1] * 10}, protects="node"),
            "at epsilon 1 and below nothing is learned: no better than guessing the same for all (it beats that only "
            'in 1 of 10 splits); protect records (privacy.protects = "record") instead of nodes',
        ),
        (
            found({1.0: [0.5] * 10, None: [0.1] * 10}),
            "at epsilon 1 and below nothing is learned: no better than guessing the same for all (it beats that only "
            "in 0 of 10 splits); it takes more nodes, more rows, or a larger epsilon",
        ),
        (
            found({1.0: [0.5] * 10, 2.0: [0.3] * 10, None: [0.1] * 10}),
            "from epsilon 2 on something is learned, but the noise costs more than the others' rows bring: at epsilon "
            "2, together beats what a node reaches alone without noise (mean over nodes) only in 0 of 10 splits, and "
            "without noise in 10",
        ),
    ],
)
def test_the_sentence_follows_from_the_numbers(case: Worth, says: str) -> None:
    assert case.conclusion == says


def test_an_epsilon_that_beats_a_node_alone_but_not_its_own_guess_is_not_worth_it() -> None:
    assert "gains nothing" in found({1.0: [0.15] * 10, None: [0.15] * 10}, own=0.12).conclusion


# Made-up rows.

SCHEMA = Schema.of(
    [
        {"name": "age", "range": [20, 80]},
        {"name": "kind", "categories": ["a", "b", "c"]},
        {"name": "pain", "categories": ["no", "yes"], "missing": "indicator"},
        {"name": "site", "node": True},
        {"name": "ill", "label": True, "categories": ["no", "yes"]},
    ]
)


def test_made_up_rows_are_uniform_within_the_schema() -> None:
    made = made_up_rows(SCHEMA, 30_000, np.random.default_rng(1), nodes=3)
    columns = dict(zip(made.feature_names, (made.features * SCHEMA.longest).T, strict=True))
    age = columns["age"]
    assert (np.abs(np.quantile(age, [0.1, 0.5, 0.9]) - [-0.8, 0.0, 0.8]) < 0.03).all()  # 5 standard errors
    assert [float((columns[f"kind={name}"] > 0).mean()) for name in "abc"] == pytest.approx([1 / 3] * 3, abs=0.014)
    assert float((columns["pain"] > 0).mean()) == pytest.approx(0.5, abs=0.015)
    assert not columns["pain is missing"].any()
    assert made.groups is not None
    assert np.bincount(made.groups).tolist() == [10_000] * 3
    # The rule is linear but for the noise: least squares finds it, and nobody finds more than it says.
    x = np.column_stack([made.features, np.ones(len(made.labels))])
    w = np.linalg.lstsq(x, 2.0 * made.labels - 1.0, rcond=None)[0]
    assert 0.05 < float(np.mean((x @ w > 0.0) != (made.labels == 1))) < 0.3
    assert 0.3 < made.labels.mean() < 0.7


def test_made_up_numbers_lie_within_their_range() -> None:
    columns: list[dict[str, Any]] = [{"name": "a", "range": [0, 1]}, {"name": "y", "label": True, "range": [10, 30]}]
    made = made_up_rows(Schema.of(columns), 1000, np.random.default_rng(1))
    assert np.abs(made.labels).max() <= 10.0
    assert np.corrcoef(made.features[:, 0], made.labels)[0, 1] ** 2 > 0.5


@pytest.mark.parametrize(("nodes", "rows", "said"), [(None, 50, "data.nodes"), (9, 5, "made_up"), (2, 1, "rows")])
def test_made_up_rows_need_to_know_how_many_nodes_there_are(nodes: int | None, rows: int, said: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        made_up_rows(SCHEMA, rows, np.random.default_rng(1), nodes=nodes)
    assert refused.value.parameter == said


# The command.

SCHEMA_RUN = """
[data]
nodes = 5
[schedule]
name = "random-ring"
steps = 50
[delay]
timeout = inf
[privacy]
protects = "record"
"""


@pytest.fixture
def run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    from skipring.runs import toml_value  # as `skipring schema` writes it

    monkeypatch.chdir(tmp_path)
    tables = "".join(
        "\n[[column]]\n" + "\n".join(f"{key} = {toml_value(value)}" for key, value in entry.items()) + "\n"
        for entry in SCHEMA.to_values()
    )
    path = tmp_path / "run.toml"
    path.write_text(SCHEMA_RUN + tables)
    return path


def test_the_command_takes_made_up_rows_of_a_schema(skipring: Command, run_file: Path) -> None:
    answer = skipring("worth run.toml --made-up 300 --epsilons 1,8 --splits 2 --out there --figure")
    assert answer.code == 0, answer.err
    assert max(map(len, answer.out.splitlines())) <= 80
    words = " ".join(answer.out.split())
    for said in (
        "guess the majority",
        "each node alone no noise",
        "all rows in one place 8",
        "The rows are made up: they say what a run costs and how much noise it has, and nothing about real rows",
        "Test rows were looked at, which no epsilon covers. Nothing else was searched",
        "None covers this table: many runs on the same rows, some without noise.",
        "laps of one node, with the noise of a server that all trust",
    ):
        assert said in words
    assert (run_file.parent / "there" / "worth.png").stat().st_size > 10_000
    stored = json.loads((run_file.parent / "there" / "worth.json").read_text())
    again = skipring("worth run.toml --made-up 300 --epsilons 8,1 --splits 2 --threads 1 --json").data
    assert {key: again[key] for key in stored} == stored
    assert stored["conclusion"][1:-1] in words
    assert len(stored["rows"]) == 2 + 3 * 3
    assert not Path("run-worth").exists()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("worth run.toml", "data.path"),
        ("worth nowhere.toml", "FILE nowhere.toml"),
        ("worth run.toml --made-up 1", "--made-up 1"),
        ("worth run.toml --made-up 300 --epsilons 1,,2", "--epsilons 1,,2"),
        ("worth run.toml --made-up 300 --epsilons one", "--epsilons one"),
        ("worth run.toml --made-up 300 --epsilons 0", "--epsilons 0"),
        ("worth run.toml --made-up 300 --splits 0", "--splits 0"),
        ("worth run.toml --made-up 300 --out run.toml", "--out run.toml"),
        ("worth run.toml --made-up 300 --set data.nodes=400", "--made-up 300"),
    ],
)
def test_bad_input_gets_one_line(line: str, said: str, skipring: Command, run_file: Path) -> None:
    if line == "worth run.toml":  # a schema without a file to read
        run_file.write_text(run_file.read_text().replace("nodes = 5", 'path = "gone.csv"'))
    answer = skipring(line)
    assert (answer.code, len(answer.err.splitlines()), answer.out) == (2, 1, "")
    assert said in answer.err


def test_a_schema_without_rows_is_not_run_on_the_demo_data(skipring: Command, run_file: Path) -> None:
    for command in ("worth", "simulate"):
        answer = skipring(f"{command} run.toml")
        assert answer.code == 2
        assert "data.path missing: the run file has a schema, and no table of rows" in answer.err


def test_no_noise_may_be_asked_for_though_it_is_always_there(skipring: Command, run_file: Path) -> None:
    command = "worth run.toml --made-up 300 --splits 1 --threads 1 --json --epsilons"
    assert skipring(f"{command} 8,inf").data["rows"] == skipring(f"{command} 8").data["rows"]


def test_a_whole_node_in_one_place_is_not_hidden(skipring: Command, run_file: Path) -> None:
    line = "worth run.toml --made-up 200 --epsilons 1 --splits 1 --set privacy.protects=node --json"
    data = skipring(line).data
    noisy = {row["who"] for row in data["rows"] if row["epsilon"] is not None}
    assert noisy == {"together"}
    assert {row["who"] for row in data["rows"] if row["epsilon"] is None} >= {"alone", "together", "pooled"}
    assert "Alone and in one place with noise are left out: laps would protect rows, not nodes." in data["notes"]


def test_a_figure_without_a_folder_goes_where_the_help_says(skipring: Command, run_file: Path) -> None:
    answer = skipring("worth run.toml --made-up 200 --epsilons 1 --splits 1 --figure")
    assert answer.code == 0, answer.err
    folder = run_file.parent / "run-worth"
    assert {path.name for path in folder.iterdir()} == {"worth.json", "worth.png"}
    assert answer.out.endswith("  run-worth/worth.json\n  run-worth/worth.png\n")


def test_a_network_that_learns_its_timeouts_is_asked_about_as_if_nobody_were_skipped(
    skipring_words: Callable[..., Any],
) -> None:
    words = ("worth", str(ROOT / "examples" / "network.toml"), *["--epsilons", "1", "--splits", "1", "--json"])
    found, waiting = skipring_words(*words).data, skipring_words(*words, "--set", "delay.timeout=inf").data
    assert found["rows"] == waiting["rows"]
    assert (found["nobody_skipped"], waiting["nobody_skipped"]) == (True, False)
    assert "here nobody is skipped" in " ".join(found["notes"])


def test_laps_are_compared_with_the_noise_of_a_server_and_tell_of_coalitions(skipring: Command, run_file: Path) -> None:
    data = skipring("worth run.toml --made-up 400 --epsilons 4 --splits 2 --set schedule.name=laps --json").data
    noise = {(row["who"], row["epsilon"]): row["noise_multiplier"] for row in data["rows"]}
    # The noise that a coalition cannot take off is that of a server; what is on the sum is more.
    assert noise["together", 4.0] == pytest.approx(noise["pooled", 4.0], rel=1e-3)
    assert noise["alone", 4.0] == pytest.approx(noise["pooled", 4.0], rel=1e-3)
    loss = {(row["who"], row["epsilon"]): row["log_loss"] for row in data["rows"]}
    assert loss["pooled", None] < loss["guess", None]
    assert "against a coalition of nodes" in " ".join(data["notes"])
