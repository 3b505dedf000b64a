"""Messages of a login at a bookie, in BookKeeper's v3 protocol (AuthMessage of BookkeeperProtocol.proto)."""

from __future__ import annotations

from typing import NamedTuple

from google.protobuf.message import DecodeError

from readonly_engine.wire.bookkeeper_pb2 import AUTH, EOK, AuthMessage, PacketHeader, Request, Response
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import LENGTH_BYTES

_VERSION_THREE = 3


class AuthReply(NamedTuple):
    """A bookie's reply to a step of a login.

    Attributes:
        status: a StatusCode.
        plugin: the bookie's authentication provider.
        payload: the provider's message.
    """

    status: int
    plugin: str = ""
    payload: bytes = b""

    @property
    def ok(self) -> bool:
        """Whether the status is EOK."""
        return self.status == EOK


def encode_auth(txn_id: int, plugin: str, payload: bytes) -> bytes:
    """Encode a step of a login."""
    header = PacketHeader(version=_VERSION_THREE, operation=AUTH, txn_id=txn_id)
    frame = Request(header=header, auth_message=AuthMessage(plugin=plugin, payload=payload)).SerializeToString()
    return len(frame).to_bytes(LENGTH_BYTES, "big") + frame


def decode_auth_reply(frame: bytes) -> AuthReply:
    """Decode the reply to a step of a login.

    Raises:
        MalformedFrameError: not a v3 response.
    """
    response = Response()
    try:
        response.ParseFromString(frame)
    except DecodeError as error:
        raise MalformedFrameError("a bookie sent a frame that is not a v3 response") from error
    return AuthReply(response.status, response.auth_message.plugin, response.auth_message.payload)
