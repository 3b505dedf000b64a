"""Generate docs/reference/names.md: one setting as option, key of the file, and field of the custom resources.

Options with their fields, commands and forms come from the code, and the choices of fields from crds/.
"""

from __future__ import annotations

import argparse
import importlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import yaml
from readonly_engine.command import PARTS
from readonly_engine.config.option import NO_FIELD, SET_BY_OPERATOR, Option, options_of
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig

from docsite.markdown import NOTE, code, table

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS: Final = Path(__file__).resolve().parents[2] / "crds"
POOL: Final = "readonlybrokerpools"
BINDING: Final = "readonlytopicbindings"

OTHER_WORDS: Final = {
    "tls-listen": "the field is the group that turns the listener on; the port is always the same",
    "advertised-listeners": "the field describes Services and ports, of which the operator makes the URLs",
    "admin-token-file": "the field is one of several ways to authenticate",
    "admin-oauth2": "the field is one of several ways to authenticate",
}
"""Options whose field has other words, each with its reason."""

HEAD: Final = f"""# Names of settings

{NOTE}

A setting can be an option of the command line, a key of [the file of a broker](configuration.md) and a field of
[the custom resources](api.md). It has one name. Option and key are the same words with dashes. A field has these words in camelCase, divided into
groups: `broker-tls-key` is `source.tls.brokers.clientCertificate.privateKey`. An option that ends in `file` names a file, and its field a Secret or
ConfigMap. [Options of Spark](spark.md) have the words in camelCase: `metadataStoreUrl`, `bookieTls.key`. Fields are those of a pool's spec. After
`binding:` they are those of a binding's spec. A `ReadOnlySource` has the fields below `source` of a pool.

An unknown key or option is an error that names the nearest one. A name of a field or of `broker.conf` is such an error too.

{{others}}

## Forms of values
| values | option and key | field |
|---|---|---|
| size | `512MiB`, `512Mi` or a number of bytes | `512Mi` |
| choice | `redirect`, `tiered-storage-first` | `Redirect`, `TieredStorageFirst` |
| file | the path of a file | the key of a Secret or ConfigMap |
| topics | full names, or regular expressions (RE2) of full names | the same; tenant and namespace are literal |
| namespaces | an expression such as `persistent://public/default/.*` | `namespaces: [public/default]` of a binding |
| metadata store | `zk:HOST:PORT[,...][/CHROOT]` or `oxia://HOST:PORT[/NAMESPACE]` | the same |

## Settings of a broker
`serve` and `doctor` take all options. The column "other commands" has those with an option of the same name.

"""


def page() -> str:
    """Return the whole page, Markdown."""
    used = _commands()
    columns = ["option and key", "field", "values of the field", "other commands"]
    rows = [_row(one, used.get(one.flag, [])) for one in options_of(EngineConfig)]
    tiered = [_row(one, [])[:-1] for one in options_of(TieredConfig)]
    others = table(
        ["option with other words than its field", "reason"], [[code(key), why] for key, why in OTHER_WORDS.items()]
    )
    parts = [
        HEAD.replace("{others}", others) + table(columns, rows),
        "",
        "## Keys of `tiered-storage`",
        table(columns[:-1], tiered),
        "",
    ]
    return "\n".join(parts)


@cache
def fields() -> frozenset[str]:
    """Return all fields of pools' specs, and those of bindings' specs after `binding: `."""
    return frozenset(_paths(_spec(POOL))) | frozenset(f"binding: {one}" for one in _paths(_spec(BINDING)))


def choices(field: str) -> tuple[str, ...]:
    """Return the values that a field may have; empty for other fields than choices."""
    kind, _, path = field.rpartition(": ")
    node = _spec(BINDING if kind else POOL)
    for name in path.split("."):
        node = node["properties"][name]
    return tuple(node.get("enum", ()))


def same_name(option: str, field: str) -> bool:
    """Return whether a field has all words of an option; plurals do not count, and neither does `file` at the option's end."""
    return words_of(option.removesuffix("-file")) <= words_of(field.rpartition(": ")[2])


def words_of(name: str) -> frozenset[str]:
    """Return the words of an option, a field or an option of Spark, in the singular."""
    dashed = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name).lower()
    return frozenset(word.removesuffix("s") for word in re.split(r"[-.]", dashed))


def _row(one: Option, commands: list[str]) -> list[str]:
    field = one.field
    others = ", ".join(map(code, commands))
    if field in {SET_BY_OPERATOR, NO_FIELD}:
        return [code(one.key), field, "", others]
    shown = f"binding: {code(field.partition(': ')[2])}" if ": " in field else code(field)
    return [code(one.key), shown, ", ".join(map(code, choices(field))), others]


def _commands() -> dict[str, list[str]]:
    """Return the commands beside serve and doctor that have a flag, by flag."""
    found: dict[str, list[str]] = {}
    for name in PARTS:
        if name not in {"serve", "doctor", "operator", "export"}:
            for flag in sorted(flags_of(name)):
                found.setdefault(flag, []).append(name)
    return found


def flags_of(command: str) -> set[str]:
    """Return the flags of a command and its subcommands."""
    return set(_flags(importlib.import_module(PARTS[command][0]).parser()))


def _flags(made: argparse.ArgumentParser) -> Iterator[str]:
    for action in made._actions:  # noqa: SLF001 - argparse has no public list
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for parser in action.choices.values():
                yield from _flags(parser)
        else:
            yield from action.option_strings


@cache
def _spec(kind: str) -> dict[str, Any]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the definitions are long, and Python reads them slowly
    definition = yaml.load((CRDS / f"{kind}.yaml").read_text(encoding="utf-8"), Loader=loader)  # noqa: S506 - both are safe
    version = next(one for one in definition["spec"]["versions"] if one["storage"])
    found: dict[str, Any] = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found


def _paths(node: dict[str, Any], path: str = "") -> Iterator[str]:
    for name, inner in node.get("properties", {}).items():
        yield f"{path}{name}"
        yield from _paths(inner, f"{path}{name}.")
