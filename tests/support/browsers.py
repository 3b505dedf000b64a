"""A browser for tests: skipped where none is installed, but on CI."""

import os
from typing import NoReturn

import pytest

from devstack.browser.programs import BrowserMissingError, Chromium


def missing(error: BrowserMissingError) -> NoReturn:
    """Skip the test, because the browser is missing. On CI it fails: the browser is a part of its machines."""
    reason = f"{error}; {error.hint}"
    if os.environ.get("CI") == "true":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def started() -> Chromium:
    """Return a browser; see `missing`."""
    try:
        return Chromium()
    except BrowserMissingError as error:
        missing(error)
