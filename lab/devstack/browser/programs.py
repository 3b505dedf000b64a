"""Start Chromium's driver, and end it with its browser."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from devstack.browser.webdriver import Session, SessionError, WebDriver
from devstack.common.ports import free_port
from devstack.common.run import tail
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from types import TracebackType

BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")
DRIVER: Final = "chromedriver"
REMEDY: Final = "`make system` installs it"
START_TIMEOUT_S: Final = 30.0

FLAGS: Final = (
    "--headless",
    "--no-sandbox",  # the sandbox refuses root, and the pages are the project's own
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    # Nothing below may ask a server of the browser's vendor.
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-device-scale-factor=1",
)


class BrowserMissingError(DevstackError):
    """Chromium or its driver is not on this machine."""


def find_programs() -> tuple[str, str]:
    """Return the paths of the browser and of its driver, from PATH.

    Raises:
        BrowserMissingError: one of them is missing; names it.
    """
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    driver = shutil.which(DRIVER)
    if browser is None:
        raise BrowserMissingError(f"no browser: {', '.join(BROWSERS)} are missing", REMEDY)
    if driver is None:
        raise BrowserMissingError(f"no driver of the browser: {DRIVER} is missing", REMEDY)
    return browser, driver


class Chromium:
    """One browser with a new profile, which its end removes.

    Raises:
        BrowserMissingError: Chromium or its driver is missing.
        DevstackError: it does not start.
    """

    def __init__(self) -> None:
        browser, driver = find_programs()
        self._folder = tempfile.TemporaryDirectory(prefix="browser-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        log, port = folder / "driver.log", free_port()
        with log.open("wb") as output:
            # A session of its own: the browser's many processes end with the driver's group.
            self._process = subprocess.Popen(
                [driver, f"--port={port}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={**os.environ, "TMPDIR": self._folder.name},
            )
        options = {"binary": browser, "args": [*FLAGS, f"--user-data-dir={folder / 'profile'}"]}
        try:
            self.session = Session(self._ready(WebDriver(port), log), options)
        except BaseException as error:
            end = tail(log.read_text(encoding="utf-8", errors="replace"))
            self._kill()
            if isinstance(error, SessionError):
                raise DevstackError(f"the browser does not start: {error}", end) from error
            raise

    def _ready(self, driver: WebDriver, log: Path) -> WebDriver:
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                driver.call("GET", "/status")
            except (OSError, SessionError) as error:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    end = tail(log.read_text(encoding="utf-8", errors="replace"))
                    raise DevstackError(f"{DRIVER} does not answer", end) from error
                time.sleep(0.05)
            else:
                return driver

    def __enter__(self) -> Session:
        return self.session

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End browser and driver, and remove the profile."""
        try:
            self.session.quit()
        except (OSError, SessionError):
            pass  # it has died already; its group is killed below
        finally:
            self._kill()

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._folder.cleanup()
