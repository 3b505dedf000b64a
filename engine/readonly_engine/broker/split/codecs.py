"""The codec of reports and grants for each type of split subscriptions. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from readonly_engine.broker.split.codec import decode_grant, decode_report, encode_grant, encode_report
from readonly_engine.broker.split.key_codec import (
    decode_key_grant,
    decode_key_report,
    encode_key_grant,
    encode_key_report,
)
from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from readonly_engine.broker.split.machines import AnyGrant, AnyReport


class Codec(NamedTuple):
    """The codec of one type; those that decode raise MalformedFrameError.

    Attributes:
        encode_report: returns a report as text.
        decode_report: returns the report in a text.
        encode_grant: returns a grant as bytes.
        decode_grant: returns the grant in bytes.
    """

    encode_report: Callable[[Any], str]
    decode_report: Callable[[str], AnyReport]
    encode_grant: Callable[[Any], bytes]
    decode_grant: Callable[[bytes], AnyGrant]


CODECS: Final[Mapping[int, Codec]] = {
    CommandSubscribe.Shared: Codec(encode_report, decode_report, encode_grant, decode_grant),
    CommandSubscribe.Key_Shared: Codec(encode_key_report, decode_key_report, encode_key_grant, decode_key_grant),
}
"""By CommandSubscribe.SubType: the types that can be split."""
