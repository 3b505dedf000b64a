"""The engine's clients of one source cluster, opened from the options of a broker; and the secrets among these."""

from __future__ import annotations

import asyncio
import os
import re
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from readonly_engine.bookkeeper.connect import BookieSecurity
from readonly_engine.bookkeeper.pool import BookiePool
from readonly_engine.doctor.checks.failure import TOKEN_FILE
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.net.digest_md5 import Credentials, LoginError
from readonly_engine.net.tls import ClientTls, TlsError
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.admin_requests import COMMAND_ANSWER_BYTES, read_token
from readonly_engine.owner.directory import OwnerDirectory
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.identity import ANONYMOUS, TLS_METHOD, Identity
from readonly_engine.owner.oauth2 import OAuth2Login
from readonly_engine.tiered.storage import TieredStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.doctor.deadline import Deadline

    T = TypeVar("T")

CLOSE_S: Final = 2.0
"""Limit for the end of the connections; the process ends after that anyway."""

_SECRET_VARIABLES: Final = (
    "ACCESS_KEY_SECRET",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "ALIYUN_OSS_ACCESS_KEY_SECRET",
    "AZURE_STORAGE_ACCESS_KEY",
)
_SECRET_NAMES: Final = re.compile(
    r"""["']?(aws_secret_access_key|aws_session_token|azure_storage_access_key|private_key|private_key_id)["']?"""
    r"""\s*[=:]\s*["']?(?P<secret>[^"'\r\n]+)"""
)
"""Secrets in a file of tiered storage: an ini file, or the JSON of a service account."""

_MAX_FILE_CHARACTERS: Final = 1 << 20


@dataclass(slots=True)
class Clients:
    """Clients by server; None where a file or option cannot be used.

    Attributes:
        config: the options.
        identity: the pool's own credentials; None if the token cannot be read.
        tls: TLS with brokers and the admin API; None without.
        login: login at an OAuth 2.0 server; None without.
        admins: a client for each host of the admin URL.
        admin: a client for all of them.
        stores: the metadata stores.
        bookies: the bookies.
        tiered: tiered storage.
        problems: texts about files and options that cannot be used; each begins with its option.
    """

    config: EngineConfig
    identity: Identity | None = None
    tls: ClientTls | None = None
    login: OAuth2Login | None = None
    admins: dict[str, AdminClient] = field(default_factory=dict)
    admin: AdminClient | None = None
    stores: ClusterStores | None = None
    bookies: BookiePool | None = None
    tiered: TieredStorage | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def credentials(self) -> str:
        """Kind of the pool's own credentials: token, certificate, or empty for none."""
        if self.identity is None or self.identity == ANONYMOUS:
            return ""
        return "certificate" if self.identity.auth_method == TLS_METHOD else self.identity.auth_method

    @property
    def credentials_option(self) -> str:
        """Option of the pool's own credentials, for remedies; that of a token without any."""
        config = self.config
        if config.admin_oauth2 is not None:
            return "admin-oauth2"
        with_certificate = config.admin_token_file is None and config.broker_tls_certificate is not None
        return "broker-tls-certificate" if with_certificate else TOKEN_FILE

    @property
    def secrets(self) -> list[str]:
        """The secrets of the options, and the access token of this run."""
        return [*secrets_of(self.config), "" if self.login is None else self.login.current()]

    def directory(self, *urls: str) -> OwnerDirectory:
        """Return a new directory of brokers."""
        return OwnerDirectory(*urls, tls=self.tls)

    def admin_at(self, *urls: str) -> AdminClient:
        """Return a new client of the admin API at these URLs."""
        return AdminClient(
            *urls,
            tls=self.tls,
            token_file=self.config.admin_token_file,
            login=self.login,
            max_answer_bytes=COMMAND_ANSWER_BYTES,
        )

    async def log_in(self, deadline: Deadline) -> None:
        """Request an access token, if the options name an OAuth 2.0 server.

        A failure is a text in `problems`. Then no broker and no admin API is asked: a request without credentials is refused,
        with a reason that misleads.
        """
        if self.login is None:
            return
        problem = "admin-oauth2: the server did not answer in time"
        try:
            async with deadline.request():
                await self.login.refresh()
            self.identity = Identity("token", self.login.get().encode())
        except OwnerUnavailableError as error:
            problem = str(error)
        except TimeoutError:
            pass
        else:
            return
        self.problems.append(problem)
        self.identity, self.admin, self.admins = None, None, {}

    async def close(self) -> None:
        """Close all connections, at most for CLOSE_S."""
        for admin in [*self.admins.values(), *([] if self.admin is None else [self.admin])]:
            await admin.close()
        if self.tiered is not None:
            self.tiered.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                if self.bookies is not None:
                    self.bookies.close()
                    await self.bookies.wait_closed()
                if self.stores is not None:  # a connection that comes after its deadline would leave a session
                    await self.stores.close()


