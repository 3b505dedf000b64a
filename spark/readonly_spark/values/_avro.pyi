# Avro payloads to Arrow columns in C (see native_avro.py).

from typing import Any

class Decoder:
    # Nodes: kind, column (-1 for none), index after the nodes below, and two numbers of the kind. Columns: kind, index after the
    # columns below. The first of each is the payload's. Both in the order of depth first.
    def __init__(
        self, nodes: list[tuple[int, int, int, int, int]], columns: list[tuple[int, int]], symbols: tuple[bytes, ...], /
    ) -> None: ...
    # Arguments: the buffers of an Arrow binary array (offsets, data, bitmap or None), its offset and its length. Result: for each
    # column the rows, the nulls, and its buffers (bitmap, offsets, data; None for none); None if a payload is not valid.
    def decode(
        self, offsets: Any, data: Any, valid: Any, first: int, rows: int, /
    ) -> list[tuple[int, int, Any, Any, Any]] | None: ...
