"""What people read when a file is wrong: the real key, what it must be, and what was probably meant."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipring.delays import Gamma
from skipring.errors import InvalidInput, require_positive
from skipring.network.node import read_node_config
from skipring.runs import dealt_rows, parse_run, with_changes
from skipring.simulation import simulate

Command = Callable[..., Any]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[privcy]\nepsilon = 2\n", "error: [privcy]: is not a section of a run file; did you mean [privacy]?"),
        ("[weather]\nrain = 2\n", "error: [weather]: is not a section of a run file; known are data, model,"),
        ("privacy = 2\n", "error: [privacy] 2: must be a table: a line with [privacy]"),
        ("steps = 2\n", "error: schedule.steps 2: stands outside of any section; it is a key of [schedule]"),
        ("[privacy]\nepsilom = 2\n", "error: privacy.epsilom 2: is not a key of a run file; did you mean privacy.eps"),
        ("[delay]\nepsilon = 2\n", "error: delay.epsilon 2: is not a key of a run file; it is one of [privacy]"),
        ("[delay]\nepsilom = 2\n", "error: delay.epsilom 2: is not a key of a run file; did you mean privacy.epsilon?"),
        ("[delay]\nzzz = 2\n", "error: delay.zzz 2: is not a key of a run file; known here: law, hop_latency, timeout"),
        ('[privacy]\nepsilon = "8x"\n', "error: privacy.epsilon '8x': must be a number without quotes"),
        (
            '[delay]\ntimeout = "bst"\n',
            'error: delay.timeout bst: must be a number without quotes, or "most-updates" or "adaptive"',
        ),
        ('[data]\nschema_file = "gone.toml"\n', "error: data.schema_file gone.toml: does not exist; `skipring schema`"),
        ('[schedule]\nsteps = "many"\n', "error: schedule.steps 'many': must be a whole number without quotes"),
        ("[schedule]\nsteps = 2.5\n", "error: schedule.steps 2.5: must be a whole number"),
        ("[delay]\nlaw = 3\n", 'error: delay.law 3: must be a text in quotes, such as "gamma:0.25,1"'),
        ('[data]\nstandardise = "maybe"\n', "error: data.standardise maybe: must be true or false"),
        ('[data]\nsplit = "even"\n', "error: data.split even: must be 'iid', 'dirichlet'"),
        ("[learning]\nown = 3\n", "error: learning.own 3: must be a list in brackets"),
        ("[schedule]\nsteps = 0\n", "error: schedule.steps 0: must be a whole number of at least 1"),
        ("[delay]\nhop_latency = -1\n", "error: delay.hop_latency -1: must be a finite number of at least 0"),
        ("[delay]\npatient_every = 0\n", "error: delay.patient_every 0: must be a whole number of at least 1"),
        ("[learning]\nclip_noisy = 0\n", "error: learning.clip_noisy 0: must be a finite number above 0"),
        ("[learning]\nclip_noisy = -1\n", "error: learning.clip_noisy -1: must be a finite number above 0"),
        ("[learning]\nclip_noisy = inf\n", "error: learning.clip_noisy inf: must be a finite number above 0"),
        ("[simulation]\nevaluate_every = 0\n", "error: simulation.evaluate_every 0: must be a whole number of at"),
        ("[stragglers]\ndie = 1.5\n", "error: stragglers.die 1.5: must be a finite number of at least 0 and at most 1"),
        ("[stragglers]\nlost_link = 1\n", "error: stragglers.lost_link 1: must be a finite number of at least 0 and"),
        ("[stragglers]\nspeeds = [1, 0]\n", "error: stragglers.speeds.1 0: must be a finite number above 0"),
        ("[privacy]\nnoise_multiplier = -1\n", "error: privacy.noise_multiplier -1: must be a finite number of at"),
    ],
)
def test_a_run_file_that_is_wrong_gets_one_line_with_a_way_out(
    skipring_words: Command, tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "run.toml").write_text(text)
    answer = skipring_words("simulate", "run.toml")
    assert (answer.code, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert answer.err.startswith(said)


def test_a_quoted_number_is_shown_with_its_quotes() -> None:
    with pytest.raises(InvalidInput, match="epsilon = '8': must be a number without quotes: a finite number above 0"):
        require_positive("epsilon", "8")  # type: ignore[arg-type] # what a user did
    with pytest.raises(InvalidInput, match=r"privacy.epsilon = '8': must be a number without quotes"):
        parse_run({"privacy": {"epsilon": "8"}})


def test_objects_do_not_belong_into_a_run_file() -> None:
    with pytest.raises(InvalidInput, match=r"delay.law = an object \(Gamma\): must be a text in quotes, such as"):
        simulate({"delay": {"law": Gamma(0.25, 1.0)}})
    with pytest.raises(InvalidInput, match=r"simulate\(run, delay=...\) takes objects"):
        parse_run({"delay": {"law": Gamma(0.25, 1.0)}})


def test_a_node_column_with_one_value_is_what_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("age,ward,ill\n" + "".join(f"{n},north,{n % 2}\n" for n in range(40)))
    run = with_changes(None, [f"data.path={tmp_path / 'rows.csv'}", "data.label=ill", "data.node=ward"])
    with pytest.raises(InvalidInput, match=r"data.node = ward: is 'north' in every row, and a run has at least 2"):
        dealt_rows(run)


def test_a_folder_in_place_of_a_file_is_called_one(skipring_words: Command, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "node.toml").write_text("")
    for words in (["simulate", "there"], ["node", "run", "there"], ["sweep", "there"], ["schema", "there"]):
        answer = skipring_words(*words)
        assert answer.code == 2
        assert answer.err.startswith("error: FILE there: is a folder, and not a file")
        assert ("it has node.toml in it" in answer.err) == (words[0] != "schema")


def test_a_folder_that_is_taken_names_the_ways_to_go_on(skipring_words: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "[schedule]\nname = 'random-ring'\nsteps = 113\n[privacy]\nnoise_multiplier = 4\n[simulation]\nruns = 1\n"
    )
    assert skipring_words("simulate", "run.toml").code == 0
    err = skipring_words("simulate", "run.toml").err
    assert "run: holds a simulation already; --resume goes on with one that was interrupted, --out names an" in err


def test_settings_of_a_node_and_sweeps_suggest_keys_too(skipring_words: Command, tmp_path: Path) -> None:
    (tmp_path / "node.toml").write_text('name = "a"\nlisten = "127.0.0.1:7600"\n[budget]\nepsilom = 3\n')
    with pytest.raises(InvalidInput, match=r"budget.epsilom is not a key of .*; did you mean budget.epsilon\?"):
        read_node_config(tmp_path / "node.toml")
    (tmp_path / "sweep.toml").write_text("[gird]\n")
    assert "has the unknown key gird; did you mean grid?" in skipring_words("sweep", "sweep.toml").err
