"""Generate docs/reference/configuration.md from the settings of brokers, of tiered storage and of the operator."""

from __future__ import annotations

import dataclasses
from enum import Enum
from pathlib import Path
from typing import Any

from readonly_engine import serve
from readonly_engine.config import EngineConfig
from readonly_engine.tiered.config import TieredConfig
from readonly_operator.settings import PREFIX, Settings

from docsite.docstrings import attributes
from docsite.markdown import NOTE, code, sentence, table

HEAD = f"""# Configuration

{NOTE}

## The file of a broker
`pulsar-readonly serve --config FILE` reads a YAML file. Each key is also an option of the command line, with two dashes in front.
Options win over the file. An unknown key, or a value of another form, is an error that names the key. A size is a whole
number with B, KiB, MiB or GiB.
```yaml
metadata-store: zk:zookeeper:2181
writer-url: pulsar://broker:6650
admin-url: http://broker:8080
advertised-url: pulsar://reader-1:6650
topics: ["persistent://public/default/orders.*"]
cache-size: 1GiB
tiered-storage: {{read-priority: bookkeeper-first}}
```
"""
TIERED = """## tiered-storage
The keys of the mapping `tiered-storage`. An empty mapping takes everything as the brokers noted it beside each offloaded ledger.
"""
OPERATOR = """## The environment of the operator
`pulsar-readonly operator` reads these variables; an option of the [command line](cli.md) wins over its variable.
"""
UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def page() -> str:
    """Return the whole page, Markdown."""
    forms = {action.dest: _form(action) for action in serve.parser()._actions}  # noqa: SLF001 - argparse has no public list
    engine = [
        [code(_key(field.name)), code(forms[field.name]), _default(field), sentence(meaning)]
        for field, meaning in _documented(EngineConfig)
    ]
    tiered = [
        [code(_key(field.name)), _default(field), sentence(meaning)] for field, meaning in _documented(TieredConfig)
    ]
    operator = [
        [code(PREFIX + field.name.upper()), _default(field), sentence(meaning)]
        for field, meaning in _documented(Settings)
    ]
    parts = [
        HEAD,
        table(["key", "value", "default", "meaning"], engine),
        f"\n{TIERED}",
        table(["key", "default", "meaning"], tiered),
        f"\n{OPERATOR}",
        table(["variable", "default", "meaning"], operator),
    ]
    return "\n".join(parts) + "\n"


def _key(name: str) -> str:
    return name.replace("_", "-")


def _documented(made: Any) -> list[tuple[dataclasses.Field[Any], str]]:
    """Return each field of a dataclass with its description.

    Raises:
        ValueError: a field has none.
    """
    known = attributes(made)
    fields = dataclasses.fields(made)
    silent = [field.name for field in fields if field.name not in known]
    if silent:
        raise ValueError(f"{made.__name__}: no description of {', '.join(silent)}")
    return [(field, known[field.name]) for field in fields]


def _form(action: Any) -> str:
    form = action.metavar.replace("|", " or ") if action.metavar else " or ".join(map(str, action.choices or ()))
    return f"[{form}, ...]" if action.nargs == "+" else form


def _default(field: dataclasses.Field[Any]) -> str:
    """Return a field's default as the file or the environment would have it."""
    if field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
        return "required"
    value = field.default
    if isinstance(value, bool):
        return code(str(value).lower())
    if isinstance(value, Enum):
        return code(str(value.value))
    if isinstance(value, int):
        unit, name = next(((unit, name) for unit, name in UNITS if value and value % unit == 0), (1, ""))
        return code(f"{value // unit}{name}")
    if isinstance(value, (str, float, Path)) or (isinstance(value, tuple) and hasattr(value, "port")):
        return code(str(value))
    return ""
