"""Records, persons and nodes on the command line: whom an epsilon protects, and what the noise comes to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from skipring.cli import _options
from skipring.learning import LOGISTIC, LinearModel, NeuralModel, Protection
from skipring.privacy import USUAL_UNIT, calibrate, forecast, planned_run, whole_node

Command = Callable[[str], Any]

LINE = "--schedule random-ring --nodes 20 --steps 200 --skip 0.3"
RUN = planned_run(schedule="random-ring", nodes=20, steps=200, skip=0.3, noise_multiplier=4.0)
PRIVACY = f"privacy {LINE} --noise-multiplier 4 --delta 1e-5"


def beside(data: dict[str, Any], name: str) -> Any:
    """Return the epsilon against somebody else, or that of a whole node; None where there is none."""
    named = {("whole node" if one["protects"] != data["protects"] else one["against"]): one for one in data["also"]}
    return named[name].get("epsilon") if name in named else None


@pytest.mark.sample(2)
@pytest.mark.sample(4)
@pytest.mark.parametrize(
    ("options", "changes", "units"),
    [
        ("--protects record --batch 10", {"protects": "record"}, 10),
        ("--protects record --batch 10 --parts 3", {"protects": "record", "parts": 3}, 10),
        ("--protects record --batch 10 --rows 21", {"protects": "record", "parts": 3}, 10),
        ("--protects record --batch 50 --rows 21", {"protects": "record"}, 50),
        ("--protects person --batch 10 --rows-per-person 3 --rows 21", {"protects": "person", "parts": 3}, 3),
        (
            "--protects person --batch 10 --rows-per-person 3 --against outsider",
            {"protects": "person", "against": "outsider"},
            3,
        ),
        ("--protects node", {"protects": "node"}, 1),
        ("--rows 21", {}, 21),
    ],
)
def test_the_command_is_the_forecast(skipring: Command, options: str, changes: dict[str, Any], units: int) -> None:
    run = RUN.replace(**changes)
    data = skipring(f"{PRIVACY} {options} --json").data
    assert data["epsilon"] == forecast(run).epsilon(1e-5)
    if run.keywords["against"] == "node":
        assert beside(data, "an outsider") == forecast(run.replace(against="outsider")).epsilon(1e-5)
        assert beside(data, "all others") == forecast(run.replace(observers=run.nodes - 1)).epsilon(1e-5)
    whole = whole_node(run, units)
    assert whole is not None
    assert beside(data, "whole node") == (forecast(whole).epsilon(1e-5) if run.protects != "node" else None)
    assert (data["protects"], data["relation"], data["method"]) == (run.protects, "replace-one", "tight")
    assert (data["against"], data["parts"]) == (
        ("another node" if run.keywords["against"] == "node" else "an outsider"),
        run.unit.every,
    )
    assert data["delta"] == 1e-5
    found = skipring(f"noise {LINE} --epsilon 1.5 --delta 1e-5 {options} --json").data
    assert found["noise_multiplier"] == calibrate(forecast(run).with_noise, 1.5, 1e-5)
    again = f"privacy {LINE} --noise-multiplier {found['noise_multiplier']!r} --delta 1e-5 {options} --json"
    assert 1.5 * (1 - 1e-5) < skipring(again).data["epsilon"] <= 1.5 * (1 + 1e-9)


def test_rows_that_take_turns_and_outsiders_see_less(skipring: Command) -> None:
    whole = skipring(f"{PRIVACY} --protects record --batch 10 --json").data
    turns = skipring(f"{PRIVACY} --protects record --batch 10 --rows 50 --json").data
    assert turns["parts"] == 5
    assert turns["epsilon"] < whole["epsilon"]
    assert beside(turns, "whole node") == beside(whole, "whole node") > whole["epsilon"]  # is at every turn
    assert beside(whole, "an outsider") < whole["epsilon"]
    # With one unit in an update, noise over its bound is what it was for nodes.
    assert skipring(f"{PRIVACY} --json").data["epsilon"] == whole["epsilon"]


def test_a_pair_that_is_asked_about_has_an_outsider_beside_it(skipring: Command) -> None:
    ring = "privacy --schedule ring --nodes 10 --steps 100 --skip 0.1 --noise-multiplier 5 --delta 1e-5 --json"
    outsider = skipring(f"{ring} --against outsider").data
    assert outsider["against"] == "an outsider"
    assert [each["protects"] for each in outsider["also"]] == ["node"]  # who is outside learns less than anybody
    assert beside(skipring(f"{ring} --distance 9 --position 1").data, "an outsider") == outsider["epsilon"]
    assert beside(skipring(f"{ring} --observers 4").data, "an outsider") == outsider["epsilon"]


def test_delta_is_found_for_records_too(skipring: Command) -> None:
    data = skipring(
        f"privacy {LINE} --noise-multiplier 4 --epsilon 2 --protects record --batch 10 --parts 2 --json"
    ).data
    run = RUN.replace(protects="record", parts=2)
    assert data["delta"] == forecast(run).delta(2.0)
    assert beside(data, "an outsider") <= data["epsilon"] == 2.0


def test_the_noise_on_a_gradient_is_that_of_an_update(skipring: Command) -> None:
    linear = LinearModel(loss=LOGISTIC, features=3, diameter=10.0)
    network = NeuralModel(features=784, clip=linear.gradient_bound)
    record = Protection(unit="record", batch=80)
    text = " ".join(skipring(f"{PRIVACY} --protects record --batch 80").out.split())
    assert "noise multiplier x gradient bound / rows per update = 0.05 x gradient bound." in text
    assert record.noise_std(linear, 4.0) == pytest.approx(0.05 * linear.gradient_bound)
    person = Protection(unit="person", batch=80, rows_per_person=3)
    text = " ".join(skipring(f"{PRIVACY} --protects person --batch 80 --rows-per-person 3").out.split())
    assert "= 0.05 x gradient bound where a person's rows are bounded together (networks)" in text
    assert person.noise_std(network, 4.0) == pytest.approx(0.05 * network.gradient_bound)
    assert "x rows per person = 0.15 x gradient bound where each row is (linear models)" in text
    assert person.noise_std(linear, 4.0) == pytest.approx(0.15 * linear.gradient_bound)
    assert "Noise std on the gradient: noise multiplier x gradient bound." in " ".join(
        skipring(f"{PRIVACY} --protects node").out.split()
    )


@pytest.mark.parametrize("command", [PRIVACY, f"noise {LINE} --epsilon 1.5 --delta 1e-5"])
def test_a_record_is_what_is_hidden_unless_more_is_asked_for(skipring: Command, command: str) -> None:
    """An update then takes all rows of a node, however many those are."""
    data = skipring(f"{command} --json").data
    assert (data["protects"], data["parts"], data["batch"], data["noise_over_gradient_bound"]) == (
        "record",
        1,
        None,
        None,
    )
    assert beside(data, "whole node") is None
    assert "how many rows" in data["also"][-1]["refused"]
    key = "epsilon" if command is PRIVACY else "noise_multiplier"
    assert data[key] == skipring(f"{command} --rows 50 --json").data[key]
    assert USUAL_UNIT == _options.USUAL_UNIT == "record"
    assert skipring(f"{command} --protects person --json").data["protects"] == "person"


@pytest.mark.parametrize("command", [f"privacy {LINE} --noise-multiplier 4", f"noise {LINE} --epsilon 1.5"])
@pytest.mark.parametrize(
    ("options", "delta", "said"),
    [
        ("--rows 10", 0.004, ""),
        ("--rows 10", 0.006, "Delta 0.006 is above 1 / 200, one over the number of records:"),
        (
            "--protects person --rows 10 --rows-per-person 2",
            0.011,
            "Delta 0.011 is above 1 / 100, one over the number of",
        ),
        ("--protects node", 0.04, ""),
        ("--protects node", 0.06, "Delta 0.06 is above 1 / 20, one over the number of nodes:"),
        # Nobody said how many records there are; each node has one at least.
        ("", 0.04, ""),
        ("", 0.06, "Delta 0.06 is above 1 / 20, and there are 20 records at least:"),
        ("--batch 10", 0.06, "Delta 0.06 is above 1 / 20, and there are 20 records at least:"),
    ],
)
def test_a_delta_above_one_over_what_is_protected_is_warned_about(
    skipring: Command, command: str, options: str, delta: float, said: str
) -> None:
    line = f"{command} --delta {delta} {options}"
    assert skipring(f"{line} --json").data.get("warning", "").startswith(said)
    assert (" is above 1 / " in " ".join(skipring(line).out.split())) == bool(said)


def rows_of(text: str) -> dict[str, str]:
    """Return names and values of a table, whose columns are two blanks or more apart."""
    pairs = (line.strip().split("  ", 1) for line in text.splitlines() if "  " in line.strip())
    return {name: value.strip() for name, value in pairs}


@pytest.mark.parametrize("command", [PRIVACY, f"noise {LINE} --epsilon 1.5 --delta 1e-5"])
@pytest.mark.parametrize(
    ("options", "protects", "against", "whole"),
    [
        ("--protects node", "all data of a node", "another node", None),
        ("", "one record", "another node", "nothing is promised"),
        (
            "--protects record --batch 100 --rows 300",
            "one record",
            "another node",
            "nothing is promised (",
        ),
        (
            "--protects record --batch 5000 --against outsider",
            "one record",
            "an outsider",
            "nothing is promised",
        ),
        (
            "--protects person --batch 6 --rows-per-person 3",
            "all rows of one person",
            "another node",
            "",
        ),
    ],
)
def test_every_epsilon_says_what_it_is_about(
    skipring: Command, command: str, options: str, protects: str, against: str, whole: str | None
) -> None:
    answer = skipring(f"{command} {options}")
    rows = rows_of(answer.out)
    assert (rows["protects"], rows["against"]) == (f"{protects} (replace-one)", against)
    assert (rows["delta"], rows["method"]) == ("1e-05", "tight")
    assert ("epsilon, an outsider" in rows) == ("epsilon, all others" in rows) == (against != "an outsider")
    assert ("epsilon, whole node" in rows) == (whole is not None)
    if whole is not None:
        assert rows["epsilon, whole node"].startswith(whole or tuple("123456789"))
    assert max(map(len, answer.out.splitlines())) <= 80
    assert ("take 3 turns" in " ".join(answer.out.split())) == ("--rows 300" in options)


def test_the_walk_says_that_rotation_is_not_counted(skipring: Command) -> None:
    walk = "privacy --schedule random-walk --nodes 20 --steps 200 --skip 0.3 --noise-multiplier 4 --delta 1e-5"
    options = "--protects record --batch 10"
    text = " ".join(skipring(f"{walk} {options} --parts 4").out.split())
    assert "Rotation is not counted on the random walk" in text
    assert "take 4 turns" not in text
    turns, whole = (skipring(f"{walk} {options} {more} --json").data for more in ("--parts 4", ""))
    assert turns["epsilon"] == whole["epsilon"]
    assert (turns["parts"], whole["parts"]) == (4, 1)


def test_the_paper_says_nothing_of_outsiders_and_whole_nodes(skipring: Command) -> None:
    options = "--method paper --protects record --batch 10"
    data = skipring(f"{PRIVACY} {options} --json").data
    assert data["also"] == []
    assert data["epsilon"] == skipring(f"{PRIVACY} --method paper --protects node --json").data["epsilon"]
    assert "Not covered: the final model, and all data of a node." in " ".join(
        skipring(f"{PRIVACY} {options}").out.split()
    )


PLAN = "plan --nodes 10 --delay gamma:0.25,1 --epsilon 2 --dimension 3 --steps 100 --no-figure"


def test_a_plan_for_records_says_whom_it_protects_and_what_rows_do(skipring: Command) -> None:
    answer = skipring(f"{PLAN} --protects record --rows 40 --schedule random-ring")
    text = " ".join(answer.out.split())
    assert "protects one record of any node (replace-one) against another node, always ready" in text
    assert "epsilon, whole node: " in text
    assert "noise multiplier x gradient bound / rows per update" in text
    assert "The best here: 40. Else, 20 rows: noise multiplier" in text
    assert max(map(len, answer.out.splitlines())) <= 80
    given = skipring(f"{PLAN} --protects person --rows-per-person 2 --rows 40 --batch 10 --schedule random-ring")
    text = " ".join(given.out.split())
    assert "protects all rows of one person of any node" in text
    assert "gradient bound x rows per person / rows per update" in text
    assert "take 4 turns" in text
    assert "paper's accounting: its theorems do not cover rows that take turns" in text
    assert max(map(len, given.out.splitlines())) <= 80


def test_a_plan_says_the_same_in_json(skipring: Command) -> None:
    data = skipring(f"{PLAN} --protects record --rows 40 --json").data["walk"]
    assert (data["protects"], data["relation"], data["against"], data["method"]) == (
        "record",
        "replace-one",
        "another node",
        "tight",
    )
    assert (data["batch"], data["parts"]) == (data["plan"]["batch"], data["plan"]["parts"]) == (40, 1)
    run = RUN.replace(nodes=10, steps=100, skip=data["plan"]["skip_probability"], protects="record")
    run = run.replace(noise_multiplier=data["plan"]["noise_multiplier"])
    assert beside(data, "an outsider") == pytest.approx(forecast(run.replace(against="outsider")).epsilon(1e-6))
    whole = whole_node(run, 40)
    assert beside(data, "whole node") == (None if whole is None else pytest.approx(forecast(whole).epsilon(1e-6)))
    assert {other["batch"] for other in data["batches"]} == {20, 10}


def test_the_trade_off_of_records_is_drawn(skipring: Command, tmp_path: Any) -> None:
    line = PLAN.replace("--no-figure", "--figure drawn.svg")
    assert skipring(f"{line} --protects record --rows 40 --batch 10").code == 0
    assert (tmp_path / "drawn.svg").read_text().startswith("<?xml")


@pytest.mark.parametrize(
    ("options", "option", "value"),
    [
        ("--protects row", "--protects", "row"),
        ("--protects record --batch 0", "--batch", "0"),
        ("--protects node --batch 10", "--batch", "10"),
        ("--protects node --rows 10", "--rows", "10"),
        ("--protects node --parts 2", "--parts", "2"),
        ("--rows-per-person 2", "--rows-per-person", "2"),
        ("--protects record --batch 10 --rows-per-person 2", "--rows-per-person", "2"),
        ("--protects record --batch 10 --rows-per-person 1", "--rows-per-person", "1"),
        ("--protects person --batch 10", "--rows-per-person", "missing"),
        ("--protects person --batch 10 --rows-per-person 11", "--batch", "10"),
        ("--protects record --batch 10 --rows 50 --parts 5", "--parts", "5"),
        ("--protects record --batch 10 --parts 0", "--parts", "0"),
        ("--protects record --batch 10 --rows 0", "--rows", "0"),
        ("--protects record --batch 1 --rows 1000001", "--rows", "1000001"),
        ("--protects record --batch 10 --parts 2 --method paper", "--parts", "2"),
        ("--protects record --batch 10 --rows 20 --method paper", "--rows", "20"),
        ("--against outsider --observers 2", "--observers", "2"),
        ("--against outsider --method paper", "--against", "outsider"),
    ],
)
@pytest.mark.parametrize("command", [PRIVACY, f"noise {LINE} --epsilon 1.5 --delta 1e-5"])
def test_what_does_not_go_together_gets_one_line(
    skipring: Command, command: str, options: str, option: str, value: str
) -> None:
    refused_in_one_line(skipring(f"{command} {options}"), option, value)


@pytest.mark.parametrize(
    ("options", "option", "value"),
    [
        ("--protects row", "--protects", "row"),
        ("", "--rows", "missing"),
        ("--protects node --batch 10", "--batch", "10"),
        ("--protects node --rows 10", "--rows", "10"),
        ("--protects record --rows 10 --rows-per-person 2", "--rows-per-person", "2"),
        ("--protects person --rows 10", "--rows-per-person", "missing"),
        ("--protects person --rows 10 --rows-per-person 3 --batch 2", "--batch", "2"),
        ("--protects record --rows 10 --batch 11", "--batch", "11"),
        ("--protects record --rows 0", "--rows", "0"),
    ],
)
def test_plans_refuse_the_same(skipring: Command, options: str, option: str, value: str) -> None:
    refused_in_one_line(skipring(f"{PLAN} {options}"), option, value)


def refused_in_one_line(answer: Any, option: str, value: str) -> None:
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith(f"error: {option} {value}: ")
    assert answer.err.count("\n") == 1
