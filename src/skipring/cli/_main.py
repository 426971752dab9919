"""The program: collects the commands, and turns bad input into one line and exit code 2."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Annotated, Any

import typer

from .. import __version__
from ..errors import InvalidInput
from ._options import spelled_out
from ._output import option_name, printable
from .beyond import beyond
from .calculator import error, noise, privacy, timeout
from .compare import compare
from .drafts import init, schema
from .network import network_check, network_init, network_pack, network_verify
from .network_up import network_status, network_stop, network_up
from .node import node_finish, node_ledger, node_model, node_privacy, node_run, node_status
from .paper import figure, numbers, tables
from .people import network_new_run, network_renew, node_update
from .plan import plan
from .predict import predict
from .simulate import report, simulate
from .sweep import sweep
from .worth import worth

# What the command line raises for words it cannot read; typer exports only this subclass by name.
_UsageError: type[Exception] = typer.BadParameter.__bases__[0]


class _Flags:
    """Commands whose help says of a flag what it does, and not that it is a bool."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments; a flag has no value that could have a name."""
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc] # of the class that it is mixed into
        for each in params:
            if getattr(each, "is_flag", False):
                each.metavar = ""
        return params


class _Group(_Flags, typer.core.TyperGroup):
    pass


class _Command(_Flags, typer.core.TyperCommand):
    pass


app = typer.Typer(
    cls=_Group,
    name="skipring",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Start with: skipring plan --nodes 113 --delay gamma:0.25,1 --time 60 --epsilon 2 --dimension 30 --rows 4",
)


def _flowing(text: str | None) -> str:
    """Return a docstring as paragraphs without line breaks, which the help then wraps at the terminal's width.

    What is in brackets, such as a section of a file, is text, which the help would take for markup and leave out.
    """
    return re.sub(r"\[(?=[a-z#/@])", r"\\[", re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.cleandoc(text or "")))


def _add(group: typer.Typer, panel: str | None, *commands: Callable[..., Any]) -> None:
    for command in commands:
        name = command.__name__.removeprefix("network_").removeprefix("node_").replace("_", "-")
        group.command(name, cls=_Command, help=_flowing(command.__doc__), rich_help_panel=panel)(spelled_out(command))


def _add_group(name: str, about: str, panel: str, *commands: Callable[..., Any]) -> None:
    group = typer.Typer(cls=_Group, no_args_is_help=True, help=about)
    _add(group, None, *commands)
    app.add_typer(group, name=name, rich_help_panel=panel)


_add(app, "Before a run", plan, timeout, privacy, noise, error)
_add(app, "On your data", schema, init, simulate, compare, worth, sweep, report, predict)
_add_group(
    "network",
    "Nodes on real machines: who they are, and all of them on this one.",
    "Between machines",
    *(network_init, network_pack, network_new_run, network_renew, network_verify),
    *(network_check, network_up, network_status, network_stop),
)
_add_group(
    "node",
    "One node: run it, see what it has given away, and take its model.",
    "Between machines",
    *(node_run, node_status, node_privacy, node_ledger, node_model, node_update, node_finish),
)
_add_group(
    "paper",
    "Reproduce the paper's figures and tables, and go beyond them.",
    "The paper",
    *(figure, tables, beyond, numbers),
)


def _show_version(value: bool) -> None:
    if value:
        print(f"skipring {__version__}")
        raise typer.Exit


def skipring(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Train one model on data nobody pools, without a server, and know beforehand what it costs.

    A token carrying the model walks a ring of nodes; the holder takes one noisy gradient step; a node that is
    not ready within a timeout is skipped. These commands tell what that costs in time, error and privacy.
    """


app.callback(help=_flowing(skipring.__doc__))(skipring)


@cache
def _program() -> Any:
    """Return all commands with their options; to read them off the signatures takes a while, which tests would feel."""
    return typer.main.get_command(app)


def main() -> None:
    """Run the program."""
    try:
        _program()(standalone_mode=False)
    except InvalidInput as problem:
        _fail(f"{f'{option_name(problem.parameter)} {problem.given}'.rstrip()}: {problem.reason}")
    except _UsageError as problem:
        _fail(_usage(problem))
    except (KeyboardInterrupt, typer.Abort):
        sys.stderr.write("interrupted\n")
        sys.exit(130)


#: What is allowed, where the command line says only what it could not read.
_ALLOWED = {
    "Input should be a valid integer": "must be a whole number",
    "Input should be a valid number": "must be a number",
}


def _usage(problem: Exception) -> str:
    """Say what was wrong with the words of the command, naming the option and what was given."""
    reason = str(getattr(problem, "format_message", problem.__str__)())
    for option in getattr(getattr(problem, "param", None), "opts", ()):
        given = [after for word, after in pairwise(sys.argv) if word == option]
        given += [word.removeprefix(f"{option}=") for word in sys.argv if word.startswith(f"{option}=")]
        if given and reason.startswith("Invalid value"):
            said = reason.split(":", 1)[-1].strip()
            allowed = next((words for start, words in _ALLOWED.items() if said.startswith(start)), said)
            return f"{option} {given[-1]}: {allowed}"
    return reason


def _fail(line: str) -> None:
    if not line:  # the help was shown, because nothing was asked for
        sys.exit(0)
    sys.stderr.write("error: " + printable(" ".join(line.split())) + "\n")
    sys.exit(2)
