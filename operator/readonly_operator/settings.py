"""Settings of the operator, each declared once: its variable, its flag, its help and its reference page come from the field."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from readonly_engine.config.option import ConfigError, Kind, option, options_of

from readonly_operator.selector import MAX_REQUIREMENTS, LabelSelector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from readonly_engine.config.option import Option

PREFIX: Final = "PULSAR_READONLY_"

FLAGS: Final = {
    "namespaces": "--namespace",
    "engine_image": "--engine-image",
    "lease": "--lease",
    "selector": "--selector",
}
"""The settings that also have a flag, which overrides the variable."""

MIN_LEASE_SECONDS: Final = 3

_LEASE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?/[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_NAMESPACE_FORM: Final = "the name of a namespace, as in kubectl get namespaces"


class SettingsError(ValueError):
    """A setting that cannot be used; the text names it and the expected form."""


def _read_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _read_positive(value: object) -> int | None:
    if not isinstance(value, str) or not value.isdecimal():
        return None
    return int(value) or None


def _read_namespaces(value: object) -> tuple[str, ...] | None:
    """Read the text of the variable, or the arguments of the flag."""
    words = value.replace(",", " ").split() if isinstance(value, str) else value
    if not isinstance(words, (list, tuple)):
        return None
    for word in words:
        if not _NAMESPACE.fullmatch(word):
            raise ConfigError(f"{word}: must be {_NAMESPACE_FORM}")
    return tuple(words)


def _read_namespace(value: object) -> str | None:
    return value if isinstance(value, str) and _NAMESPACE.fullmatch(value) else None


def _read_selector(value: object) -> LabelSelector | None:
    return LabelSelector.parse(value) if isinstance(value, str) else None


def _read_lease(value: object) -> str | None:
    return value if isinstance(value, str) and (not value or _LEASE.fullmatch(value)) else None


TEXT: Final = Kind("TEXT", "a text", _read_text)
IMAGE: Final = Kind("IMAGE", "an image", _read_text)
NAMESPACES: Final = Kind("NAMESPACE,...", _NAMESPACE_FORM, _read_namespaces, write=",".join)
NAMESPACE: Final = Kind("NAMESPACE", _NAMESPACE_FORM, _read_namespace)
LEASE: Final = Kind("NAMESPACE/NAME", "NAMESPACE/NAME, for example pulsar-readonly-system/operator", _read_lease)
SELECTOR: Final = Kind(
    "KEY=VALUE,...",
    f"at most {MAX_REQUIREMENTS} of KEY=VALUE, KEY!=VALUE, KEY or !KEY, with commas between, for example operator=canary",
    _read_selector,
    write=str,
)
COUNT: Final = Kind("N", "a whole number above 0", _read_positive)


def _seconds(text: str) -> dict[str, Any]:
    return option(COUNT, text, unit="seconds")


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of one operator process. PULSAR_READONLY_ and a field's name in capitals is its variable."""

    namespaces: tuple[str, ...] = field(
        default=(), metadata=option(NAMESPACES, "namespaces to serve, separated by commas or blanks", unset="all")
    )
    selector: LabelSelector = field(
        default=LabelSelector(),
        metadata=option(SELECTOR, "labels of the pools to serve; other pools are left alone", unset="all"),
    )
    engine_image: str = field(
        default="", metadata=option(IMAGE, "image of brokers whose pool names none", unset="each pool names its own")
    )
    cluster_domain: str = field(default="cluster.local", metadata=option(TEXT, "DNS domain of the Kubernetes cluster"))
    own_namespace: str = field(
        default="",
        metadata=option(
            NAMESPACE,
            "namespace of the operator's pods, which network policies of pools admit",
            unset="POD_NAMESPACE; outside of a pod none",
        ),
    )
    lease: str = field(
        default="",
        metadata=option(
            LEASE,
            "hold this Lease of coordination.k8s.io; of several processes with the same Lease, one acts and the others wait",
        ),
    )
    lease_seconds: int = field(
        default=15, metadata=_seconds("time without a renewal after which another process takes over")
    )
    resync_seconds: int = field(
        default=600, metadata=_seconds("interval of full lists and reconciles, in case an event was missed")
    )
    source_check_seconds: int = field(
        default=60, metadata=_seconds("interval of checks of a source cluster that answers")
    )
    refresh_seconds: int = field(
        default=30, metadata=_seconds("interval at which brokers are asked for the topics and lag of their bindings")
    )
    workers: int = field(default=4, metadata=option(COUNT, "pools that are reconciled at the same time"))
    rolling_pools: int = field(
        default=1,
        metadata=option(COUNT, "pools whose brokers are replaced at the same time; the others wait for their turn"),
    )
    request_timeout_seconds: int = field(default=15, metadata=_seconds("deadline of one request to the API server"))
    broker_timeout_seconds: int = field(default=2, metadata=_seconds("deadline of one request to a broker"))

    @classmethod
    def load(cls, environ: Mapping[str, str], **flags: object) -> Settings:
        """Return the settings of variables; flags that are not None override them. POD_NAMESPACE is own_namespace's default.

        Raises:
            SettingsError: a value is not of its setting's form.
        """
        values: dict[str, object] = {"own_namespace": environ.get("POD_NAMESPACE", "")}
        for one in options_of(Settings):
            text, flag = environ.get(variable_of(one)), flags.get(one.name)
            if flag is not None:
                values[one.name] = _read(one, flag)
            elif text:
                values[one.name] = _read(one, text)
        made = cls(**values)  # type: ignore[arg-type]
        if made.lease and made.lease_seconds < MIN_LEASE_SECONDS:
            raise SettingsError(
                f"{PREFIX}LEASE_SECONDS={made.lease_seconds}: must be at least {MIN_LEASE_SECONDS}, or a slow answer of "
                "the API server makes the operator lose the Lease"
            )
        return made


def variable_of(one: Option) -> str:
    """Return the environment variable of a setting."""
    return f"{PREFIX}{one.name.upper()}"


def _read(one: Option, value: object) -> object:
    """Convert the text of a setting's variable, or what the command line has.

    Raises:
        SettingsError: the value has another form.
    """
    named = f"{FLAGS[one.name]} " if one.name in FLAGS else f"{variable_of(one)}="
    try:
        found = one.kind.read(value)
    except ConfigError as error:
        raise SettingsError(f"{named}{error}") from error
    if found is None:
        raise SettingsError(f"{named}{value}: must be {one.kind.expected}")
    return found
