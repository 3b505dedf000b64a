"""The connection of the plugin: its deadlines, its bounds, and what it leaves behind, with a program that plays kubectl.

How kubectl itself answers is tried in tests/e2e/test_kubectl_plugin.py. No kubectl gives such answers as these.
"""

import sys
import tempfile
import time
from pathlib import Path

import pytest
from readonly_operator.kubectl import connection as module
from readonly_operator.kubectl.connection import Connection, output_of
from readonly_operator.kubectl.errors import AnswerError, PluginError

PROGRAM = """#!{python}
import socket, sys, threading, time
path = next(one.partition("=")[2] for one in sys.argv if one.startswith("--unix-socket="))
print("W kubectl: a warning\\x1b", file=sys.stderr, flush=True)
listening = socket.socket(socket.AF_UNIX)
listening.bind(path)
listening.listen()
def answer(one):
    asked = (one.recv(65536).split() + [b"", b""])[1].decode()
    head = b"HTTP/1.1 200 OK\\r\\nConnection: close\\r\\n\\r\\n"
    try:
        if asked == "/ok":
            one.sendall(b"HTTP/1.1 403 Forbidden\\r\\nTransfer-Encoding: chunked\\r\\n\\r\\n")
            one.sendall(b'3\\r\\n{{"a\\r\\n5\\r\\n": 1}}\\r\\n0\\r\\n\\r\\n')
        elif asked == "/large":
            one.sendall(head + b" " * 5000)
        elif asked == "/slow":
            one.sendall(head)
            while True:
                one.sendall(b" ")
                time.sleep(0.01)
        elif asked == "/silent":
            time.sleep(60)
        elif asked == "/broken":
            one.sendall(b"nonsense\\r\\n\\r\\n")
        elif asked == "/loud":
            sys.stderr.write("E kubectl: the last line\\n")
            sys.stderr.flush()
            time.sleep(0.2)
    except OSError:
        pass
    one.close()
while True:
    threading.Thread(target=answer, args=(listening.accept()[0],), daemon=True).start()
"""


@pytest.fixture
def program(tmp_path, monkeypatch) -> str:
    """The program; temporary folders are below this test's own."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    file = tmp_path / "kubectl"
    file.write_text(PROGRAM.format(python=sys.executable))
    file.chmod(0o755)
    return str(file)


def left(tmp_path: Path) -> list[Path]:
    return list((tmp_path / "temporary").iterdir())


def test_an_answer_in_pieces_comes_whole_and_nothing_is_left(program, tmp_path, capsys):
    with Connection([program]) as connection:
        (folder,) = left(tmp_path)
        assert folder.stat().st_mode & 0o777 == 0o700
        assert connection.get("/ok") == (403, b'{"a": 1}')
        process = connection._process
    assert left(tmp_path) == []
    assert process.poll() is not None
    assert capsys.readouterr().err == "W kubectl: a warning\\x1b\n", "kubectl's messages, which control no terminal"


@pytest.mark.parametrize(
    ("path", "timeout_s", "error"),
    [
        ("/large", 60, "the answer is longer than"),
        ("/slow", 0.3, "no answer within 0.3 s"),
        ("/silent", 0.3, "no answer within 0.3 s"),
        ("/broken", 60, "nonsense"),
        ("/loud", 60, ": E kubectl: the last line"),
    ],
)
def test_another_answer_is_a_reason_within_the_deadline(program, tmp_path, monkeypatch, path, timeout_s, error):
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 4096)
    with Connection([program]) as connection:
        connection.get("/ok")
        began = time.monotonic()
        with pytest.raises(AnswerError, match=error):
            connection.get(path, timeout_s)
        assert time.monotonic() - began < 30, "and not for the 60 s of the silent program"
    assert left(tmp_path) == []


def test_the_first_answer_has_time_for_a_login(program, monkeypatch):
    monkeypatch.setattr(module, "LOGIN_S", 0.5)
    with Connection([program]) as connection:
        with pytest.raises(AnswerError, match=r"no answer within 0\.5 s"):
            connection.get("/silent", 0.1)
        connection.get("/ok")
        with pytest.raises(AnswerError, match=r"no answer within 0\.1 s"):
            connection.get("/silent", 0.1)


def test_an_answer_at_the_bound_is_read(program, monkeypatch):
    monkeypatch.setattr(module, "MAX_ANSWER_BYTES", 5000)
    with Connection([program]) as connection:
        assert len(connection.get("/large")[1]) == 5000


def test_a_program_that_does_not_listen_is_ended(tmp_path, monkeypatch, program):
    monkeypatch.setattr(module, "START_S", 0.2)
    Path(program).write_text("#!/bin/sh\nexec sleep 60\n")
    connection = Connection([program])
    with pytest.raises(PluginError, match=r"did not start within 0\.2 s"), connection:
        pass
    assert connection._process is not None
    assert connection._process.poll() is not None
    assert left(tmp_path) == []


def test_the_output_of_a_command(tmp_path):
    file = tmp_path / "kubectl"
    file.write_text('#!/bin/sh\necho " $1 "\necho problem >&2\nexit 3\n')
    file.chmod(0o755)
    assert output_of([str(file), "a"]) == (3, "a", "problem")
