"""Generate docs/reference/configuration.md from the settings of brokers, of tiered storage and of the operator."""

from __future__ import annotations

import json
from itertools import groupby
from typing import TYPE_CHECKING

from readonly_engine.broker.pool.bindings import Dispatch, Fallback, Lifecycle, Placing
from readonly_engine.broker.server.broker import BINDINGS_POLL_S
from readonly_engine.config import schema
from readonly_engine.config.option import options_of
from readonly_engine.config.settings import Cursors, EngineConfig, Tail
from readonly_engine.config.tiered import TieredConfig
from readonly_operator.settings import Settings, variable_of

from docsite.markdown import NOTE, code, sentence, table

if TYPE_CHECKING:
    from collections.abc import Iterable
    from enum import StrEnum

    from readonly_engine.config.option import Option

COLUMNS = ("key", "value", "default", "meaning")
HEAD = f"""# Configuration

{NOTE}

## The file of a broker
`pulsar-readonly serve --config FILE` reads a YAML file. Each key is also an option of the command line, with two dashes in front.
Options win over the file. An unknown key, or a value of another form, is an error that names the key. With `unknown-keys: warn` an unknown
key is ignored, and the log names it. A size is a whole number of bytes, or one with KiB, MiB or GiB.
```yaml
metadata-store-url: zk:zookeeper:2181
service-url: pulsar://broker:6650
admin-url: http://broker:8080
advertised-url: pulsar://reader-1:6650
topics: ["persistent://public/default/orders.*"]
cache-size: 1GiB
tiered-storage: {{read-priority: bookkeeper-first}}
```
"""
CHECK = """
### Check of a file
`pulsar-readonly serve --config FILE --check` checks options and file, and every file that they name: certificates, logins, tokens, bindings.
It connects to nothing, and exits with 0 or with one error that names the option. [configuration.schema.json](configuration.schema.json) is
the JSON Schema of the file, for editors and pipelines. It knows forms of single values only, and no keys of newer versions.
"""
BINDINGS_EXAMPLE = """revision: "1"
bindings:
  - name: orders
    topics: ["persistent://public/default/orders", "persistent://public/default/bills-.*"]
    subscriptions: [billing, "audit-.*"]
    fallback: Owner
  - name: shop
    topics: []
    namespaces: [shop/eu]
    lifecyclePolicy: Detach
    tail: Bookies
    cursors: Local
  - name: queues
    topics: [persistent://public/default/jobs]
    dispatch: Split
  - name: devices
    topics: [persistent://public/default/device-.*]
    placement: WhenCheaper
"""
BINDINGS = f"""## The file of bindings
`pulsar-readonly serve --bindings FILE` reads it, and so does `serve --check`. `doctor` and `plan` accept the key in the file of a broker, and read no
bindings. In Kubernetes the operator writes it, from the ReadOnlyTopicBindings of the pool. It is YAML or JSON:
```yaml
{BINDINGS_EXAMPLE}```

| key | value | default | meaning |
| --- | --- | --- | --- |
| `revision` | text | required | Any text that changes with the file. `/bindings` of the HTTP port shows the one in force. |
| `bindings` | list | `[]` | The bindings. The first one that names a topic, and has `tail` or `cursors`, decides on these. |

Each binding is a mapping:

{{keys}}

A broker compares the file every {BINDINGS_POLL_S:g} s. If it is invalid, the last valid bindings stay in force. The log, the metric `pulsar_readonly_bindings_invalid` and
`error` at `/bindings` then show the reason. A broker that starts with an invalid file has the topics of `--topics` alone until the file is valid. An unknown key beside `revision` and `bindings` is an error. An unknown key
of a binding is ignored, and the log names it: a newer operator may have written it. Topics of `--topics` are bound as well.
"""
TIERED = """## tiered-storage
The keys of the mapping `tiered-storage`. Without them, a broker uses the driver, bucket, region and endpoint that the owner brokers
stored with each offloaded ledger.
"""
OPERATOR = """## The environment of the operator
`pulsar-readonly operator` reads these variables; an option of the [command line](cli.md) wins over its variable.
"""


def page() -> str:
    """Return the whole page, Markdown."""
    parts = [HEAD + CHECK]
    for title, options in groupby(options_of(EngineConfig), key=lambda one: one.group):
        parts += [f"### {title}", table(COLUMNS, map(_row, options)), ""]
    parts += [
        BINDINGS.format(keys=table(COLUMNS, binding_keys())),
        TIERED,
        table(COLUMNS, map(_row, options_of(TieredConfig))),
        "",
    ]
    parts += [OPERATOR, table(("variable", *COLUMNS[1:]), _variables())]
    return "\n".join(parts) + "\n"


def schema_text() -> str:
    """Return the JSON Schema of the file."""
    return json.dumps(schema.document(), indent=2) + "\n"


def binding_keys() -> Iterable[list[str]]:
    """Return a row for each key of a binding."""
    rows = (
        ("name", "text", "required", "Name of the binding, for `/bindings` and the log."),
        (
            "topics",
            "[PATTERN, ...]",
            "required",
            "Names, or regular expressions (RE2) that match full names. A partitioned topic includes its partitions. May be empty.",
        ),
        (
            "namespaces",
            "[TENANT/NAMESPACE, ...]",
            "none",
            "All topics of these namespaces, but for Pulsar's system topics.",
        ),
        (
            "subscriptions",
            "[PATTERN, ...]",
            "all",
            "Names, or regular expressions (RE2) that match whole names. Other subscriptions of the topics pass through.",
        ),
        (
            "fallback",
            _choices(Fallback),
            Fallback.REJECT,
            "Answer to lookups while no broker of the pool can serve the topic.",
        ),
        (
            "lifecyclePolicy",
            _choices(Lifecycle),
            Lifecycle.DRAIN,
            "Consumers of a binding that is removed: they are closed, or served until they leave.",
        ),
        ("tail", _choices(Tail), "the broker's tail", "Source of new entries."),
        ("cursors", _choices(Cursors), "the broker's cursors", "Keeper of the subscriptions' cursors."),
        (
            "dispatch",
            _choices(Dispatch),
            Dispatch.SINGLE,
            "Brokers that serve one Shared or Key_Shared subscription whose cursor the owner keeps: one, or each its own consumers.",
        ),
        (
            "placement",
            _choices(Placing),
            Placing.ALWAYS,
            "Servers of the consumers: the pool, or the owner while the topic has fewer than four subscriptions with consumers.",
        ),
    )
    for key, form, default, meaning in rows:
        yield [code(key), code(form) if form != "text" else form, default, meaning]


def _choices(choices: type[StrEnum]) -> str:
    """Return the values of an enumeration, as the file has them: with a capital."""
    return " or ".join(one.value[0].upper() + one.value[1:] for one in choices)


def _row(one: Option) -> list[str]:
    return [code(one.key), *_cells(one)]


def _cells(one: Option) -> list[str]:
    """Return the cells of an option but for its name."""
    form = f"[{one.kind.form}, ...]" if one.kind.several else one.kind.form.replace("|", " or ")
    unit = f" ({one.unit})" if one.unit else ""
    return [f"{code(form)}{unit}", _default(one), sentence(one.help)]


def _default(one: Option) -> str:
    if one.required:
        return "required"
    words = f" ({one.unset})" if one.default and one.unset else one.unset
    return f"{code(one.default)}{words}"


def _variables() -> Iterable[list[str]]:
    return ([code(variable_of(one)), *_cells(one)] for one in options_of(Settings))
