"""Each field that a client can set has a range, and its extremes are decoded and checked within bounds."""

import time
from contextlib import suppress

import pytest
from readonly_engine.broker.session.name_bounds import name_error
from readonly_engine.wire.acks import decode_plain_ack
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.errors import WireError
from readonly_engine.wire.framing import FRAME_BYTES, FrameSplitter
from readonly_engine.wire.list_bounds import find_long_lists
from readonly_engine.wire.long_acks import LONG_BYTES, split_long
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.well_formed import check_command

from longtests.hostile.fields import RANGES, extremes, messages_of_clients
from longtests.hostile.frames import CLIENT_COMMANDS

TOPIC = "persistent://public/default/a"
BOUND_S = 0.02


def test_every_field_of_every_command_has_a_range():
    assert {message: {*fields} for message, fields in RANGES.items()} == {
        message: {*found.fields_by_name} for message, found in messages_of_clients().items()
    }


@pytest.mark.parametrize("name", CLIENT_COMMANDS)
def test_the_extremes_of_a_command_are_decoded_or_refused_in_time(name):
    """In at most 20 ms of the processor; the frame limit holds."""
    frames = list(extremes(name, TOPIC))
    reached = {part for one in frames for part in one.field.split(" > ")}
    body = next((one for one in BaseCommand.DESCRIPTOR.fields if one.number == BaseCommand.Type.Value(name)), None)
    if body is not None and body.message_type is not None:
        assert {f"{body.message_type.name}.{field.name}" for field in body.message_type.fields} <= reached
    for one in frames:
        assert len(one.frame) <= FRAME_BYTES
        (frame,) = FrameSplitter().receive_data(one.frame)
        assert min(longest_turn(frame) for _ in range(2)) < BOUND_S, one[:3]


def longest_turn(frame):
    """Seconds of the processor of the longest turn in which a connection decodes and checks a frame, or a part of it."""
    begin, longest = time.thread_time(), 0.0
    try:
        parts = split_long(frame) if len(frame) > LONG_BYTES else None
    except WireError:
        parts = iter(())
    for part in iter([frame]) if parts is None else parts:
        with suppress(WireError):
            if parts is not None or len(part) <= LONG_BYTES or find_long_lists(part) is None:
                decode_plain_ack(part)
                command, end = decode_command(part)
                if len(part) <= LONG_BYTES or name_error(command) is None:
                    check_command(command)
                assert end == len(part)
        longest = max(longest, time.thread_time() - begin)
        begin = time.thread_time()
    return longest
