"""Generate docs/reference/names.md: one setting as option, key of the file, and field of the custom resources.

Options, commands and forms come from the code, and the fields from crds/. `FIELDS` says which belong together.
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
from readonly_engine.config.option import Option, options_of
from readonly_engine.config.settings import EngineConfig
from readonly_engine.config.tiered import TieredConfig

from docsite.markdown import NOTE, code, table

if TYPE_CHECKING:
    from collections.abc import Iterator

CRDS: Final = Path(__file__).resolve().parents[1] / "crds"
POOL: Final = "readonlybrokerpools"
BINDING: Final = "readonlytopicbindings"
OPERATOR: Final = "the operator sets it"
NONE: Final = "no field"

_BROKERS: Final = "source.tls.brokers"
_BOOKIES: Final = "source.tls.bookies"
_STORE: Final = "source.tls.metadataStore"
_TLS: Final = "listeners.tls"
FIELDS: Final = {
    "metadata-store": "source.metadataStoreUrl",
    "writer-url": "source.serviceUrl",
    "admin-url": "source.adminUrl",
    "bookkeeper-metadata-store": "source.bookkeeperMetadataStoreUrl",
    "metadata-tls-trust-certificates": f"{_STORE}.trustedCertificates",
    "metadata-tls-certificate": f"{_STORE}.clientCertificate.certificate",
    "metadata-tls-key": f"{_STORE}.clientCertificate.privateKey",
    "metadata-tls-verify-hostname": f"{_STORE}.hostnameVerification",
    "metadata-login-file": "source.metadataStoreLogin.secretRef",
    "metadata-login-scheme": "source.metadataStoreLogin.scheme",
    "metadata-node-rights": "source.metadataStoreLogin.nodeRights",
    "writer-tls-trust-certificates": f"{_BROKERS}.trustedCertificates",
    "writer-tls-certificate": f"{_BROKERS}.clientCertificate.certificate",
    "writer-tls-key": f"{_BROKERS}.clientCertificate.privateKey",
    "writer-tls-verify-hostname": f"{_BROKERS}.hostnameVerification",
    "admin-token-file": "source.authentication.secretRef",
    "admin-oauth2": "source.authentication.oauth2",
    "bookie-tls-trust-certificates": f"{_BOOKIES}.trustedCertificates",
    "bookie-tls-certificate": f"{_BOOKIES}.clientCertificate.certificate",
    "bookie-tls-key": f"{_BOOKIES}.clientCertificate.privateKey",
    "bookie-tls-verify-hostname": f"{_BOOKIES}.hostnameVerification",
    "bookie-login-file": "source.bookieLogin.secretRef",
    "listen": OPERATOR,
    "http": OPERATOR,
    "listen-timeout": NONE,
    "advertised-url": OPERATOR,
    "tls-listen": _TLS,
    "tls-certificate": f"{_TLS}.certificate.certificate",
    "tls-key": f"{_TLS}.certificate.privateKey",
    "tls-trust-certificates": f"{_TLS}.clientAuthorities",
    "advertised-tls-url": OPERATOR,
    "advertised-listeners": "listeners.external",
    "bind-addresses": OPERATOR,
    "peer-tls-trust-certificates": f"{_TLS}.brokerAuthorities",
    "topics": "binding: topics",
    "bindings": OPERATOR,
    "lookup-unbound": "lookup.unbound",
    "tail": "binding: tail",
    "cursors": "cursors",
    "cursor-partitions": "cursorPartitions",
    "pool": OPERATOR,
    "pool-uid": OPERATOR,
    "locality": NONE,
    "locality-file": "locality.nodeLabels",
    "cache-size": "cache.size",
    "tiered-storage": "tieredStorage",
    "dispatch-rate-per-subscription": "limits.dispatchRatePerSubscription",
    "dispatch-rate-per-broker": "limits.dispatchRatePerBroker",
    "max-connections": "limits.maxConnections",
    "max-connections-per-ip": "limits.maxConnectionsPerIp",
    "max-consumers-per-topic": "limits.maxConsumersPerTopic",
    "max-consumers-per-subscription": "limits.maxConsumersPerSubscription",
    "max-buffered-bytes": "limits.maxBufferedMemory",
    "workers": "workers",
    "log-level": "logLevel",
    "log-format": OPERATOR,
    "unknown-keys": OPERATOR,
}
"""Field of a pool's spec, or after `binding:` of a binding's, by option; OPERATOR and NONE where there is no field."""

TIERED_FIELDS: Final = {
    "read-priority": "tieredStorage.readPriority",
    "endpoint": "tieredStorage.endpoint",
    "region": "tieredStorage.region",
    "bucket": "tieredStorage.bucket",
    "credentials-file": "tieredStorage.credentials",
    "filesystem-root": "tieredStorage.filesystemRoot",
    "cache-size": "tieredStorage.cacheSize",
    "read-size": NONE,
    "request-timeout": NONE,
}
"""The same for the keys of `tiered-storage`."""

HEAD: Final = f"""# Names of settings

{NOTE}

A setting can be an option of the command line, a key of [the file of a broker](configuration.md) and a field of
[the custom resources](api.md). Option and key always have the same name. A field has another form, camelCase in groups, and sometimes another word.
The column "name" says whether the words are the same. Fields are those of a pool's spec. After `binding:` they are those of a binding's spec.
A `ReadOnlySource` has the fields below `source` of a pool.

The names do not change, because files and objects in use have them. A key of the file with the name of a field is an error, and the error has
the right name.

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
    columns = ["option and key", "field", "name", "values of the field", "other commands"]
    rows = [_row(one, FIELDS[one.key], used.get(one.flag, [])) for one in options_of(EngineConfig)]
    tiered = [_row(one, TIERED_FIELDS[one.key], [])[:-1] for one in options_of(TieredConfig)]
    parts = [HEAD + table(columns, rows), "", "## Keys of `tiered-storage`", table(columns[:-1], tiered), ""]
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
    """Return whether a field has the words of an option: in its last part, or in its last parts together."""
    dashed = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", field.rpartition(": ")[2]).lower().split(".")
    return any("-".join(dashed[index:]) == option for index in range(len(dashed)))


def _row(one: Option, field: str, commands: list[str]) -> list[str]:
    if field in {OPERATOR, NONE}:
        return [code(one.key), field, "", "", ", ".join(map(code, commands))]
    values = ", ".join(map(code, choices(field)))
    words = "the same" if same_name(one.key, field) else "another"
    shown = f"binding: {code(field.partition(': ')[2])}" if ": " in field else code(field)
    return [code(one.key), shown, words, values, ", ".join(map(code, commands))]


def _commands() -> dict[str, list[str]]:
    """Return the commands beside serve and doctor that have a flag, by flag."""
    found: dict[str, list[str]] = {}
    for name, (module, _) in PARTS.items():
        if name not in {"serve", "doctor", "operator", "export"}:
            for flag in sorted(set(_flags(importlib.import_module(module).parser()))):
                found.setdefault(flag, []).append(name)
    return found


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
