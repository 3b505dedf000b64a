"""The browser of tests: what is missing is named with its remedy, and the driver's errors are short."""

import json
import os
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from devstack.browser import programs, webdriver
from devstack.browser.programs import BrowserMissingError, find_programs
from devstack.browser.webdriver import SessionError, WebDriver
from tests.support import browsers


def program(folder, name):
    path = folder / name
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_the_first_browser_of_the_path_is_taken(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    driver, other = program(tmp_path, "chromedriver"), program(tmp_path, "google-chrome")
    assert find_programs() == (other, driver)
    browser = program(tmp_path, "chromium")
    assert find_programs() == (browser, driver)


@pytest.mark.parametrize(("there", "named"), [("chromedriver", "chromium, "), ("chromium", "chromedriver")])
def test_what_is_missing_is_named_with_the_remedy(tmp_path, monkeypatch, there, named):
    program(tmp_path, there)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BrowserMissingError, match=named) as raised:
        find_programs()
    assert "make system" in raised.value.hint


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), ("", pytest.skip.Exception)])
def test_a_missing_browser_fails_on_ci_and_skips_elsewhere(tmp_path, monkeypatch, ci, outcome):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="make system"):
        browsers.started()


def test_the_packages_of_the_machine_have_browser_and_driver():
    script = (programs.Path(programs.__file__).parents[1] / "install-packages").read_text()
    for name in (*programs.BROWSERS, programs.DRIVER):
        assert f"have {name}" in script
    assert "wanted+=(chromium)" in script
    assert "wanted+=(chromium-driver)" in script


@contextmanager
def driver(status, value):
    """A driver that gives one answer to all commands; yields its client and the bodies that it got."""
    bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps({"value": value}).encode())

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield WebDriver(server.server_port), bodies
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_error_of_the_driver_has_its_first_line():
    value = {"error": "no such element", "message": "no such element: x\n  (Session info: y)", "stacktrace": "z" * 5000}
    with driver(404, value) as (client, _), pytest.raises(SessionError) as raised:
        client.call("POST", "/session/1/element", {"using": "css selector", "value": "x"})
    assert str(raised.value) == "no such element: no such element: x"


def test_commands_do_not_go_to_a_proxy(monkeypatch):
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setitem(os.environ, name, "http://127.0.0.1:1")
    with driver(200, 7) as (client, bodies):
        assert client.call("POST", "/session/1/url", {"url": "about:blank"}) == 7
    assert bodies == [{"url": "about:blank"}]


def test_keys_are_those_of_the_standard():
    assert set(webdriver.KEYS.values()) == {"\ue004", "\ue007"}
