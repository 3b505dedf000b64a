"""Options of TLS and logins for the tool, as those of a broker."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.config.option import ConfigError, argument_form, help_of, options_of, read_options
from readonly_engine.config.source_cluster import SourceClusterConfig
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import ClientTls, TlsError
from readonly_engine.tool.errors import ToolError

if TYPE_CHECKING:
    import argparse

    from readonly_engine.metadata.security import StoreSecurity

_PREFIXES: Final = ("metadata_store_tls_", "metadata_store_login_", "bookie_tls_", "bookie_login_")
SECURITY_OPTIONS: Final = tuple(one for one in options_of(SourceClusterConfig) if one.name.startswith(_PREFIXES))


class Security(NamedTuple):
    """Security of the connections to a cluster's storage."""

    stores: StoreSecurity
    bookies: BookieSecurity


def environment_of(name: str) -> str:
    """Return the environment variable with the default of an option."""
    return f"PULSAR_READONLY_{name.upper()}"


def add_security_options(parser: argparse.ArgumentParser) -> None:
    """Add the options to a parser."""
    group = parser.add_argument_group(
        "TLS and logins",
        "As the options of a broker. The environment may have their values, for example "
        f"{environment_of('metadata_store_login_file')}.",
    )
    for one in SECURITY_OPTIONS:
        form = argument_form(one.kind)
        group.add_argument(
            one.flag, default=os.environ.get(environment_of(one.name)) or None, help=help_of(one), **form
        )


def security_of(options: argparse.Namespace) -> Security:
    """Return the security of connections from parsed options.

    Raises:
        ToolError: a value has another form, or a file cannot be used.
    """
    given = {one.key: value for one in SECURITY_OPTIONS if (value := getattr(options, one.name)) is not None}
    try:
        values = read_options(SourceClusterConfig, given, lambda one: one.flag)
        config = SourceClusterConfig(metadata_store_url="", service_url="", admin_url="", **values)
        tls = config.bookie_tls
        bookies = BookieSecurity(None if tls is None else ClientTls(tls), config.bookie_login_file)
        bookies.check()
    except ConfigError as error:
        raise ToolError(str(error)) from error
    except (TlsError, LoginError) as error:
        raise ToolError(f"--{error}") from error
    return Security(config.metadata_security, bookies)
