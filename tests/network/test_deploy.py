"""What docs/deploy.md tells people to type, write and watch exists: commands, settings, metrics, and the service."""

from __future__ import annotations

import configparser
import itertools
import json
import re
import shlex
import socket
import subprocess
import sys
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
import typer.main
from networks import IDENTITY, ended
from test_nodes import QUICK, make

from skipring._function import function_of
from skipring.cli._main import app
from skipring.errors import InvalidInput
from skipring.network.node import (
    Monitor,
    NodeFacts,
    OldJournal,
    Stopped,
    make_learner,
    node_rows,
    read_node_config,
    read_owner,
    write_node_model,
)
from skipring.network.node.monitor import _METRICS
from skipring.network.protocol import Token
from skipring.network.setup import ExitCode, agreed_run, load_node, open_journal
from skipring.network.setup.exit_codes import exit_code_of
from skipring.network.storage import JournalFull, JournalInUse, JournalUnusable
from skipring.network.transport import AddressInUse
from skipring.privacy import Guarantee
from skipring.runs import RunFile, read_run_file, with_changes
from skipring.simulation import simulate

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "deploy.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", GUIDE, re.DOTALL | re.MULTILINE)
SETTINGS = [text for kind, text in BLOCKS if kind == "toml"]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]
UNIT = (ROOT / "deploy" / "skipring-node@.service").read_text(encoding="utf-8")
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8")


def commands() -> list[list[str]]:
    """Return what follows `skipring` in every such line of the guide's shell blocks, the service and the image."""
    lines = [line for kind, text in BLOCKS if kind == "sh" for line in text.replace("\\\n", " ").splitlines()]
    lines += re.findall(r"^ExecStart=(.*)$", UNIT, re.MULTILINE)
    lines += [" ".join(re.findall(r'"(.*?)"', line)) for line in re.findall(r"^CMD (\[.*\])$", CONTAINER, re.MULTILINE)]
    found = []
    for line in lines:
        words = shlex.split(line, comments=True)
        at = [i for i, word in enumerate(words) if word.endswith("/bin/skipring") or (i == 0 and word == "skipring")]
        if at:
            found.append(words[at[0] + 1 :])
    return found


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_commands_exist_with_their_options(words: list[str]) -> None:
    command = typer.main.get_command(app)
    rest = list(words)
    while hasattr(command, "commands"):
        assert rest, f"{words} stops at a group"
        name = rest.pop(0)
        assert name in command.commands, f"there is no command {name}"
        command = command.commands[name]
    command.make_context("skipring", rest)  # reads all options, and runs nothing


def test_there_are_commands_to_check() -> None:
    tried = {" ".join(words[:2]) if words[0] in ("network", "node") else words[0] for words in commands()}
    assert tried == {
        "noise",
        "plan",
        "simulate",
        "network init",
        "network check",
        "network pack",
        "network new-run",
        "network renew",
        "node run",
        "node privacy",
        "node ledger",
        "node update",
        "node finish",
    }


def named(settings: str) -> str:
    """Return the file that a block of settings says it is."""
    return settings.splitlines()[0].removeprefix("# ")


def test_run_files_can_be_agreed_on_without_any_data(tmp_path: Path) -> None:
    texts = [text for text in SETTINGS if named(text) == "run.toml"]
    assert len(texts) == 2
    for text in texts:
        (tmp_path / "run.toml").write_text(text)
        read_run_file(tmp_path / "run.toml")
    (tmp_path / "run.toml").write_text(texts[0])
    run = agreed_run(read_run_file(tmp_path / "run.toml"), 3, IDENTITY)
    assert run.schedule.steps == 90
    assert run.privacy.noise_multiplier == 6.05
    assert texts[1].count("[network]") == 1
    given = tomllib.loads(texts[1])["network"]
    assert given.pop("quorum") == 4  # an example: by default it is a majority, which depends on how many there are
    assert given == {key: getattr(RunFile().network, key) for key in given}, "the guide calls these the defaults"


def test_settings_of_a_node_can_be_read(tmp_path: Path) -> None:
    (text,) = [text for text in SETTINGS if named(text) == "node.toml"]
    (tmp_path / "node.toml").write_text(text)
    config = read_node_config(tmp_path / "node.toml")
    assert config.data.path == tmp_path / "rows.csv"
    assert config.budget.epsilon == 8.0
    assert len(SETTINGS) == 4


def test_the_owners_file_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = [text for text in SETTINGS if named(text) == "owner.toml"]
    (tmp_path / "owner.toml").write_text(text)
    monkeypatch.setenv("SKIPRING_OWNER", str(tmp_path / "owner.toml"))
    owner = read_owner(tmp_path / "a")
    assert "clinic:prepare" in owner.hooks.allow
    assert owner.ssh.proxy_command is not None
    places = re.findall(r"SKIPRING_OWNER=(\S+)", "\n".join([unit()["Service"]["Environment"], CONTAINER, GUIDE]))
    assert len(places) == 3
    assert set(places) == {"/etc/skipring/owner.toml"}


