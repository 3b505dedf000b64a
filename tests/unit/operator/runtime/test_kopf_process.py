"""What ends kopf, and how it is told."""

import logging

import pytest
from readonly_operator.runtime.kopf_process import TracebackFilter, is_gone


class ApiError(Exception):
    """As kopf's client raises it."""

    def __init__(self, status: int) -> None:
        super().__init__("refused")
        self.status = status


def record(error: Exception | None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("kopf", logging.ERROR, __file__, 1, "Watcher for %s has failed", ("robp",), info)


def test_a_kind_that_is_not_served_any_more_is_told_in_a_line():
    gone = record(ApiError(404))
    assert TracebackFilter().filter(gone)
    assert (gone.exc_info, gone.levelname, gone.getMessage()) == (None, "WARNING", "Watcher for robp has failed")


@pytest.mark.parametrize("error", [ApiError(403), ValueError("x"), None])
def test_other_failures_keep_their_traceback(error):
    other = record(error)
    assert TracebackFilter().filter(other)
    assert other.levelname == "ERROR"
    assert bool(other.exc_info) == (error is not None)
    assert not is_gone(error)
