"""The parser of all commands: an unknown option is one error that names the nearest one, and no option has a second name."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from readonly_engine.config.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Sequence


class OptionParser(argparse.ArgumentParser):
    """A parser of argparse that accepts whole names of options only. Its subcommands have parsers of the same class."""

    def __init__(self, **keywords: Any) -> None:
        super().__init__(allow_abbrev=False, **keywords)

    def parse_known_args(  # type: ignore[override]  # argparse declares overloads for the type of the namespace
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parse arguments. An unknown option ends the process with status 2, before argparse misses a required one."""
        given = sys.argv[1:] if args is None else list(args)
        for one in given:
            if one == "--" or (self._subparsers is not None and not one.startswith("-")):
                break  # a subcommand checks its own options
            flag = one.partition("=")[0]
            if flag.startswith("--") and flag not in self._option_string_actions:
                near = nearest(flag, [name for name in self._option_string_actions if name.startswith("--")])
                self.error(f"{flag} is unknown{f'; the nearest is {near}' if near else ''}; --help lists all options")
        return super().parse_known_args(given, namespace)
