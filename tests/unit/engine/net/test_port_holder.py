"""The process that has a port."""

import os
import socket
from pathlib import Path

from readonly_engine.net.port_holder import port_holder

TABLE = """  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1A2B 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 111 1 0 100 0 0 10 0
   1: 0100007F:1A2B 0100007F:9999 01 00000000:00000000 00:00000000 00000000     0        0 222 1 0 100 0 0 10 0
   2: short line
"""


def test_this_process_is_named_without_its_arguments() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        name = Path("/proc/self/comm").read_text().strip()
        assert port_holder(server.getsockname()[1]) == f"pid {os.getpid()} ({name})"


def test_a_process_that_may_not_be_seen_is_unknown(tmp_path: Path) -> None:
    assert port_holder(1, tmp_path) == ""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text(TABLE)
    assert port_holder(0x1A2B, tmp_path) == ""
