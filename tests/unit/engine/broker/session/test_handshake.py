"""Handshake, played: what a client sends goes in, what it is sent comes out. The CONNECTs are a real client's."""

import pytest
from readonly_engine import __version__
from readonly_engine.broker.session.handshake import AuthAnswer, ConnectRequest, Handshake, takes_entry_metadata
from readonly_engine.owner.identity import Identity
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.pulsar_pb2 import (
    AuthData,
    BaseCommand,
    CommandAuthResponse,
    CommandConnect,
    CommandConnected,
    CommandLookupTopic,
    FeatureFlags,
    ServerError,
)

OWNER = CommandConnected(
    server_version="Pulsar Server4.0.8",
    protocol_version=21,
    max_message_size=5 << 20,
    feature_flags=FeatureFlags(
        supports_topic_watchers=True, supports_get_partitioned_metadata_without_auto_creation=True
    ),
)


def connect(*, refresh=True, version=21, **fields):
    return BaseCommand(
        type=BaseCommand.CONNECT,
        connect=CommandConnect(
            client_version="c",
            protocol_version=version,
            feature_flags=FeatureFlags(supports_auth_refresh=refresh),
            **fields,
        ),
    )


def response(data, method="token"):
    return BaseCommand(
        type=BaseCommand.AUTH_RESPONSE,
        auth_response=CommandAuthResponse(response=AuthData(auth_method_name=method, auth_data=data)),
    )


def sent(frame):
    command, end = decode_command(frame[4:])
    assert 4 + end == len(frame)
    return command


def come_in(handshake, **fields):
    arrival = handshake.receive(connect(**fields))
    handshake.accept(OWNER)
    return arrival


@pytest.mark.parametrize(
    ("version", "flags", "takes"),
    [
        (18, {"supports_broker_entry_metadata": True}, True),
        (17, {"supports_broker_entry_metadata": True}, False),
        (21, {"supports_auth_refresh": True}, False),
        (21, None, False),
    ],
)
def test_a_client_takes_the_owners_metadata_of_entries_as_a_broker_sees_it(version, flags, takes):
    connect = CommandConnect(client_version="c", protocol_version=version)
    if flags is not None:
        connect.feature_flags.CopyFrom(FeatureFlags(**flags))
    assert takes_entry_metadata(connect) is takes


def test_a_client_is_let_in_as_its_credentials_were():
    handshake = Handshake()
    event = handshake.receive(connect(auth_method_name="token", auth_data=b"secret"))
    assert event == ConnectRequest(Identity("token", b"secret"))
    assert not handshake.connected
    connected = sent(handshake.accept(OWNER)).connected
    assert handshake.connected
    assert connected.server_version == f"pulsar-readonly-{__version__}"
    assert (connected.protocol_version, connected.max_message_size) == (21, 5 << 20)
    assert connected.feature_flags.supports_get_partitioned_metadata_without_auto_creation
    assert connected.feature_flags.supports_topic_watchers


@pytest.mark.parametrize(("version", "answered"), [(15, 15), (21, 21), (99, 21)])
def test_the_lower_protocol_version_counts(version, answered):
    handshake = Handshake()
    handshake.receive(connect(version=version))
    assert sent(handshake.accept(OWNER)).connected.protocol_version == answered


def test_a_feature_of_newer_owners_is_not_promised():
    """Flag 8 of 5.0 (supports_scalable_topics): a client that sees it sends commands that this broker does not know."""
    newer = CommandConnected.FromString(OWNER.SerializeToString())
    newer.feature_flags.MergeFromString(b"\x40\x01")
    assert newer.feature_flags.SerializeToString() != OWNER.feature_flags.SerializeToString()
    handshake = Handshake()
    handshake.receive(connect())
    told = sent(handshake.accept(newer)).connected.feature_flags
    assert told.SerializeToString() == OWNER.feature_flags.SerializeToString()


