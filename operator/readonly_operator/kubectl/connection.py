"""Connection to the API server as the user: a `kubectl proxy` on a socket in a folder of this user alone.

kubectl thus logs in, renews credentials, and knows contexts and the user's own plugins for logins. One process serves all
requests of a command. It refuses methods that write.
"""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Self

from readonly_engine.status.text import printable

from readonly_operator.kubectl.answers import checked, list_query, page_items
from readonly_operator.kubectl.errors import AnswerError, PluginError
from readonly_operator.kubectl.options import VARIABLE, proxy_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from readonly_operator.kube.kinds import Manifest

TIMEOUT_S: Final = 15.0
"""Deadline of a request."""

LOGIN_S: Final = 60.0
"""Deadline of a request before the first answer: kubectl may log in, and ask its user."""

START_S: Final = 20.0
POLL_S: Final = 0.02
END_S: Final = 2.0
MAX_ANSWER_BYTES: Final = 16 << 20
MAX_LINE: Final = 4096
KEPT_LINES: Final = 20
"""Last lines of kubectl's messages that are kept for an error."""

NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})

_CHUNK: Final = 64 << 10


class _UnixConnection(http.client.HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _read(response: http.client.HTTPResponse, sock: socket.socket, deadline: float) -> bytes:
    """Return a body that ends before a deadline, however slowly its pieces come.

    Raises:
        TimeoutError: it did not.
        AnswerError: it is too long.
    """
    body = bytearray()
    while piece := response.read1(_CHUNK):
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise AnswerError(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MiB")
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        sock.settimeout(left)
    return bytes(body)


class Connection:
    """The API server. As a context it starts kubectl, and ends it.

    Args:
        begin: kubectl, with the options that choose cluster and user.
    """

    def __init__(self, begin: Sequence[str]) -> None:
        self._begin = begin
        self._folder = ""
        self._process: subprocess.Popen[str] | None = None
        self._reading: threading.Thread | None = None
        self._answered = False
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="kubectl-readonly-")  # mode 0700
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def get(
        self, path: str, timeout_s: float = TIMEOUT_S, headers: Mapping[str, str] = NO_HEADERS
    ) -> tuple[int, bytes]:
        """Send a GET request. Several threads may call this.

        Args:
            path: path and query.
            timeout_s: deadline of the whole answer.
            headers: further headers.

        Returns:
            HTTP status and body.

        Raises:
            AnswerError: no answer, or one that is too long.
        """
        if not self._answered:
            timeout_s = max(timeout_s, LOGIN_S)
        deadline = time.monotonic() + timeout_s
        connection = _UnixConnection(self._socket, timeout_s)
        try:
            connection.request("GET", path, headers={"Accept": "application/json", **headers})
            sock = connection.sock
            response = connection.getresponse()
            self._answered = True
            return response.status, _read(response, sock, deadline)
        except TimeoutError:
            raise AnswerError(f"no answer within {timeout_s:g} s") from None
        except (OSError, http.client.HTTPException) as error:
            raise AnswerError(self._with_lines(str(error) or type(error).__name__)) from error
        finally:
            connection.close()

    def object(self, path: str) -> Manifest:
        """Return an object.

        Raises:
            AnswerError: the API server refuses, or does not answer.
        """
        return checked(*self.get(path))

    def list(self, path: str, selector: str, most: int) -> tuple[list[Manifest], bool]:
        """Return the objects of a kind, and whether there are more than `most`.

        Raises:
            AnswerError: the API server refuses, or does not answer.
        """
        found: list[Manifest] = []
        token = ""
        while True:
            items, token = page_items(self.object(path + list_query(selector, token)))
            found += items
            if not token or len(found) > most or not items:
                return found[:most], bool(token) or len(found) > most

    @property
    def _socket(self) -> str:
        return str(Path(self._folder) / "s")

    def _start(self) -> None:
        command = proxy_command(self._begin, self._socket)
        try:
            self._process = subprocess.Popen(  # noqa: S603 - no shell, and the user's own kubectl
                command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace"
            )
        except OSError as error:
            raise PluginError(
                f"{command[0]} cannot be run: {error.strerror}; install kubectl, or name it in the variable {VARIABLE}"
            ) from error
        self._reading = threading.Thread(target=self._read_lines, args=(self._process,), daemon=True)
        self._reading.start()
        deadline = time.monotonic() + START_S
        while not self._is_listening():
            if self._process.poll() is not None:
                self._reading.join(END_S)  # for its last line
                raise PluginError(self._with_lines(f"kubectl proxy ended with status {self._process.returncode}"))
            if time.monotonic() > deadline:
                raise PluginError(self._with_lines(f"kubectl proxy did not start within {START_S:g} s"))
            time.sleep(POLL_S)

    def _is_listening(self) -> bool:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
                probe.connect(self._socket)
        except OSError:
            return False
        return True

    def _read_lines(self, process: subprocess.Popen[str]) -> None:
        """Show kubectl's messages until the first answer, because a login may ask for something; keep the last ones."""
        if process.stderr is None:
            return
        with process.stderr:
            while line := process.stderr.readline(MAX_LINE):
                self._lines.append(line.strip())
                if not self._answered:
                    sys.stderr.write(f"{printable(line.rstrip(), MAX_LINE)}\n")
                    sys.stderr.flush()

    def _with_lines(self, text: str) -> str:
        """Return an error with kubectl's last message, if there is one."""
        return f"{text}: {printable(self._lines[-1])}" if self._lines else text

    def _end(self) -> None:
        process = self._process
        if process is not None and process.poll() is None:
            process.terminate()
            try:
                process.wait(END_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(END_S)
        if self._reading is not None:
            self._reading.join(END_S)  # it ends with the last process that has kubectl's standard error
        shutil.rmtree(self._folder, ignore_errors=True)


def output_of(command: Sequence[str]) -> tuple[int, str, str]:
    """Run a command of kubectl that only reads; return its exit status, output and messages.

    Raises:
        PluginError: it cannot be run, or does not end.
    """
    try:
        done = subprocess.run(  # noqa: S603 - no shell, and the user's own kubectl
            command, check=False, capture_output=True, text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=60
        )
    except FileNotFoundError as error:
        raise PluginError(
            f"{command[0]} is not found: install kubectl, or name it in the variable {VARIABLE}"
        ) from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PluginError(f"{command[0]} cannot be run: {error}") from error
    return done.returncode, done.stdout.strip(), printable(done.stderr.strip())
