"""The options of `pulsar-readonly wake`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from readonly_engine.config.kinds import ADDRESS, FILE, Address, choice_of
from readonly_engine.config.option import NO_FIELD, ConfigError, Kind, option
from readonly_engine.net.tls import TlsFiles

if TYPE_CHECKING:
    from pathlib import Path


def _read_addresses(value: object) -> tuple[Address, ...] | None:
    items = value if isinstance(value, (list, tuple)) else ()
    found = tuple(ADDRESS.read(item) for item in items)
    return tuple(one for one in found if one is not None) if found and None not in found else None


ADDRESSES: Kind[tuple[Address, ...]] = Kind(
    "HOST:PORT",
    "a list of HOST:PORT",
    _read_addresses,
    write=lambda value: ", ".join(map(str, value)),
    several=True,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeConfig:
    """Settings of one waker. A field's name with dashes is its flag."""

    ready: Address = field(
        metadata=option(
            ADDRESS,
            "address that accepts connections while no client waits, for the readiness probe",
            group="Addresses and TLS",
            field=NO_FIELD,
        )
    )
    listen: tuple[Address, ...] = field(
        default=(),
        metadata=option(
            ADDRESSES,
            "addresses for clients without TLS; * is all addresses, IPv4 and IPv6",
            unset="none",
            field=NO_FIELD,
        ),
    )
    tls_listen: tuple[Address, ...] = field(
        default=(), metadata=option(ADDRESSES, "addresses for clients with TLS", unset="none", field=NO_FIELD)
    )
    tls_certificate: Path | None = field(
        default=None, metadata=option(FILE, "PEM certificate for --tls-listen, with its chain", field=NO_FIELD)
    )
    tls_key: Path | None = field(
        default=None, metadata=option(FILE, "PEM key of --tls-certificate, not encrypted", field=NO_FIELD)
    )
    tls_trust_certificates: Path | None = field(
        default=None,
        metadata=option(
            FILE,
            "PEM certificates of CAs for clients' certificates, which are then required",
            unset="no certificate is required",
            field=NO_FIELD,
        ),
    )
    log_level: str = field(
        default="info",
        metadata=option(
            choice_of("debug", "info", "warning", "error"), "lowest level of log lines", group="Logs", field=NO_FIELD
        ),
    )
    log_format: str = field(
        default="text",
        metadata=option(choice_of("text", "json"), "form of log lines: text, or one JSON object each", field=NO_FIELD),
    )

    def __post_init__(self) -> None:
        """Check that the options fit together.

        Raises:
            ConfigError: they do not; the text names the option.
        """
        if not self.listen and not self.tls_listen:
            raise ConfigError("--listen is missing: give an address for clients, there or in --tls-listen")
        if self.tls_listen and (self.tls_certificate is None or self.tls_key is None):
            missing = "--tls-certificate" if self.tls_certificate is None else "--tls-key"
            raise ConfigError(f"{missing} is missing: --tls-listen needs the PEM file")

    @property
    def tls(self) -> TlsFiles:
        """Files of TLS with clients."""
        return TlsFiles("tls", self.tls_trust_certificates, self.tls_certificate, self.tls_key)
