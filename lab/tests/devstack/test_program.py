"""A program that SIGTERM ends clears up first."""

import signal
import subprocess
import sys

SOURCE = """
import signal, sys, time
from devstack.program import run_program

def main():
    if len(sys.argv) > 1:
        return int(sys.argv[1])
    try:
        print("started", flush=True)
        signal.pause()
    finally:
        print("cleared up", flush=True)
    return 0

run_program(main)
"""


def test_sigterm_ends_a_program_as_an_exception_does():
    with subprocess.Popen([sys.executable, "-c", SOURCE], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout.readline() == "started\n"
        program.send_signal(signal.SIGTERM)
        assert program.stdout.read() == "cleared up\n"
    assert program.returncode == 143


def test_a_program_ends_with_its_own_status():
    assert subprocess.run([sys.executable, "-c", SOURCE, "3"], check=False).returncode == 3


def test_an_error_for_the_user_is_shown_without_a_traceback():
    source = """
from devstack.errors import DevstackError
from devstack.program import run_program

def main():
    raise DevstackError("port 8080 is in use", "give another by --port")

run_program(main)
"""
    ended = subprocess.run([sys.executable, "-c", source], check=False, capture_output=True, text=True)
    assert (ended.returncode, ended.stderr) == (1, "error: port 8080 is in use\n  give another by --port\n")
