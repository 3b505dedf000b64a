"""Generate docs/reference/cli.md from the argument parsers of `pulsar-readonly` and `kubectl readonly`."""

from __future__ import annotations

import argparse
import importlib
import os
import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from readonly_engine.command import PARTS
from readonly_operator.kubectl import command as kubectl

from docsite.markdown import NOTE, code, sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

COLUMNS = ["option", "default", "meaning"]
HEAD = f"""# Command line

{NOTE}

`pulsar-readonly COMMAND --help` prints the same. Exit status 2 means a wrong command line, 1 a failure, 0 success.
`pulsar-readonly --version` prints version, commit, Python and the loaded C modules. An option in *italics* is required.
Options of each subcommand follow the subcommand.
"""


def page() -> str:
    """Return the whole page, Markdown."""
    summaries = [[code(f"pulsar-readonly {name}"), sentence(text)] for name, (_, text) in PARTS.items()]
    parts = [HEAD, table(["command", "purpose"], summaries), ""]
    with _plain_environment():
        for name, (module, _) in PARTS.items():
            made: argparse.ArgumentParser = importlib.import_module(module).parser()
            parts += list(_command(made, f"pulsar-readonly {name}", level=2))
        parts += list(_command(kubectl.parser(), kubectl.NAME, level=2))
    return "\n".join(parts)


@contextmanager
def _plain_environment() -> Iterator[None]:
    """Hide variables that parsers take defaults from."""
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PULSAR_READONLY_")}
    try:
        yield
    finally:
        os.environ.update(hidden)


def _command(made: argparse.ArgumentParser, name: str, level: int, shared: Sequence[list[str]] = ()) -> Iterator[str]:
    """Give the section of a command, and those of its subcommands. Options that all of these have are listed once.

    Args:
        made: its parser.
        name: its words.
        level: level of its heading.
        shared: rows that the section of the command above has.
    """
    yield f"{'#' * level} {name}\n"
    if made.description:
        yield f"{sentence(made.description)}\n"
    if rows := [row for row in _rows(made) if row not in shared]:
        yield table(COLUMNS, rows) + "\n"
    if made.epilog:
        epilog = made.epilog.strip()
        yield (f"```\n{epilog}\n```\n" if "\n" in epilog else f"{epilog}\n")
    for action in made._actions:  # noqa: SLF001 - argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            first, *others = map(_rows, action.choices.values())
            common = [row for row in first if all(row in rows for rows in others)]
            if common:
                yield f"Options of each `{name}` command:\n"
                yield table(COLUMNS, common) + "\n"
            for word, parser in action.choices.items():
                parser.epilog = None  # that of the command once more
                yield from _command(parser, f"{name} {word}", level + 1, common)


def _rows(made: argparse.ArgumentParser) -> list[list[str]]:
    return [_row(action, made) for action in made._actions if _shown(action)]  # noqa: SLF001


def _shown(action: argparse.Action) -> bool:
    return not isinstance(action, (argparse._HelpAction, argparse._SubParsersAction))  # noqa: SLF001


def _row(action: argparse.Action, made: argparse.ArgumentParser) -> list[str]:
    value = _form(action)
    shown = ", ".join(action.option_strings) or str(action.metavar or action.dest)
    words = shown if action.nargs == 0 or not action.option_strings else f"{shown} {value or action.dest.upper()}"
    words += "..." if action.nargs == "+" or isinstance(action, argparse._AppendAction) else ""  # noqa: SLF001
    text = made._get_formatter()._expand_help(action) if action.help else ""  # noqa: SLF001
    meaning, default = _split_default(text, action)
    marked = f"*{code(words)}*" if action.required and action.option_strings else code(words)
    return [marked, default, sentence(meaning)]


def _form(action: argparse.Action) -> str:
    """Return the form of an option's value, with choices as argparse writes them: bars would end a table's cell."""
    choices = action.metavar.split("|") if isinstance(action.metavar, str) else list(map(str, action.choices or ()))
    return choices[0] if len(choices) == 1 else f"{{{','.join(choices)}}}" if choices else ""


def _split_default(text: str, action: argparse.Action) -> tuple[str, str]:
    """Return the meaning, and the default that the help names at its end or that the parser has."""
    found = re.search(r"\s*\(default:? ([^()]*)\)$|(?:^|; )default (\S+)$", text)
    if found:
        default = (found[1] or found[2]).strip("'")
        return text[: found.start()], default if " " in default else code(default)
    value = action.default
    known = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    return text, code(str(value)) if known and value not in {"", argparse.SUPPRESS} else ""
