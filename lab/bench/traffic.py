"""Bytes that a process has sent on its connections, as the kernel counts them (`ss`)."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from typing import TYPE_CHECKING, Final

from devstack.errors import DevstackError

if TYPE_CHECKING:
    from collections.abc import Iterable

_COMMAND: Final = ("ss", "--tcp", "--info", "--processes", "--numeric", "--no-header")
_PEER: Final = re.compile(r"^ESTAB\s+\d+\s+\d+\s+\S+\s+\S+:(\d+)\s+users:\(\(.*?pid=(\d+),")
_SENT: Final = re.compile(r"\bbytes_sent:(\d+)")


def parse(lines: Iterable[str], pid: int) -> Counter[int]:
    """Return the bytes that a process has sent, by the port of the peer, from the output of `ss`."""
    sent: Counter[int] = Counter()
    port: int | None = None
    for line in lines:
        peer = _PEER.match(line)
        if peer is not None:
            port = int(peer[1]) if int(peer[2]) == pid else None
        elif line[:1].isspace() and port is not None:
            found = _SENT.search(line)
            sent[port] += int(found[1]) if found is not None else 0
        else:
            port = None
    return sent


def sent_bytes(pid: int) -> Counter[int]:
    """Return the bytes that a process has sent on its open connections, by the port of the peer.

    Raises:
        DevstackError: `ss` is missing or has failed.
    """
    try:
        shown = subprocess.run(_COMMAND, capture_output=True, text=True, check=True)  # noqa: S603 - no input
    except (OSError, subprocess.CalledProcessError) as error:
        raise DevstackError(f"ss: {error}", "run `make system`, or install iproute2") from error
    return parse(shown.stdout.splitlines(), pid)
