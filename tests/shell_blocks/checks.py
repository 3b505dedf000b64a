"""What can be checked of any command without running it: options, paths, targets, fields and names of this project."""

import argparse
import contextlib
import importlib
import importlib.util
import io
import itertools
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from readonly_engine.command import PARTS
from readonly_operator.api.reasons import CONDITIONS
from readonly_operator.kubectl.command import parser as plugin

from tests.shell_blocks.blocks import ROOT, program
from tests.support.yaml_documents import load_yaml

OURS: Final = {
    "robp": "readonlybrokerpools",
    "rotb": "readonlytopicbindings",
    "ros": "readonlysources",
}
"""Short names of the kinds, and the files of their definitions."""

COMPARE: Final = "examples/canary/compare.py"
"""The script that pages pass to an interpreter in a pod or container."""

PACKAGES: Final = frozenset({"bench", "devstack", "docsite", "longtests", "tests"})
"""Of the repository, for `python -m`."""

FOLDERS: Final = ("charts/", "crds/", "examples/", "manifests/")
"""Paths of commands that begin so must exist in the repository."""

BROKERS_OPTIONS: Final = ("--config", "FILE")
"""Of `pulsar-readonly doctor` in the pod of a broker."""

ENGINE_IMAGES: Final = re.compile(r"(?:.*/)?pulsar-readonly(?:/|-)engine(?::.*)?")


def problems(words: list[str]) -> list[str]:
    """Return what is wrong with a command; nothing for programs of others."""
    name = program(words)
    if name == "pulsar-readonly":
        return _ours(words[1:])
    if name == "make":
        lab = words[1:3] == ["-C", "lab"]
        asked = [word for word in words[3 if lab else 1 :] if "=" not in word]
        return [f"there is no target {word}" for word in asked if word not in targets(lab=lab)]
    if name in {"python", "python3"}:
        return _python(words[1:])
    if name == "helm":
        return _helm(words[1:])
    if name == "kubectl":
        return _kubectl(words[1:])
    if name == "docker":
        return _docker(words[1:])
    return []


def _ours(arguments: list[str]) -> list[str]:
    """Check a command line of `pulsar-readonly` by its own parser; an ellipsis stands for more options."""
    if not arguments or arguments[0].startswith("-"):
        return [] if arguments in (["--version"], ["--help"]) else ["pulsar-readonly needs a subcommand"]
    if arguments[0] not in PARTS:
        return [f"pulsar-readonly has no command {arguments[0]}"]
    return _parsed(importlib.import_module(PARTS[arguments[0]][0]).parser(), arguments[1:])


def _parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> list[str]:
    """Return the error of a parser, if it refuses the arguments."""
    error = io.StringIO()
    hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("PULSAR_READONLY_")}
    try:
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            _exact(parser).parse_args([word for word in arguments if word != "..."])
    except SystemExit as ended:
        return [error.getvalue().strip().rpartition("\n")[2]] if ended.code else []
    finally:
        os.environ.update(hidden)
    return []


