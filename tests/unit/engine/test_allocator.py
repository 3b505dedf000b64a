"""Freed memory of reads stays with the process for the next ones, up to a bound."""

import subprocess
import sys

import pytest
from readonly_engine.allocator import KEPT_BYTES

READS = """
import resource, sys
from pathlib import Path
from readonly_engine.allocator import tune_allocator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def read(size):
    return [bytes(range(256)) * (128 * 4) for _ in range(size >> 17)]

if sys.argv[1] == "tuned":
    tune_allocator()
read(8 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    read(8 << 20)
faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
idle = resident()
read(256 << 20)
print(faults, resident() - idle)
"""


def reads(how):
    found = subprocess.run([sys.executable, "-c", READS, how], check=True, capture_output=True, text=True)
    return map(int, found.stdout.split())


@pytest.mark.skipif(sys.platform != "linux", reason="glibc only")
def test_reads_reuse_memory_and_keep_no_more_than_the_bound():
    faults, _ = reads("as it is")
    fewer, kept = reads("tuned")
    assert fewer < faults / 4
    assert kept <= KEPT_BYTES
