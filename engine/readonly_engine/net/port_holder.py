"""The process that listens on a TCP port of this machine, by /proc. It names the program, never its arguments."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")
_LISTEN: Final = "0A"
"""State of a listening socket (include/net/tcp_states.h)."""


def listening_inodes(table: str, port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port.

    Args:
        table: text of /proc/net/tcp or tcp6.
        port: the port.
    """
    rows = [line.split() for line in table.splitlines()[1:]]
    return {row[9] for row in rows if len(row) > 9 and row[3] == _LISTEN and int(row[1].rpartition(":")[2], 16) == port}


def port_holder(port: int, proc: Path = PROC) -> str:
    """Return the process that listens on a port, as `pid 42 (java)`; empty if it may not be seen.

    Args:
        port: the port.
        proc: where procfs is mounted.
    """
    inodes: set[str] = set()
    for name in ("tcp", "tcp6"):
        with suppress(OSError, ValueError):
            inodes |= listening_inodes((proc / "net" / name).read_text(encoding="ascii"), port)
    wanted = {f"socket:[{inode}]" for inode in inodes}
    for folder in proc.glob("[0-9]*/fd") if wanted else ():
        with suppress(OSError):  # another user's, or it has ended
            if any(str(entry.readlink()) in wanted for entry in folder.iterdir()):
                program = (folder.parent / "comm").read_text(encoding="utf-8", errors="replace").strip()
                return f"pid {folder.parent.name} ({''.join(filter(str.isprintable, program))})"
    return ""
