"""Running kopf, which ends when a kind that it watches is no longer served: it is begun anew then."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from http import HTTPStatus
from typing import TYPE_CHECKING

import kopf

from readonly_operator.kube.names import OPERATOR

if TYPE_CHECKING:
    from readonly_operator.runtime.handlers import Operation

logger = logging.getLogger(__name__)

_WATCHERS = ("kopf._core.reactor.orchestration", "kopf._core.reactor.running")
"""Loggers of kopf that tell of a watch that has failed."""


def run(operation: Operation, liveness: str | None) -> None:
    """Run until a signal says to stop.

    Where a custom resource definition is deleted, its objects are gone too; when it is installed again, so is the operator's
    work. How long it is waited for is the same as at the start.

    Raises:
        OSError: the address of the liveness probe cannot be listened on.
        Exception: kopf's, for whatever else ends it; `operation.refusal` has the reason where it could not start.
    """
    for name in _WATCHERS:
        log = logging.getLogger(name)
        if not any(isinstance(known, TracebackFilter) for known in log.filters):
            log.addFilter(TracebackFilter())
    with contextlib.suppress(asyncio.CancelledError):
        while True:
            try:
                asyncio.run(_operate(operation, liveness))
            except Exception as error:
                if not is_gone(error):
                    raise
                logger.warning("a kind that is watched is not served any more; beginning anew")
            else:
                return


def is_gone(error: BaseException | None) -> bool:
    """Whether an error says that the API server does not serve a kind."""
    return getattr(error, "status", None) == HTTPStatus.NOT_FOUND


class TracebackFilter(logging.Filter):
    """Keeps the traceback out of the log where a kind is not served any more: the message says all there is to say."""

    def filter(self, record: logging.LogRecord) -> bool:
        """See logging.Filter."""
        if record.exc_info and is_gone(record.exc_info[1]):
            record.exc_info = record.exc_text = None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
        return True


async def _operate(operation: Operation, liveness: str | None) -> None:
    namespaces = operation.settings.namespaces
    await kopf.operator(
        clusterwide=not namespaces,
        namespaces=namespaces,
        liveness_endpoint=liveness,
        standalone=True,
        memo=operation,
        # else kopf makes one of the user's name, and the image's user has none
        identity=OPERATOR,  # type: ignore[arg-type]
    )