def test_a_real_clients_connect_comes_in_one_byte_at_a_time(golden):
    splitter, handshake = FrameSplitter(), Handshake()
    frames = [frame for byte in golden("client_connect") for frame in splitter.receive_data(bytes([byte]))]
    events = [handshake.receive(decode_command(frame)[0]) for frame in frames]
    assert events == [ConnectRequest(Identity("none"))]
    assert events[0].identity.anonymous


def test_a_refused_client_hears_the_owners_words():
    handshake = Handshake()
    handshake.receive(connect(auth_method_name="token", auth_data=b"wrong"))
    error = sent(handshake.refuse(ServerError.AuthenticationError, "Failed to authenticate")).error
    assert (error.request_id, error.error, error.message) == (-1, 3, "Failed to authenticate")
    assert not handshake.connected


def test_a_client_that_can_renew_is_asked_later_and_one_that_cannot_is_not():
    able, unable = Handshake(), Handshake()
    come_in(able, auth_method_name="token", auth_data=b"old")
    come_in(unable, auth_method_name="token", auth_data=b"old", refresh=False)
    question = AuthData(auth_method_name="token", auth_data=b"PulsarAuthRefresh")
    assert sent(able.challenge(question)).auth_challenge.challenge == question
    assert able.receive(response(b"new")) == AuthAnswer(b"new")
    assert unable.challenge(question) is None


def test_nobody_is_asked_before_saying_hello_or_after_being_refused():
    handshake = Handshake()
    assert handshake.challenge(AuthData(auth_data=b"q")) is None
    handshake.receive(connect())
    handshake.refuse(ServerError.AuthenticationError, "no")
    assert handshake.challenge(AuthData(auth_data=b"q")) is None


def test_one_answer_for_one_question():
    handshake = Handshake()
    come_in(handshake)
    assert handshake.receive(response(b"unasked")) is None
    handshake.challenge(AuthData(auth_data=b"1"))
    handshake.challenge(AuthData(auth_data=b"2"))
    assert handshake.receive(response(b"a")) == AuthAnswer(b"a")
    assert handshake.receive(response(b"b")) == AuthAnswer(b"b")
    assert handshake.receive(response(b"c")) is None


@pytest.mark.parametrize(
    "command",
    [
        BaseCommand(type=BaseCommand.LOOKUP, lookup_topic=CommandLookupTopic(topic="t", request_id=1)),
        response(b"too early"),
        BaseCommand(type=BaseCommand.SUBSCRIBE),
    ],
    ids=["LOOKUP", "AUTH_RESPONSE", "SUBSCRIBE"],
)
def test_nothing_is_taken_before_connect(command):
    with pytest.raises(MalformedFrameError, match="before it was connected"):
        Handshake().receive(command)


@pytest.mark.parametrize("connected", [False, True])
def test_a_second_connect_ends_the_connection(connected):
    handshake = Handshake()
    handshake.receive(connect())
    if connected:
        handshake.accept(OWNER)
    with pytest.raises(MalformedFrameError, match="CONNECT again"):
        handshake.receive(connect(auth_method_name="token", auth_data=b"another"))


def test_who_speaks_for_others_keeps_speaking_for_them():
    event = Handshake().receive(
        connect(
            auth_method_name="token", auth_data=b"proxys", original_principal="bob",
            original_auth_method="basic", original_auth_data="bobs", proxy_version="4.0.8",
        )
    )  # fmt: skip
    assert event.identity == Identity("token", b"proxys", "bob", "basic", "bobs", "4.0.8")
    filled = CommandConnect()
    event.identity.apply_to(filled)
    assert Identity.of(filled) == event.identity
    assert event.identity.refreshable == b"bobs"
    assert event.identity.with_credentials(b"newer").original_auth_data == "newer"
    assert event.identity.with_credentials(b"newer").auth_data == b"proxys"


def test_credentials_are_never_printed():
    identity = Identity("token", b"secret-1", "bob", "basic", "secret-2")
    assert "secret" not in repr(identity)
    assert "secret" not in repr(ConnectRequest(identity))
    assert "secret" not in repr(AuthAnswer(b"secret"))
