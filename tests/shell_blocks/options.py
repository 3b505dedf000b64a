"""Options of kubectl and helm on the pages, compared with the help of the programs, which need no server for it."""

import re
import subprocess
from functools import cache
from typing import Final

SUBCOMMANDS: Final = {
    "kubectl": {("auth",), ("config",), ("create",), ("create", "secret"), ("rollout",)},
    "helm": {("dependency",), ("repo",)},
}
"""Commands whose next argument is a command too."""

_LONG: Final = re.compile(r"^ +(?:-\w, )?--([a-z0-9-]+)", re.MULTILINE)
_SHORT: Final = re.compile(r"^ +-(\w), --", re.MULTILINE)
_LIMIT_S: Final = 30


def unknown_options(name: str, path: str, words: list[str]) -> list[str]:
    """Return the options of a command that its help does not list.

    Args:
        name: kubectl or helm.
        path: of the program.
        words: those after the program.
    """
    own = words[: words.index("--")] if "--" in words else words
    verbs = _verbs(name, own)
    if not verbs:
        return []
    long, short = _known(name, path, verbs)
    found = []
    for word in own:
        option = word.partition("=")[0]
        if option.startswith("--"):
            found += [] if option[2:] in long else [f"{' '.join((name, *verbs))} has no option {option}"]
        elif option.startswith("-") and len(option) > 1:
            letters = option[1:] if set(option[1:]) <= short else option[1:2]
            found += [
                f"{' '.join((name, *verbs))} has no option -{letter}" for letter in letters if letter not in short
            ]
    return found


def _verbs(name: str, words: list[str]) -> tuple[str, ...]:
    """Return the command and its subcommands; options before it, such as `-n NAME`, are left out."""
    rest = list(words)
    while rest and rest[0].startswith("-"):
        rest = rest[1 if "=" in rest[0] else 2 :]
    if rest[:1] == ["readonly"]:
        return ()
    verbs = tuple(rest[:1])
    while verbs in SUBCOMMANDS[name] and len(rest) > len(verbs):
        verbs = tuple(rest[: len(verbs) + 1])
    return verbs


@cache
def _known(name: str, path: str, verbs: tuple[str, ...]) -> tuple[frozenset[str], frozenset[str]]:
    """Return the long and the short options of a command.

    Raises:
        AssertionError: the program has no such command.
    """
    text = _output(path, *verbs, "--help")
    assert text.count(" ".join((name, *verbs))), f"{name} has no command {' '.join(verbs)}: {text[:200]}"
    if name == "kubectl":
        text += _output(path, "options")
    return frozenset(_LONG.findall(text)), frozenset(_SHORT.findall(text))


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=_LIMIT_S)
    return done.stdout
