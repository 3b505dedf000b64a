"""A waker's conversation with one client, its state, and the bounds of its connections."""

import pytest
from readonly_engine.wake.arming import REARM_S, Arming
from readonly_engine.wake.connections import HALF_OPEN_S, LIFETIME_S, MAX_CONNECTIONS, WakeConnections
from readonly_engine.wake.session import WakeSession
from readonly_engine.wire.commands import body_of, decode_command, encode_command
from readonly_engine.wire.errors import FrameTooLargeError, MalformedFrameError
from readonly_engine.wire.framing import HANDSHAKE_FRAME_BYTES, LENGTH_BYTES, FrameSplitter
from readonly_engine.wire.pulsar_pb2 import BaseCommand

TOPIC = {"topic": "persistent://public/default/t"}
SUBSCRIBE = {**TOPIC, "subscription": "s", "consumer_id": 1, "request_id": 3}


def command(kind, **fields):
    made = BaseCommand(type=BaseCommand.Type.Value(kind))
    body = body_of(made)
    body.SetInParent()
    for name, value in fields.items():
        setattr(body, name, value)
    return encode_command(made)


CONNECT = command("CONNECT", client_version="c", protocol_version=19)


def connected():
    session = WakeSession()
    session.receive_data(CONNECT)
    return session


def answers(data):
    return [decode_command(frame)[0] for frame in FrameSplitter().receive_data(data)]


@pytest.mark.parametrize(("asked", "version"), [(19, 19), (99, 21), (0, 0)])
def test_connect_is_answered_with_the_lower_version_and_wakes_nobody(asked, version):
    reply = WakeSession().receive_data(command("CONNECT", client_version="c", protocol_version=asked))
    (answer,) = answers(reply.data)
    assert answer.type == BaseCommand.CONNECTED
    assert answer.connected.protocol_version == version
    assert (reply.connected, reply.wakes) == (True, False)


@pytest.mark.parametrize(
    ("kind", "fields", "wakes"),
    [
        ("LOOKUP", {**TOPIC, "request_id": 1}, True),
        ("PARTITIONED_METADATA", {**TOPIC, "request_id": 1}, True),
        ("GET_TOPICS_OF_NAMESPACE", {"namespace": "public/default", "request_id": 1}, True),
        ("SUBSCRIBE", SUBSCRIBE, True),
        ("PRODUCER", {**TOPIC, "producer_id": 1, "request_id": 1}, True),
        ("GET_LAST_MESSAGE_ID", {"consumer_id": 1, "request_id": 1}, True),
        ("GET_SCHEMA", {**TOPIC, "request_id": 1}, True),
        ("PONG", {}, False),
        ("CLOSE_CONSUMER", {"consumer_id": 1, "request_id": 1}, False),
        ("CLOSE_PRODUCER", {"producer_id": 1, "request_id": 1}, False),
    ],
)
def test_no_request_is_answered_and_those_for_a_broker_wake(kind, fields, wakes):
    session = connected()
    assert session.receive_data(command(kind, **fields)) == (b"", True, wakes)
    assert [one.type for one in answers(session.receive_data(command("PING") * 3).data)] == [BaseCommand.PONG]


def test_bytes_may_arrive_one_by_one():
    session = WakeSession()
    replies = [session.receive_data(bytes([byte])) for byte in CONNECT + command("LOOKUP", **TOPIC, request_id=1)]
    assert len([one for one in replies if one.data]) == 1
    assert [index for index, one in enumerate(replies) if one.wakes] == [len(replies) - 1]


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (command("LOOKUP", **TOPIC, request_id=1), MalformedFrameError, "LOOKUP before CONNECT"),
        (CONNECT * 2, MalformedFrameError, "CONNECT again"),
        (b"GET / HTTP/1.1\r\n\r\n", FrameTooLargeError, None),
        (b"\x00\x00\x00\x08\x00\x00\x00\x04\xff\xff\xff\xff", MalformedFrameError, "not a Pulsar command"),
        ((HANDSHAKE_FRAME_BYTES + 1).to_bytes(LENGTH_BYTES, "big"), FrameTooLargeError, None),
    ],
)
def test_anything_else_is_an_error(data, error, words):
    with pytest.raises(error, match=words):
        WakeSession().receive_data(data)


def test_a_frame_of_the_longest_length_is_awaited():
    data = HANDSHAKE_FRAME_BYTES.to_bytes(LENGTH_BYTES, "big") + bytes(HANDSHAKE_FRAME_BYTES - 1)
    assert WakeSession().receive_data(data) == (b"", False, False)


def test_a_waker_is_armed_again_a_minute_after_the_last_request():
    arming = Arming()
    assert (arming.armed, arming.next_timer()) == (True, None)
    assert [arming.on_request(now) for now in (10.0, 40.0)] == [True, False]
    assert arming.next_timer() == 40.0 + REARM_S
    for now, armed in ((40.0 + REARM_S - 0.001, False), (40.0 + REARM_S, True)):
        arming.on_timer(now)
        assert arming.armed is armed
    assert arming.next_timer() is None


def test_connections_end_in_their_time_those_without_connect_sooner():
    connections = WakeConnections()
    assert connections.next_timer() is None
    for at, name in enumerate("abc"):
        connections.add(name, float(at))
    connections.on_connected("a")
    assert connections.next_timer() == 1 + HALF_OPEN_S
    assert connections.on_timer(2 + HALF_OPEN_S - 0.001) == ["b"]
    assert connections.on_timer(2 + HALF_OPEN_S) == ["c"]
    assert connections.next_timer() == LIFETIME_S
    assert connections.on_timer(LIFETIME_S) == ["a"]
    assert (len(connections), connections.next_timer()) == (0, None)


@pytest.mark.parametrize(("silent", "closed"), [((), 0), ((3, 5), 3), ((MAX_CONNECTIONS - 1,), MAX_CONNECTIONS - 1)])
def test_one_too_many_closes_the_oldest_and_first_those_without_connect(silent, closed):
    connections = WakeConnections()
    for number in range(MAX_CONNECTIONS):
        assert connections.add(number, 0.0) is None
        if number not in silent:
            connections.on_connected(number)
    assert connections.add("new", 1.0) == closed
    assert len(connections) == MAX_CONNECTIONS
    assert "new" in connections
    assert closed not in connections
