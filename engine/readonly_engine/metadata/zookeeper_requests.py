"""Requests to ZooKeeper from the event loop, with clear errors where a right is missing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, Final

from kazoo.exceptions import (
    BadVersionError,
    InvalidACLError,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    SessionClosedRequireSaslError,
)
from kazoo.handlers.threading import KazooTimeoutError

from readonly_engine.metadata.errors import AccessDeniedError, MetadataError, MetadataUnavailableError
from readonly_engine.metadata.zookeeper_refusals import NEEDED_RIGHTS, missing_right
from readonly_engine.net.durations import Durations

if TYPE_CHECKING:
    from collections.abc import Callable

    from kazoo.client import KazooClient

    from readonly_engine.metadata.security import StoreSecurity
    from readonly_engine.metadata.zookeeper_connection import Connection

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S: Final = 10.0
REQUEST_TIMEOUT_S: Final = 10.0

REPEAT_S: Final = 60.0
"""Interval in which the log repeats that a right is missing."""

MAX_LOGGED_PATHS: Final = 1000
_POLL_S: Final = 0.05


class ZooKeeperRequests:
    """Sends requests on one session and awaits their answers.

    Args:
        client: the session.
        connection: its connection.
        hosts: the servers, for errors.
        security: the settings of the connection, for errors.

    Attributes:
        denied: requests that lacked a right.
        durations: answers, and the times until them.
    """

    def __init__(self, client: KazooClient, connection: Connection, hosts: str, security: StoreSecurity) -> None:
        self._client = client
        self._connection = connection
        self._hosts = hosts
        self._security = security
        self._loop: asyncio.AbstractEventLoop | None = None
        self._logged: OrderedDict[str, float] = OrderedDict()
        self.denied = 0
        self.durations = Durations()

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that `start` was called on."""
        assert self._loop is not None, "start() first"
        return self._loop

    def use_running_loop(self) -> None:
        """Use the running event loop."""
        self._loop = asyncio.get_running_loop()

    async def start(self) -> None:
        """Connect, and check that ZooKeeper serves this client.

        Raises:
            AccessDeniedError: ZooKeeper refuses the certificate or the login, or this client does not trust ZooKeeper.
            MetadataUnavailableError: no ZooKeeper answers at these hosts.
            MetadataError: the chroot does not exist.
        """
        try:
            await asyncio.to_thread(self._connect)
        except (KazooTimeoutError, OSError, ValueError) as error:
            refusal = self._connection.refusal
            if refusal is not None and refusal.final:
                raise AccessDeniedError(f"ZooKeeper at {self._hosts} cannot be used: {refusal.text}") from error
            raise MetadataUnavailableError(
                f"no ZooKeeper answers at {self._hosts} within {CONNECT_TIMEOUT_S:g} s"
                + ("" if refusal is None else f": {refusal.text}")
            ) from error
        try:
            found = await self.answer_of(REQUEST_TIMEOUT_S, self._client.exists_async, "/")
        except NoAuthError:
            return  # it exists
        except SessionClosedRequireSaslError as error:
            raise self._login_wanted(error) from error
        except (TimeoutError, KazooException) as error:
            raise MetadataUnavailableError(f"ZooKeeper at {self._hosts}: {type(error).__name__}") from error
        if found is None:
            raise MetadataError(f"ZooKeeper at {self._hosts}: the chroot {self._client.chroot} does not exist")

    def _connect(self) -> None:
        """Start the session, in a thread. Do not wait for more attempts after every server has refused it for good."""
        connected = self._client.start_async()
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        while not connected.wait(_POLL_S):
            if self._connection.final_refusals >= len(self._client.hosts) or time.monotonic() > deadline:
                self._client.stop()
                raise KazooTimeoutError("not connected")

    async def call(self, function: Callable[..., Any], *args: object) -> Any:
        """Call a function of kazoo that returns an asynchronous result, and await it.

        Args:
            function: a method of the client.
            args: its arguments; the first is the path, if it has one.

        Raises:
            NoNodeError: there is no such node.
            NodeExistsError: the node exists.
            BadVersionError: the node has another version.
            AccessDeniedError: a right is missing, or ZooKeeper wants a login.
            MetadataUnavailableError: the store did not answer in time.
        """
        try:
            return await self.answer_of(REQUEST_TIMEOUT_S, function, *args)
        except (NoNodeError, NodeExistsError, BadVersionError):
            raise
        except TimeoutError as error:
            raise MetadataUnavailableError(
                f"ZooKeeper at {self._hosts} did not answer in {REQUEST_TIMEOUT_S:g} s"
            ) from error
        except NoAuthError as error:
            raise await self.denial(NEEDED_RIGHTS.get(function.__name__, ""), str(args[0])) from error
        except InvalidACLError as error:
            rights = self._security.option("node-rights")
            raise self._refused(
                f"ZooKeeper at {self._hosts} does not know rights of logins: authProvider.sasl is missing in its configuration; "
                f"add it, or set {rights} to open",
                "rights",
            ) from error
        except SessionClosedRequireSaslError as error:
            raise self._login_wanted(error) from error
        except KazooException as error:
            raise MetadataUnavailableError(f"ZooKeeper at {self._hosts}: {type(error).__name__}") from error

    async def answer_of(self, seconds: float, function: Callable[..., Any], *args: object) -> Any:
        """Call a function of kazoo as `call` does, with its own errors.

        Raises:
            TimeoutError: no answer within this time, in seconds.
            KazooException: the request failed.
        """
        loop = self.loop
        begin = loop.time()
        future: asyncio.Future[Any] = loop.create_future()

        def finish(result: Any) -> None:
            if future.done():
                return
            self.durations.answered(loop.time() - begin)
            if result.exception is not None:
                future.set_exception(result.exception)
            else:
                future.set_result(result.value)

        function(*args).rawlink(lambda result: loop.call_soon_threadsafe(finish, result))
        async with asyncio.timeout(seconds):
            return await future

    async def denial(self, right: str, path: str) -> AccessDeniedError:
        """Return the error of a request without a right, and log and count it.

        Args:
            right: the right, as NEEDED_RIGHTS has it.
            path: the node of the request.
        """
        if right in {"create", "delete"}:
            right, path = await self._missing_above(right, path)
        text = missing_right(right, path, self._hosts, self._connection.user, self._security)
        return self._refused(text, f"{right} {path}")

    def _refused(self, text: str, subject: str) -> AccessDeniedError:
        self.denied += 1
        now = time.monotonic()
        if now - self._logged.get(subject, float("-inf")) >= REPEAT_S:
            log.warning("ZooKeeper refuses a request: error=%s", text)
            self._logged[subject] = now
            self._logged.move_to_end(subject)
            if len(self._logged) > MAX_LOGGED_PATHS:
                self._logged.popitem(last=False)
        return AccessDeniedError(text)

    async def _missing_above(self, right: str, path: str) -> tuple[str, str]:
        """Return the missing right and its node, for a node that cannot be created or deleted.

        The right is one on the nearest existing node above. If that one cannot be read, already this stopped the request.
        """
        while path := path.rpartition("/")[0]:
            try:
                if await self.answer_of(REQUEST_TIMEOUT_S, self._client.exists_async, path) is not None:
                    return right, path
            except NoAuthError:
                return "read", path
            except (TimeoutError, KazooException):
                return right, path
        return right, "/"

    def _login_wanted(self, error: KazooException) -> AccessDeniedError:
        self._connection.refused(error, self._hosts)
        login_file = self._security.option("login-file")
        return AccessDeniedError(f"ZooKeeper at {self._hosts} serves only clients that log in; give {login_file}")
