"""Bytes by peer, from the output of ss."""

from __future__ import annotations

import os
import socket

from bench.traffic import parse, sent_bytes

SHOWN = """\
ESTAB 0      0         127.0.0.1:41000    127.0.0.1:6650  users:(("python",pid=7,fd=9))
\t cubic wscale:7,7 rto:204 bytes_sent:120 bytes_acked:121 bytes_received:5
ESTAB 0      0         127.0.0.1:41001    127.0.0.1:6650  users:(("python",pid=7,fd=10))
\t cubic bytes_sent:3
ESTAB 0      0         127.0.0.1:41002    127.0.0.1:6650  users:(("java",pid=8,fd=10))
\t cubic bytes_sent:1000
ESTAB 0      0      [::ffff:127.0.0.1]:41003  [::ffff:127.0.0.1]:2181  users:(("python",pid=7,fd=11))
\t cubic rto:1
LISTEN 0     5         127.0.0.1:6650     0.0.0.0:*  users:(("python",pid=7,fd=12))
\t cubic bytes_sent:77
"""


def test_bytes_of_one_process_by_port():
    assert parse(SHOWN.splitlines(), 7) == {6650: 123, 2181: 0}
    assert parse(SHOWN.splitlines(), 8) == {6650: 1000}
    assert not parse([], 7)


def test_this_process_has_sent_what_it_sent():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as client, server.accept()[0] as peer:
            client.sendall(b"x" * 1000)
            assert peer.recv(1000, socket.MSG_WAITALL)
            assert sent_bytes(os.getpid())[port] == 1000
