"""Bounds of the names and lists in clients' commands.

Pulsar's binary protocol has no bound but the frame, 5 MiB. A broker keeps names, and its statistics and metrics repeat them. It
decodes and encodes lists again and again, while all other clients wait.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final

from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.wire.client_commands import CLIENT_COMMANDS
from readonly_engine.wire.commands import body_of
from readonly_engine.wire.pulsar_pb2 import ServerError

if TYPE_CHECKING:
    from readonly_engine.wire.pulsar_pb2 import BaseCommand

MAX_NAME_BYTES: Final = 8192
"""Bytes of a name in UTF-8. The admin API of a stock broker reads no longer URL (httpMaxRequestHeaderSize), so nobody could show
or delete a topic or subscription with a longer name. ZooKeeper refuses names from about 1 MB on (jute.maxbuffer)."""

MAX_ITEMS: Final = 2000
"""Items of a list in a request. A SUBSCRIBE with so many takes some 15 ms of the event loop; a frame has room for 870,000."""

_LENGTHS: Final = {
    kind: tuple((field, attrgetter(field)) for field in command.lists) for kind, command in CLIENT_COMMANDS.items()
}


def name_error(command: BaseCommand) -> OwnerRefusedError | None:
    """Return the error for a command with a name above MAX_NAME_BYTES or a list above MAX_ITEMS; None if it has none.

    Clients do not try again after this error.

    Args:
        command: a command of a client.
    """
    for field in CLIENT_COMMANDS[command.type].names:
        size = len(getattr(body_of(command), field).encode())
        if size > MAX_NAME_BYTES:
            code = ServerError.InvalidTopicName if field == "topic" else ServerError.NotAllowedError
            what = field.removesuffix("_name").replace("_", " ")
            return OwnerRefusedError(
                code, f"the name of the {what} has {size:,} bytes; give a name of at most {MAX_NAME_BYTES:,} bytes"
            )
    for field, items in _LENGTHS[command.type]:
        count = len(items(body_of(command)))
        if count > MAX_ITEMS:
            return OwnerRefusedError(
                ServerError.NotAllowedError, f"{field} has {count:,} items; give at most {MAX_ITEMS:,}"
            )
    return None
