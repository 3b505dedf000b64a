"""The day and the machine of a run, as a line of the page that has its results."""

import time

from bench.document import machine


def stamp() -> str:
    """Return the line, which Markdown does not show; lab/docsite/results.py reads it."""
    return f"<!-- run of {time.strftime('%Y-%m-%d', time.gmtime())}; {machine()} -->"
