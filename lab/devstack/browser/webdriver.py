"""A small client of WebDriver (W3C), with the commands of Chromium's DevTools. The calls block."""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

TIMEOUT_S: Final = 60.0
"""Deadline of a command. A page of the project answers in milliseconds."""

ELEMENT: Final = "element-6066-11e4-a52e-4f735466cecf"
"""Key of an element's id in an answer (WebDriver, section 12)."""

MAX_ANSWER_BYTES: Final = 64 << 20

KEYS: Final[Mapping[str, str]] = {"Tab": "\ue004", "Enter": "\ue007"}
"""Code points of keys without a character (WebDriver, section 17.4.2)."""


class SessionError(Exception):
    """A command failed; has the driver's error and its first line of text."""


class WebDriver:
    """A driver that listens on loopback.

    Args:
        port: its port.
    """

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"
        # A proxy of the environment must not get the commands.
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """Send a command, and return its value.

        Raises:
            OSError: the driver does not answer.
            SessionError: the command failed.
        """
        data = None if method == "GET" else json.dumps(body or {}).encode()
        request = urllib.request.Request(  # noqa: S310 - on loopback
            self._base + path, data=data, method=method, headers={"Content-Type": "application/json"}
        )
        try:
            with self._opener.open(request, timeout=TIMEOUT_S) as response:
                return json.loads(response.read(MAX_ANSWER_BYTES))["value"]
        except urllib.error.HTTPError as error:
            with error:
                value = json.loads(error.read(MAX_ANSWER_BYTES))["value"]
            text = str(value.get("message", "")).partition("\n")[0]
            raise SessionError(f"{value.get('error')}: {text}") from None


class Session:
    """One window of a browser.

    Args:
        driver: its driver.
        options: `goog:chromeOptions`.

    Raises:
        SessionError: the browser does not start.
    """

    def __init__(self, driver: WebDriver, options: Mapping[str, Any]) -> None:
        self._driver = driver
        wanted = {
            "goog:chromeOptions": dict(options),
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
            "timeouts": {"script": 10_000, "pageLoad": 30_000},
        }
        made = driver.call("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._path = f"/session/{made['sessionId']}"
        self.version = str(made["capabilities"]["browserVersion"])
        self.open("about:blank")  # the browser's own first page loads files of the browser, which are in its logs
        self.requests()
        self.log("browser")

    def _post(self, path: str, **body: Any) -> Any:
        return self._driver.call("POST", self._path + path, body)

    def quit(self) -> None:
        """End the browser."""
        self._driver.call("DELETE", self._path)

    def open(self, url: str) -> None:
        """Load a page, and wait for its load event."""
        self._post("/url", url=url)

    @property
    def url(self) -> str:
        """The URL of the page."""
        return str(self._driver.call("GET", f"{self._path}/url"))

    @property
    def title(self) -> str:
        """The title of the page."""
        return str(self._driver.call("GET", f"{self._path}/title"))

    def run(self, script: str, *arguments: Any) -> Any:
        """Return the result of the body of a function in the page; `arguments[0]` is its first argument."""
        return self._post("/execute/sync", script=script, args=list(arguments))

    def element(self, css: str) -> Mapping[str, str]:
        """Return the first element of a selector, as an argument of `run`.

        Raises:
            SessionError: there is none.
        """
        found = self._post("/element", using="css selector", value=css)
        return {ELEMENT: str(found[ELEMENT])}

    def click(self, css: str) -> None:
        """Click the first element of a selector, as a user does: it must be visible."""
        self._post(f"/element/{self.element(css)[ELEMENT]}/click")

    def follow(self, text: str) -> None:
        """Click the first link with this text."""
        found = self._post("/element", using="link text", value=text)
        self._post(f"/element/{found[ELEMENT]}/click")

    def type(self, css: str, text: str) -> None:
        """Empty a field, and type a text into it."""
        element = self.element(css)[ELEMENT]
        self._post(f"/element/{element}/clear")
        self._post(f"/element/{element}/value", text=text)

    def press(self, key: str) -> None:
        """Press a key of KEYS where the focus is."""
        strokes = [{"type": kind, "value": KEYS[key]} for kind in ("keyDown", "keyUp")]
        self._post("/actions", actions=[{"type": "key", "id": "keyboard", "actions": strokes}])

    def alert(self) -> str | None:
        """Return the text of an open alert of a script; None without one."""
        try:
            return str(self._driver.call("GET", f"{self._path}/alert/text"))
        except SessionError as error:
            if str(error).startswith("no such alert"):
                return None
            raise

    def log(self, kind: str) -> list[dict[str, Any]]:
        """Return the entries of a log since the last call: `browser` (the console) or `performance` (DevTools)."""
        found: list[dict[str, Any]] = self._post("/se/log", type=kind)
        return found

    def requests(self) -> list[str]:
        """Return the URLs that the browser has requested since the last call."""
        events = [json.loads(one["message"])["message"] for one in self.log("performance")]
        return [str(one["params"]["request"]["url"]) for one in events if one["method"] == "Network.requestWillBeSent"]

    def devtools(self, command: str, **parameters: Any) -> Any:
        """Run a command of DevTools."""
        return self._post("/goog/cdp/execute", cmd=command, params=parameters)

    def resize(self, width: int, height: int = 800, scale: float = 1) -> None:
        """Set the size of the window's content, in CSS pixels."""
        self.devtools(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False
        )

    def prefer(self, **features: str) -> None:
        """Set what the user prefers, as `color_scheme="dark"`; the others are unset."""
        chosen = [{"name": f"prefers-{name.replace('_', '-')}", "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=chosen)

    def screenshot(self) -> bytes:
        """Return a picture of the whole page, also of what is below the window, as PNG."""
        size = self.devtools("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        made = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        return base64.b64decode(made["data"])
