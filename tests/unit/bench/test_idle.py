"""The table of the bench of idle clients."""

from __future__ import annotations

import os

from bench.cpu import cpu_seconds, resident_bytes
from bench.idle import BEGIN, DOCUMENT, END, Result, insert, table


def result(cpu: float = 0.015, full: int = 250_000_000) -> Result:
    return Result("a kind", 10_000, 42.4, 50_000_000, full, cpu, 0.0234, 180.0)


def test_memory_is_what_came_with_the_clients():
    assert result().bytes_each == 20_000.0
    assert table([result()]).splitlines()[2] == "| a kind | 10,000 | 42 s | 1.50% of a core | 20.0 | 50 MB | 2.34% |"


def test_both_limits_count():
    assert result().passed
    assert not result(cpu=0.02).passed
    assert not result(full=300_010_000).passed


def test_the_document_has_a_place_for_the_table():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert text.index(BEGIN) < text.index(END)
    assert insert(text, "made of whole cloth").count("made of whole cloth") == 1


def test_a_process_is_measured():
    begin = cpu_seconds([os.getpid()])
    while cpu_seconds([os.getpid()]) == begin:
        pass  # until the kernel's clock has ticked once
    assert resident_bytes([os.getpid()]) > 1_000_000