def _exact(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return a parser that takes no abbreviations of options: they could become ambiguous."""
    parser.allow_abbrev = False
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for one in action.choices.values():
                _exact(one)
    return parser


def targets(*, lab: bool) -> frozenset[str]:
    """Return the targets of the Makefile, or of that of lab/ with the files that it includes."""
    files = [ROOT / "lab" / "Makefile", *ROOT.glob("lab/*.mk")] if lab else [ROOT / "Makefile"]
    text = "\n".join(path.read_text(encoding="utf-8") for path in files)
    lines = re.findall(r"^([a-z0-9 -]+):(?!=)", text, re.MULTILINE)
    return frozenset(target for line in lines for target in line.split())


def _python(arguments: list[str]) -> list[str]:
    """Check a module or script of the repository; `-` is a script at standard input, and compare.py is the only one."""
    if arguments[:1] in (["-"], [COMPARE]):
        return _parsed(_script(COMPARE).parser(), arguments[1:])
    if arguments and arguments[0].startswith(FOLDERS) and not _exists(arguments[0]):
        return [f"there is no {arguments[0]}"]
    return _module(arguments)


def _script(path: str) -> ModuleType:
    """Import a script of the repository by its path."""
    spec = importlib.util.spec_from_file_location("script_of_a_page", ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _module(arguments: list[str]) -> list[str]:
    if arguments[:1] == ["-m"] and arguments[1].partition(".")[0] in PACKAGES:
        return [] if importlib.util.find_spec(arguments[1]) else [f"there is no module {arguments[1]}"]
    return []


def _helm(arguments: list[str]) -> list[str]:
    found = [f"there is no chart {word}" for word in arguments if word.startswith("charts/") and not _exists(word)]
    if "charts/pulsar-readonly" in arguments:
        values = load_yaml((ROOT / "charts" / "pulsar-readonly" / "values.yaml").read_text(encoding="utf-8"))
        found += [f"the chart has no value {key}" for key in _set(arguments) if not _has(values, key.split("."))]
    return found


def _set(arguments: list[str]) -> Iterator[str]:
    """Yield the keys of --set."""
    for option, value in itertools.pairwise(arguments):
        if option == "--set":
            yield value.partition("=")[0]


def _has(values: Any, keys: list[str]) -> bool:
    for key in keys:
        if not isinstance(values, dict) or key not in values:
            return False
        values = values[key]
    return True


def _kubectl(arguments: list[str]) -> list[str]:
    if arguments[:1] == ["readonly"]:
        return _plugin(arguments[1:])
    found = _paths(arguments)
    if "--" in arguments:
        own, inside = arguments[: arguments.index("--")], arguments[arguments.index("--") + 1 :]
        image = next((word.partition("=")[2] for word in own if word.startswith("--image=")), "")
        if arguments[0] == "exec" or (arguments[0] == "run" and "--command" in own):
            found += problems(inside)
        elif arguments[0] == "run" and ENGINE_IMAGES.fullmatch(image):
            found += _ours(inside)
    kinds = {word.partition("/")[0] for word in arguments[1:3]} & set(OURS)
    if arguments[0] == "patch" and kinds and "-p" in arguments[:-1]:
        found += _patch(kinds.pop(), arguments[arguments.index("-p") + 1])
    if arguments[0] == "wait" and any(word.partition("/")[0] in OURS for word in arguments):
        names = [word.partition("=condition=")[2] for word in arguments if word.startswith("--for=condition=")]
        found += [f"there is no condition {name}" for name in names if name not in CONDITIONS]
    return found


def _plugin(arguments: list[str]) -> list[str]:
    """Check a command line of `kubectl readonly`; `doctor` passes on what follows `--`, with the broker's own options."""
    at = arguments.index("--") if "--" in arguments else len(arguments)
    inside = arguments[at + 1 :]
    return _parsed(plugin(), arguments[:at]) + (_ours(["doctor", *BROKERS_OPTIONS, *inside]) if inside else [])


def _paths(arguments: list[str]) -> list[str]:
    named = [value for option, value in itertools.pairwise(arguments) if option in {"-f", "-k", "--patch-file"}]
    return [f"there is no {path}" for path in named if path.startswith(FOLDERS) and not _exists(path)]


def _exists(path: str) -> bool:
    return (ROOT / path).exists()


def _patch(kind: str, text: str) -> list[str]:
    """Check a merge patch: JSON, and fields that the definition has."""
    try:
        patch = json.loads(text)
    except ValueError as error:
        return [f"the patch is no JSON: {error}"]
    return [f"there is no field {path}" for path in unknown(patch.get("spec", {}), schema(OURS[kind]), "spec")]


def schema(plural: str) -> dict[str, Any]:
    """Return the schema of the spec of a kind, of its newest version."""
    path: Path = ROOT / "crds" / f"{plural}.yaml"
    versions = load_yaml(path.read_text(encoding="utf-8"))["spec"]["versions"]
    found: dict[str, Any] = versions[-1]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def unknown(value: Any, known: dict[str, Any], path: str) -> list[str]:
    """Return the paths of the fields that a schema does not have."""
    if isinstance(value, list):
        return [found for one in value for found in unknown(one, known.get("items", {}), f"{path}[]")]
    if not isinstance(value, dict) or "additionalProperties" in known:
        return []
    fields = known.get("properties", {})
    return [
        found
        for name, one in value.items()
        for found in (unknown(one, fields[name], f"{path}.{name}") if name in fields else [f"{path}.{name}"])
    ]


def _docker(arguments: list[str]) -> list[str]:
    """Check what runs in a container of the engine's image, and in a service of Compose."""
    if arguments[:2] == ["compose", "exec"]:
        service = next(
            (index for index, word in enumerate(arguments[2:], 2) if not word.startswith("-")), len(arguments)
        )
        return problems(arguments[service + 1 :])
    image = next((index for index, word in enumerate(arguments) if ENGINE_IMAGES.fullmatch(word)), None)
    if arguments[0] == "run" and image is not None:
        return _ours(arguments[image + 1 :])
    return []
