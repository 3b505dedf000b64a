"""Running kopf, and starting it again when it ends because a watched kind is no longer served."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

import kopf

from readonly_operator.kube.names import OPERATOR
from readonly_operator.runtime.kopf_retries import RetryFilter

if TYPE_CHECKING:
    from readonly_operator.runtime.handlers import Operation

logger = logging.getLogger(__name__)

BEAT_SECONDS = 1.0

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
