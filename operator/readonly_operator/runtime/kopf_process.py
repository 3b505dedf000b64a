"""Running kopf, and starting it again when it ends because a watched kind is no longer served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from http import HTTPStatus
from typing import TYPE_CHECKING

import kopf

from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from readonly_operator.runtime.handlers import Operation

logger = logging.getLogger(__name__)

BEAT_SECONDS = 1.0

RETRY_SECONDS = (1.0, 2.0, 4.0, 8.0, 15.0)
"""Delays between the tries of a request of kopf; the last one counts for all further tries."""

_REQUESTS = "kopf._cogs.clients.watching"
"""Logger of kopf for the tries of lists and watches."""
_WATCHERS = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running")
"""Loggers of kopf that report a failed watch."""


def run(operation: Operation) -> None:
    """Run until a signal.

    A deleted custom resource definition deletes its objects too. When it is installed again, the operator works again. The
    waiting time is the same as at the start.

    Raises:
        Exception: any other error of kopf; `operation.refusal` has the reason of a failed start.
    """
    for name in _WATCHERS:
        log = logging.getLogger(name)
        if not any(isinstance(known, TracebackFilter) for known in log.filters):
            log.addFilter(TracebackFilter())
    requests = logging.getLogger(_REQUESTS)
    if not any(isinstance(known, RetryFilter) for known in requests.filters):
        requests.addFilter(RetryFilter())
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            try:
                asyncio.run(_operate(operation))
            except Exception as error:
                if not is_gone(error):
                    raise
                logger.warning("watched kind no longer served, restarting the watches")
            else:
                return


def is_gone(error: BaseException | None) -> bool:
    """Return whether an error means that the API server does not serve a kind."""
    return getattr(error, "status", None) == HTTPStatus.NOT_FOUND


class Backoffs:
    """Delays between the tries of a request, without an end: `settings.networking.error_backoffs` of kopf.

    After the last of its own eight delays, 54 s in all, kopf raises the error of a refused (403) or failed (5xx) watch, and ends
    with that one watch. It takes a delay before each try, so the second one is taken after the first error.

    Args:
        failed: called after each failed try.
    """

    def __init__(self, failed: Callable[[], object]) -> None:
        self._failed = failed

    def __iter__(self) -> Iterator[float]:
        """Yield the delays of one request."""
        yield RETRY_SECONDS[0]
        for delay in RETRY_SECONDS[1:]:
            self._failed()
            yield delay
        while True:
            self._failed()
            yield RETRY_SECONDS[-1]


class RetryFilter(logging.Filter):
    """Drop kopf's log records of further failed tries: each kind and namespace has its own, and the first says all."""

    _AGAIN = re.compile(r"Request attempt #(?!1\b)\S+ failed; will retry")

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        return self._AGAIN.match(record.getMessage()) is None


class TracebackFilter(logging.Filter):
    """Remove the traceback from the log record of a kind that is no longer served: the message is enough."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        if record.exc_info and is_gone(record.exc_info[1]):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


async def _operate(operation: Operation) -> None:
    namespaces = operation.settings.namespaces
    beating = asyncio.create_task(_beat(operation))
    try:
        await kopf.operator(
            clusterwide=not namespaces,
            namespaces=namespaces,
            standalone=True,
            memo=operation,
            # kopf's default needs the user's name, and the image's user has none
            identity=OPERATOR,  # type: ignore[arg-type]
        )
    finally:
        beating.cancel()


async def _beat(operation: Operation) -> None:
    """Report that the event loop runs: the probes are answered by another thread."""
    while True:
        operation.health.beat()
        await asyncio.sleep(BEAT_SECONDS)
