"""A link between two network interfaces that delays each frame, and counts bytes by sender and receiver.

`python -m tests.integration.pools.delayed_link ONE OTHER SECONDS` forwards until its standard input ends. It answers each
line of input with the bytes so far, as JSON: {"FROM TO": bytes}, IPv4 addresses. It replaces the queueing discipline netem,
which not every kernel has.
"""

import json
import select
import socket
import sys
import time
from collections import Counter, deque
from typing import Final

ETH_P_ALL: Final = 3
SO_RCVBUFFORCE: Final = 33
SOL_PACKET: Final = 263
PACKET_VNET_HDR: Final = 15
PACKET_IGNORE_OUTGOING: Final = 23
VNET_HEADER_BYTES: Final = 10
ETHERNET_HEADER_BYTES: Final = 14
IPV4: Final = b"\x08\x00"
MAX_FRAME_BYTES: Final = 1 << 17
BUFFER_BYTES: Final = 16 << 20
FRAMES_PER_TURN: Final = 64


def open_interface(name: str) -> socket.socket:
    """Return a socket that receives all frames of an interface, and sends frames on it."""
    found = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    found.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    found.setsockopt(SOL_PACKET, PACKET_IGNORE_OUTGOING, 1)
    found.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    found.bind((name, 0))
    found.setblocking(False)
    return found


def addresses(frame: bytes) -> str:
    """Return sender and receiver of an IPv4 packet, and an empty text for another frame."""
    begin = VNET_HEADER_BYTES + ETHERNET_HEADER_BYTES
    if frame[begin - 2 : begin] != IPV4:
        return ""
    return f"{socket.inet_ntoa(frame[begin + 12 : begin + 16])} {socket.inet_ntoa(frame[begin + 16 : begin + 20])}"


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def forward(one: socket.socket, other: socket.socket, delay_s: float) -> None:
    """Forward frames in both directions until the standard input ends."""
    peers = {one: other, other: one}
    waiting: deque[tuple[float, socket.socket, bytes]] = deque()  # in order, because all wait for the same time
    counted: Counter[str] = Counter()
    while True:
        pause = max(waiting[0][0] - time.monotonic(), 0.0) if waiting else None
        ready, _, _ = select.select([one, other, sys.stdin], [], [], pause)
        if sys.stdin in ready:
            if not sys.stdin.readline():
                return
            say(json.dumps(counted))
        for source in (one, other):
            if source in ready:
                for _ in range(FRAMES_PER_TURN):
                    try:
                        frame = source.recv(MAX_FRAME_BYTES)
                    except BlockingIOError:
                        break
                    waiting.append((time.monotonic() + delay_s, peers[source], frame))
        now = time.monotonic()
        while waiting and waiting[0][0] <= now:
            _, target, frame = waiting.popleft()
            try:
                target.send(frame)
            except OSError:  # the buffer is full; TCP sends it again
                continue
            counted[addresses(frame)] += len(frame) - VNET_HEADER_BYTES


def main() -> None:
    """Forward as the command line asks for."""
    one, other, delay_s = sys.argv[1:]
    ends = open_interface(one), open_interface(other)
    say("ready")
    forward(*ends, float(delay_s))


if __name__ == "__main__":
    main()
