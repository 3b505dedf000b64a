"""The malformed frames: every command in every way, and each wrong in the way that its name says."""

import pytest
from google.protobuf.message import DecodeError
from readonly_engine.wire import client_commands
from readonly_engine.wire.commands import body_of, decode_command
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import FRAME_BYTES, LENGTH_BYTES, FrameSplitter
from readonly_engine.wire.pulsar_pb2 import BaseCommand
from readonly_engine.wire.well_formed import check_command

from longtests.hostile.frames import CLIENT_COMMANDS, MALFORMED, SERVER_COMMANDS, make_command, malformed

TOPIC = "persistent://public/default/a"
TYPES = BaseCommand.DESCRIPTOR.enum_types_by_name["Type"].values_by_name
KNOWN = [name for name in CLIENT_COMMANDS if TYPES[name].number in BaseCommand.DESCRIPTOR.fields_by_number]


def test_every_command_is_a_clients_or_a_servers():
    assert {*CLIENT_COMMANDS, *SERVER_COMMANDS} == set(TYPES)
    assert not {*CLIENT_COMMANDS} & {*SERVER_COMMANDS}
    assert all(
        name.endswith("_RESPONSE") for name in SERVER_COMMANDS if name.removesuffix("_RESPONSE") in CLIENT_COMMANDS
    )
    assert {TYPES[name].number for name in CLIENT_COMMANDS} == set(client_commands.CLIENT_COMMANDS)


@pytest.mark.parametrize("name", KNOWN)
def test_a_right_command_is_one_that_the_engine_takes(name):
    command = BaseCommand.FromString(make_command(name, TOPIC))
    assert command.type == TYPES[name].number
    check_command(command)


@pytest.mark.parametrize("name", [*CLIENT_COMMANDS, *SERVER_COMMANDS])
def test_each_frame_is_malformed_as_it_says(name):
    right = make_command(name, TOPIC)
    frames = {how: malformed(name, how, TOPIC) for how in MALFORMED}
    total = {how: int.from_bytes(frame[:LENGTH_BYTES], "big") for how, frame in frames.items()}
    inner = {how: int.from_bytes(frame[LENGTH_BYTES : 2 * LENGTH_BYTES], "big") for how, frame in frames.items()}
    sent = {how: len(frame) - LENGTH_BYTES for how, frame in frames.items()}

    for how in ("cut", "inner-length", "unknown-fields", "other-body", "no-fields", "no-connect"):
        assert total[how] == sent[how]
        assert FrameSplitter().receive_data(frames[how]) == [frames[how][LENGTH_BYTES:]]
    assert frames["cut"][2 * LENGTH_BYTES :] == right[: len(right) // 2]
    with pytest.raises(MalformedFrameError):
        decode_command(frames["inner-length"][LENGTH_BYTES:])
    assert total["rest-missing"] > sent["rest-missing"]
    assert FrameSplitter().receive_data(frames["rest-missing"]) == []
    assert total["oversized"] == FRAME_BYTES + 1
    with pytest.raises(FrameTooLargeError):
        FrameSplitter().receive_data(frames["oversized"])
    assert frames["no-connect"][2 * LENGTH_BYTES :] == right
    assert inner["no-connect"] == len(right)

    if TYPES[name].number in BaseCommand.DESCRIPTOR.fields_by_number:
        extended, _ = decode_command(frames["unknown-fields"][LENGTH_BYTES:])
        own = body_of(BaseCommand.FromString(right))
        assert body_of(extended).SerializeToString().startswith(own.SerializeToString())
        assert extended.ByteSize() > len(right)
        other, _ = decode_command(frames["other-body"][LENGTH_BYTES:])
        assert other.type == TYPES[name].number
        assert body_of(other).ByteSize() == 0
        empty, _ = decode_command(frames["no-fields"][LENGTH_BYTES:])
        assert body_of(empty).ByteSize() == 0


def test_some_commands_are_no_commands_when_they_are_cut():
    cut = 0
    for name in CLIENT_COMMANDS:
        try:
            BaseCommand.FromString(malformed(name, "cut", TOPIC)[2 * LENGTH_BYTES :])
        except DecodeError:
            cut += 1
    assert cut > len(CLIENT_COMMANDS) // 2
