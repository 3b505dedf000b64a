"""The question before anything is created in a running cluster."""

import asyncio
import os

import pytest
from readonly_engine.demo.console import ask_to_go_on
from readonly_engine.demo.errors import DemoError


def _answer(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    os.write(writing, text)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as terminal:
        monkeypatch.setattr("sys.stdin", terminal)
        asyncio.run(asyncio.wait_for(ask_to_go_on(), 10))


@pytest.mark.parametrize("text", [b"y\n", b"Yes\n"])
def test_the_demo_goes_on_after(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    _answer(text, monkeypatch)


@pytest.mark.parametrize("text", [b"", b"\n", b"n\n", b"y", b"stop\n"])
def test_the_demo_creates_nothing_after(text: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DemoError, match="nothing was created"):
        _answer(text, monkeypatch)
