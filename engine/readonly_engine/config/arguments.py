"""The command line of `pulsar-readonly serve`, made from the declarations of its options."""

from __future__ import annotations

import argparse
from typing import Any

from readonly_engine.config.option import help_of, options_of
from readonly_engine.config.option_parser import OptionParser
from readonly_engine.config.settings import EngineConfig


def parser() -> argparse.ArgumentParser:
    """Return the parser. Options not given are absent. Every option but --config and --check is also a key of the file."""
    made = OptionParser(
        prog="pulsar-readonly serve",
        description="Run one read-only broker: serve topics of a Pulsar cluster from storage.",
        argument_default=argparse.SUPPRESS,
    )
    made.add_argument(
        "--check",
        action="store_true",
        help="check the options, the file of --config and all files that they name, connect to nothing, and exit: 0 if valid",
    )
    add_options(made)
    return made


def add_options(made: argparse.ArgumentParser) -> None:
    """Add --config and the options of a broker to a parser, whose arguments that are not given must be absent."""
    made.add_argument(
        "--config", metavar="FILE", help="YAML file with these options as keys; options win over the file"
    )
    groups: dict[str, argparse._ArgumentGroup] = {}
    for one in options_of(EngineConfig):
        group = groups.get(one.group) or groups.setdefault(one.group, made.add_argument_group(one.group))
        form: dict[str, Any] = (
            {"choices": one.kind.choices, "type": str.lower} if one.kind.choices else {"metavar": one.kind.form}
        )
        if one.kind.several:
            form["nargs"] = "+"
        group.add_argument(one.flag, **form, help=help_of(one))
