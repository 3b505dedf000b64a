"""Settings of the operator: environment variables, which command-line flags override."""

from __future__ import annotations

import importlib.metadata
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PREFIX = "PULSAR_READONLY_"


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it and says what would be right."""


def default_engine_image() -> str:
    """The engine image of the operator's own version."""
    return f"pulsar-readonly/engine:{importlib.metadata.version('pulsar-readonly')}"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process.

    Attributes:
        namespaces: namespaces to serve, separated by commas or blanks; empty for all.
        engine_image: image of brokers whose pool names none; without it, that of the operator's version.
        cluster_domain: DNS domain of the Kubernetes cluster.
        lease: NAMESPACE/NAME of the Lease that the operator holds while it acts; empty for none.
        lease_seconds: seconds without a renewal after which another process takes over.
        resync_seconds: interval of full lists and reconciles, in case an event was missed.
        source_check_seconds: interval of checks of a source cluster that answers.
        refresh_seconds: interval at which brokers are asked for the topics and lag of their bindings.
        workers: pools that are reconciled at the same time.
        request_timeout_seconds: deadline of one request to the API server.
        broker_timeout_seconds: deadline of one request to a broker.
    """

    namespaces: tuple[str, ...] = ()
    engine_image: str = ""
    cluster_domain: str = "cluster.local"
    lease: str = ""
    lease_seconds: int = 15
    resync_seconds: int = 600
    source_check_seconds: int = 60
    refresh_seconds: int = 30
    workers: int = 4
    request_timeout_seconds: int = 15
    broker_timeout_seconds: int = 2

    @classmethod
    def load(cls, environ: Mapping[str, str], **flags: object) -> Settings:
        """Settings from variables `PULSAR_READONLY_<NAME>`; flags that are not None win.

        Raises:
            SettingsError: a variable's value is not of its kind.
        """
        values: dict[str, object] = {"engine_image": default_engine_image()}
        for field in fields(cls):
            text = environ.get(PREFIX + field.name.upper())
            if text:
                values[field.name] = _PARSERS[str(field.type)](PREFIX + field.name.upper(), text)
        values.update({name: value for name, value in flags.items() if value is not None})
        return cls(**values)  # type: ignore[arg-type]


def _positive(name: str, text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise SettingsError(f"{name}={text}: must be a whole number above 0")
    return int(text)


def _words(_name: str, text: str) -> tuple[str, ...]:
    return tuple(word for word in text.replace(",", " ").split() if word)


def _text(_name: str, text: str) -> str:
    return text


_PARSERS: dict[str, Callable[[str, str], object]] = {"int": _positive, "tuple[str, ...]": _words, "str": _text}