def open_clients(config: EngineConfig) -> Clients:
    """Make the clients, which connect on use. An unusable file or option is a text in `problems`."""
    clients = Clients(config)

    def attempt(option: str, make: Callable[[], T]) -> T | None:
        try:
            return make()
        except (TlsError, LoginError) as error:
            clients.problems.append(str(error))
        except (OSError, ValueError) as error:
            clients.problems.append(f"{option}: {error}")
        return None

    files = config.broker_tls
    clients.tls = None if files is None else attempt("broker-tls", lambda: ClientTls(files))
    oauth2 = config.admin_oauth2
    if oauth2 is not None:
        clients.login = attempt("admin-oauth2", lambda: OAuth2Login(oauth2))
    if oauth2 is None or clients.login is not None:
        clients.identity = attempt("admin-token-file", lambda: pool_identity(config))
    if clients.identity is not None and (files is None or clients.tls is not None):
        clients.admin = clients.admin_at(*config.admin_urls)
        clients.admins = {url: clients.admin_at(url) for url in config.admin_urls}
    clients.stores = attempt(
        "metadata-store-url",
        lambda: ClusterStores(config.metadata_url, config.bookkeeper_metadata_url, config.metadata_security),
    )
    if clients.stores is not None:
        security = attempt("bookie-tls", lambda: _bookie_security(config))
        if security is not None:
            clients.bookies = BookiePool(clients.stores.cluster.bookie_address, security=security)
    clients.tiered = TieredStorage(config.tiered_storage)
    return clients


def pool_identity(config: EngineConfig) -> Identity:
    """Return the pool's own credentials: the token, else the certificate of broker-tls, else none.

    Raises:
        OSError: the token cannot be read.
        ValueError: the file does not contain a token.
    """
    if config.admin_token_file is not None:
        return Identity("token", read_token(config.admin_token_file).encode())
    return ANONYMOUS if config.broker_tls_certificate is None else Identity(TLS_METHOD)


def secrets_of(config: EngineConfig) -> list[str]:
    """Return the secrets in files of the options and in the environment; unreadable files have none."""
    found = [os.environ.get(name, "") for name in _SECRET_VARIABLES]
    if config.admin_token_file is not None:
        with suppress(OSError, ValueError):
            found.append(read_token(config.admin_token_file))
    oauth2 = config.admin_oauth2
    if oauth2 is not None:
        with suppress(OSError, ValueError):
            found.append(OAuth2Login(oauth2).client_secret)
    for path in (config.metadata_store_login_file, config.bookie_login_file):
        if path is not None:
            with suppress(LoginError):
                found.append(Credentials.read(path).password)
    stored = config.tiered_storage.credentials_file, os.environ.get("GOOGLE_APPLICATION_CREDENTIALS")
    for path in dict.fromkeys(Path(one) for one in stored if one):
        with suppress(OSError, ValueError), path.open(encoding="utf-8") as file:
            matches = _SECRET_NAMES.finditer(file.read(_MAX_FILE_CHARACTERS))
            found += [part.strip() for one in matches for part in one["secret"].split("\\n")]
    return found


def _bookie_security(config: EngineConfig) -> BookieSecurity:
    tls = config.bookie_tls
    made = BookieSecurity(None if tls is None else ClientTls(tls), config.bookie_login_file)
    made.check()
    return made