def test_rows_are_got_ready_at_night(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = [text for text in PROGRAMS if named(text) == "clinic.py"]
    (tmp_path / "clinic.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    hour = time.gmtime().tm_hour
    monkeypatch.setenv("TZ", f"NIGHT{hour - 2:+d}" if hour >= 2 else "NIGHT+0")  # west of Greenwich it is 2 a.m.
    time.tzset()
    try:
        assert function_of("data.prepare", "clinic:prepare")(np.ones((3, 2)), np.ones(3)) is None
    finally:
        monkeypatch.undo()
        time.tzset()
    with pytest.raises(InvalidInput, match=r"data\.prepare = clinic"):
        function_of("data.prepare", "clinic")


def test_the_rows_fit_the_run_and_the_model_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["rows.py", "1"])
    for text in SETTINGS[:2]:
        (tmp_path / named(text)).write_text(text)
    rows, use, _ = PROGRAMS
    exec(compile(rows, "rows.py", "exec"), {})
    run, config = read_run_file(tmp_path / "run.toml"), read_node_config(tmp_path / "node.toml")
    rng = np.random.default_rng(1)
    learner, _ = make_learner(run, index=0, nodes=3, name=config.name, data=config.data, rng=rng)
    # The rows were drawn such that a high age and a low dose speak against it.
    model = 5.0 / np.sqrt(2.0) * np.array([-1.0, 1.0, 0.0, 0.0])
    assert learner.test_error(model) < 0.2
    _, inputs = node_rows(run, index=0, nodes=3, name=config.name, data=config.data)
    guarantee = Guarantee(
        protects="record", whose="a", against="b", sees="c", method="d", delta=1e-5, refused="nobody asked"
    )
    about = NodeFacts(config.name, run, "00", guarantee)
    write_node_model(tmp_path / "model.npz", Token(1, model.tobytes(), b""), inputs, about, learner.dtype.str)
    exec(compile(use, "use.py", "exec"), {})
    answer, chance = capsys.readouterr().out.split()
    assert answer == "yes"
    assert 0.5 < float(chance) < 1.0


def test_simulations_of_the_guide_end_as_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(SETTINGS[0])
    monkeypatch.setattr(sys, "argv", ["rows.py", "1", "2", "3"])
    exec(compile(PROGRAMS[0], "rows.py", "exec"), {})
    text = GUIDE.partition("*With each patient protected")[2].partition("are.*")[0]
    claimed = [int(share) for share in re.findall(r"(\d+) %", text)]
    asked = [words for words in commands() if words[0] == "simulate"]
    found = []
    for words in asked:
        changes = [word for option, word in itertools.pairwise(words) if option == "--set"]
        found.append(simulate(with_changes(words[1], changes)))
    assert [round(100.0 * result.summary().test_error.mean) for result in found] == claimed == [9, 9, 47]
    # The two that hide somebody do so at the same epsilon, within what the guide's noise was chosen for.
    assert found[0].privacy.epsilon == found[2].privacy.epsilon
    assert found[0].privacy.epsilon is not None
    assert 7.0 < found[0].privacy.epsilon < 8.0
    assert (found[0].privacy.promised.protects, found[2].privacy.promised.protects) == ("record", "node")
    # Nothing is read off the rows; what is left goes for any simulation.
    assert found[0].privacy.promised.not_covered is not None
    assert found[0].privacy.promised.not_covered.startswith("no epsilon covers the test errors of tokens on their way")


def test_all_metrics_are_explained_and_all_that_are_explained_exist() -> None:
    rows = re.findall(r"^\| (`skipring_.*?) \|", GUIDE, re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(skipring_\w+)`", row)]
    assert sorted(explained) == sorted(name for name, *_ in _METRICS)
    assert set(re.findall(r"\bskipring_\w+", GUIDE)) == set(explained)


def unit() -> configparser.RawConfigParser:
    parser = configparser.RawConfigParser(strict=True, delimiters=("=",), interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # systemd's keys are written as they are
    parser.read_string(UNIT)
    return parser


def test_the_service_is_what_the_guide_says_of_it() -> None:
    settings = {key: value for section in unit().values() for key, value in section.items()}
    chapter = GUIDE.partition("\n## As a service\n")[2].partition("\n## ")[0]
    claimed = re.findall(r"`([A-Z]\w+)=([^`]*)`", chapter)
    assert len(claimed) >= 12
    for key, value in claimed:
        assert settings[key] == value
    assert "MemoryDenyWriteExecute" not in settings
    assert settings["RestartSec"] == "15"
    assert set(unit().sections()) == {"Unit", "Service", "Install"}


def test_a_node_has_longer_to_stop_than_it_takes() -> None:
    from skipring.network.node.node import _GRACE

    assert float(unit()["Service"]["TimeoutStopSec"]) > _GRACE + 5.0
    (given,) = re.findall(r"--stop-timeout (\d+)", GUIDE)
    assert float(given) > _GRACE + 5.0
    assert f"{_GRACE:g} seconds" in GUIDE


def test_the_image_has_no_secrets_and_no_root() -> None:
    assert re.findall(r"^USER (.*)$", CONTAINER, re.MULTILINE) == ["10001:10001"]
    assert "10001:10001" in GUIDE
    copied = {word for line in re.findall(r"^COPY (?!--from)(.*) /", CONTAINER, re.MULTILINE) for word in line.split()}
    assert copied == {"pyproject.toml", "README.md", "LICENSE", "src", "examples/hospitals"}
    for name in copied:
        assert (ROOT / name).exists()


def test_the_image_asks_a_node_for_its_health() -> None:
    (check,) = re.findall(r'^    CMD \["python", "-c", "(.*)"\]$', CONTAINER, re.MULTILINE)
    (host,) = re.findall(r"'http://(.*?)/health'", check)
    assert f"http://{host}/health" in GUIDE
    assert f'metrics = "{host}"' in next(text for text in SETTINGS if named(text) == "node.toml")
    with socket.create_server(("127.0.0.1", 0)) as free:
        here = f"127.0.0.1:{free.getsockname()[1]}"
    monitor = Monitor(here, lambda: pytest.fail("only its health is asked for"))
    exec(check.replace(host, here), {})
    monitor.close()
    with pytest.raises(OSError, match="refused"):
        exec(check.replace(host, here), {})


def test_what_is_installed_reads_the_tables_of_the_nodes() -> None:
    installed = re.findall(r"pip install [^\n]*?\[([a-z,]+)\]", GUIDE) + re.findall(r"/source\[([a-z,]+)\]", CONTAINER)
    assert len(installed) >= 3
    assert set(installed) == {"network,tables"}


def test_unit_and_guide_say_what_the_table_of_exit_codes_says() -> None:
    hopeless = [code for code in ExitCode if code not in (ExitCode.DONE, ExitCode.FOR_NOW)]
    assert unit()["Service"]["RestartPreventExitStatus"].split() == [str(int(code)) for code in hopeless]
    table = GUIDE.partition("| exit code of `node run` |")[2].partition("\n\n")[0]
    rows = dict(re.findall(r"^\| (\d) \| (.*) \|$", table, re.MULTILINE))
    assert sorted(rows) == [str(int(code)) for code in ExitCode]
    for code in ExitCode:
        assert ("start it again" in rows[str(int(code))]) == (code is ExitCode.FOR_NOW)
        assert ("does not help" in rows[str(int(code))]) == (code in hopeless)


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        (JournalUnusable("journal", "j", "whole"), ExitCode.JOURNAL),
        (OldJournal("old"), ExitCode.JOURNAL),
        (JournalInUse("journal", "j", "free"), ExitCode.FOR_NOW),
        (AddressInUse("listen", "a:1", "free"), ExitCode.FOR_NOW),
        (JournalFull("the disk is full"), ExitCode.FOR_NOW),
        (Stopped("the model has gone"), ExitCode.FOR_NOW),
        (InvalidInput("data.path", "rows.csv", "there"), ExitCode.SETTINGS),
    ],
)
def test_a_node_ends_with_what_is_wrong(problem: Exception, code: ExitCode) -> None:
    assert exit_code_of(problem) is code


def test_a_node_says_what_is_wrong_in_its_log_and_not_as_options(tmp_path: Path) -> None:
    """Processes: a port in use is worth another try, a journal of somebody else is not."""
    (config,) = make(tmp_path / "net", 2, QUICK)[:1]
    address = load_node(config).roster.addresses[0]
    assert address is not None
    with socket.create_server(("127.0.0.1", address.port)):
        code, said = ended(config)
    assert (code, said["event"], said["node"]) == (ExitCode.FOR_NOW, "failed", "node1")
    assert re.match(r"listen 127\.0\.0\.1:\d+: cannot be listened on", said["why"])
    with open_journal(load_node(config)):
        code, said = ended(config)
    assert code == ExitCode.FOR_NOW
    assert said["why"].startswith("journal /")
    assert said["why"].endswith("journal.sqlite: is in use by another process")
    config.with_name("journal.sqlite").write_bytes(b"x" * 5000)
    code, said = ended(config)
    assert (code, "--" in said["why"]) == (ExitCode.JOURNAL, False)
    config.with_name("node.key").write_text("no key")
    code, said = ended(config)
    assert (code, "--" in said["why"]) == (ExitCode.SETTINGS, False)


LIBRARIES = """
import logging
from skipring.network.setup.process import _Log, _ToLog
log = _Log(verbose=False, as_json=True)
logging.getLogger().addHandler(_ToLog(log))
logging.getLogger("asyncio").warning("Unknown child process pid %d, will report returncode 255", 5)
logging.getLogger("some.library").debug("chatter")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("a callback has failed")
"""


def test_what_libraries_say_is_a_line_of_json_like_all_others() -> None:
    done = subprocess.run([sys.executable, "-c", LIBRARIES], capture_output=True, text=True, check=True)
    (line,) = done.stderr.splitlines()
    said = json.loads(line)
    assert (said["event"], said["level"], said["source"]) == ("library", "error", "asyncio")
    assert said["what"].startswith("a callback has failed")
    assert said["what"].endswith("ZeroDivisionError: division by zero")
