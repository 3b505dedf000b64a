# What wire/acks.py does, in C.

from readonly_engine.wire.acks import PlainAck

# None where an ack is not plain.
def decode_plain_ack(frame: bytes) -> PlainAck | None: ...
