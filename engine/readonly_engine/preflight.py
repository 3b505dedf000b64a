"""`pulsar-readonly serve --check`: the checks of a start that need no server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_engine.assembly import bound_patterns
from readonly_engine.broker.pool.bindings import BindingsError, load_bindings
from readonly_engine.config.kinds import Address, is_locality
from readonly_engine.listening import advertised_tls_url, advertised_url
from readonly_engine.metadata.connect import check_security
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.interfaces import ALL_INTERFACES
from readonly_engine.net.tls import TlsError
from readonly_engine.start_files import StartError, open_files
from readonly_engine.workers.plan import check_ports

if TYPE_CHECKING:
    from pathlib import Path

    from readonly_engine.config.settings import EngineConfig


def check(config: EngineConfig) -> None:
    """Check the settings against each other, and every file that they name. Nothing is connected, listened on or written.

    Args:
        config: settings, each of them valid by itself.

    Raises:
        ConfigError: the ports of workers collide.
        StartError: any other setting or file cannot be used; names the option.
    """
    if config.workers > 1:
        check_ports(config)
    _check_addresses(config)
    bound_patterns(config)
    advertised_url(config)
    advertised_tls_url(config)
    open_files(config)
    try:
        for url in (config.metadata_url, config.bookkeeper_metadata_url):
            if url is not None:
                check_security(url, config.metadata_security)
    except (TlsError, LoginError) as error:
        raise StartError(f"--{error}") from error
    if config.bindings is not None:
        _check_bindings(config.bindings)
    if config.locality_file is not None:
        _check_locality(config.locality_file)
    _check_tiered_storage(config)


def _check_addresses(config: EngineConfig) -> None:
    """Check that no two addresses of one process are the same. An address of all interfaces takes the port of each."""
    addresses = [("listen", config.listen), ("http", config.http)]
    if config.tls_listen is not None:
        addresses.append(("tls-listen", config.tls_listen))
    addresses += [("bind-addresses", Address(bind.host.strip("[]"), bind.port)) for bind in config.bind_addresses]
    seen: list[tuple[str, Address]] = []
    for option, address in addresses:
        for other, taken in seen:
            if address.port and address.port == taken.port and _overlap(address.host, taken.host):
                raise StartError(f"--{option} {address}: --{other} has port {taken.port} too; choose another port")
        seen.append((option, address))


def _overlap(host: str, other: str) -> bool:
    """Return whether two hosts to listen on have an address in common, as far as their texts tell."""
    pair = {host, other}
    if len(pair) == 1 or ALL_INTERFACES in pair:
        return True
    ipv6 = [":" in one for one in (host, other)]
    return ("0.0.0.0" in pair and not any(ipv6)) or ("::" in pair and all(ipv6))  # noqa: S104 - a text of the user


def _check_bindings(path: Path) -> None:
    try:
        load_bindings(path)
    except BindingsError as error:
        raise StartError(f"--bindings: {error}") from error


def _check_locality(path: Path) -> None:
    """Check the file if it is there: on Kubernetes the operator writes it after the broker has started."""
    try:
        text = path.read_text(encoding="utf-8").strip()
    except FileNotFoundError:
        return
    except (OSError, UnicodeDecodeError) as error:
        raise StartError(f"--locality-file: {path} cannot be read: {_reason(error)}") from error
    if text and not is_locality(text):
        raise StartError(f"--locality-file: {path} must have /RACK or /ZONE/RACK, not {text[:100]!r}")


def _check_tiered_storage(config: EngineConfig) -> None:
    """Check that the files exist; the driver of each ledger says what they must have."""
    tiered = config.tiered_storage
    if tiered.credentials_file is not None:
        try:
            tiered.credentials_file.read_bytes()
        except OSError as error:
            raise StartError(
                f"--tiered-storage: credentials-file {tiered.credentials_file} cannot be read: {_reason(error)}"
            ) from error
    if tiered.filesystem_root is not None and not tiered.filesystem_root.is_dir():
        raise StartError(f"--tiered-storage: filesystem-root {tiered.filesystem_root} must be a folder of this machine")


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)
