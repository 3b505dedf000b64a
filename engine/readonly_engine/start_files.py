"""The files that a broker reads before it connects to anything: certificates, logins and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.http.access import HttpAccess
from readonly_engine.net.digest_md5 import LoginError
from readonly_engine.net.tls import ClientTls, Reloaded, TlsError
from readonly_engine.owner.admin_requests import read_token
from readonly_engine.owner.oauth2 import OAuth2Login

if TYPE_CHECKING:
    import ssl

    from readonly_engine.config.settings import EngineConfig


class StartError(Exception):
    """The broker cannot start; the text names the option and the reason."""


class StartFiles(NamedTuple):
    """What the files have.

    Attributes:
        tls: context of the listeners with TLS; None without TLS.
        broker_tls: TLS to the source cluster's brokers; None without TLS.
        peer_tls: TLS to the pool's other brokers; None without TLS.
        bookies: TLS and login to bookies.
        login: the broker's login at an OAuth 2.0 server; None for none.
        http: TLS and token of the HTTP port.
    """

    tls: Reloaded[ssl.SSLContext] | None
    broker_tls: ClientTls | None
    peer_tls: ClientTls | None
    bookies: BookieSecurity
    login: OAuth2Login | None
    http: HttpAccess


def open_files(config: EngineConfig) -> StartFiles:
    """Read the files of a broker, but for those of its metadata store.

    Raises:
        StartError: a file cannot be used.
    """
    try:
        tls = None if config.tls is None else Reloaded(config.tls.files, config.tls.server_context)
        broker_tls = None if config.broker_tls is None else ClientTls(config.broker_tls)
        peer_tls = None if config.peer_tls is None else ClientTls(config.peer_tls)
        bookie_tls = None if config.bookie_tls is None else ClientTls(config.bookie_tls)
        bookies = BookieSecurity(bookie_tls, config.bookie_login_file)
        bookies.check()
    except (TlsError, LoginError) as error:
        raise StartError(f"--{error}") from error
    login = _own_login(config)
    if config.admin_token_file is not None:
        try:
            read_token(config.admin_token_file)
        except (OSError, ValueError) as error:
            raise StartError(f"--admin-token-file: {error}") from error
    return StartFiles(tls, broker_tls, peer_tls, bookies, login, http_access(config))


def http_access(config: EngineConfig) -> HttpAccess:
    """Read the files of the HTTP port.

    Raises:
        StartError: a file cannot be used.
    """
    try:
        return HttpAccess(config.http_files, config.http_token_file, config.http_peers)
    except TlsError as error:
        raise StartError(f"--{error}") from error
    except (OSError, ValueError) as error:
        raise StartError(f"--http-token-file: {error}") from error


def _own_login(config: EngineConfig) -> OAuth2Login | None:
    if config.admin_oauth2 is None:
        return None
    try:
        return OAuth2Login(config.admin_oauth2)
    except (OSError, ValueError) as error:
        raise StartError(f"--admin-oauth2: {error}") from error
