"""An owner that does not answer PRODUCER, or a SEND, with everything around the producer played."""

import asyncio
from types import SimpleNamespace

import pytest
from readonly_engine.broker.session import producer as producer_module
from readonly_engine.broker.session.producer import ProxiedProducer
from readonly_engine.wire.commands import decode_command
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandProducer, CommandProducerSuccess, ServerError

from tests.support.waiting import until

DEADLINE_S = 0.05


class Owner:
    """Keeps its answers back."""

    url = "pulsar://owner:6650"
    closed = False

    def __init__(self):
        self.answer = None
        self.closing = []

    def send_request(self, _command, answer):
        self.answer = answer
        return 7

    def add_producer(self, *_):
        pass

    remove_producer = forget = add_producer

    async def request(self, command):
        self.closing.append(command.type)

    def forward(self, _frame):
        """Take a SEND."""


class Scene:
    """A client, its producer and the owner."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(producer_module, "REQUEST_TIMEOUT_S", DEADLINE_S)
        monkeypatch.setattr(producer_module, "reject_unbound", lambda *_: None)
        self.owner, self.refused, self.sent = Owner(), [], []
        owners = SimpleNamespace(invalidate=lambda *_: None)
        services = SimpleNamespace(draining=False, spawn=asyncio.ensure_future, owners=owners)
        client = SimpleNamespace(
            services=services,
            client_version="raw",
            identity=None,
            refuse=lambda *words: self.refused.append(words),
            send=self.sent.append,
        )

        async def connect_to_owner(_topic):
            return self.owner

        connections = SimpleNamespace(connect_to_owner=connect_to_owner, on_producer_left=lambda _: None)
        producers = SimpleNamespace(connections=connections, on_created=lambda _: None, drop=lambda *_, **__: None)
        command = BaseCommand(
            type=BaseCommand.PRODUCER, producer=CommandProducer(topic="orders", producer_id=1, request_id=5)
        )
        self.producer = ProxiedProducer(client, producers, command)

    async def pass_deadline(self):
        """Let a timer fire that was set after that of the producer."""
        fired = asyncio.Event()
        asyncio.get_running_loop().call_later(2 * DEADLINE_S, fired.set)
        await fired.wait()


async def test_the_client_is_refused_and_the_owner_forgets_the_producer(monkeypatch):
    scene = Scene(monkeypatch)
    await scene.producer.start()
    await until(lambda: scene.owner.closing)
    assert scene.owner.closing == [BaseCommand.CLOSE_PRODUCER]
    why = f"{Owner.url} did not answer PRODUCER in {DEADLINE_S:g} s"
    assert scene.refused == [(5, ServerError.ServiceNotReady, why)]
    assert scene.producer.ended
    scene.owner.answer(None)
    assert len(scene.refused) == 1


@pytest.mark.parametrize("ready", [True, False], ids=["ready", "waits for exclusive access"])
async def test_after_the_first_answer_there_is_no_deadline(monkeypatch, ready):
    scene = Scene(monkeypatch)
    await scene.producer.start()
    success = CommandProducerSuccess(request_id=7, producer_name="a", producer_ready=ready)
    scene.owner.answer(BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=success))
    await scene.pass_deadline()
    assert len(scene.sent) == 1
    assert not scene.refused
    assert not scene.producer.ended


@pytest.mark.parametrize("answer", [BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR, None])
async def test_a_producer_whose_first_message_is_under_way_is_closed_after_its_receipt(monkeypatch, answer):
    """C++ clients ignore a receipt after CLOSE_PRODUCER. Their next producer would reuse the sequence ids of queued messages."""
    scene = Scene(monkeypatch)
    await scene.producer.start()
    success = CommandProducerSuccess(request_id=7, producer_name="a", producer_ready=True)
    scene.owner.answer(BaseCommand(type=BaseCommand.PRODUCER_SUCCESS, producer_success=success))
    scene.producer.start_draining()
    scene.producer.publish(b"the first message")
    closing = asyncio.ensure_future(scene.producer.close_for_reconnect())
    await asyncio.sleep(0)
    assert len(scene.sent) == 1
    if answer is None:
        scene.producer.on_connection_lost()
    else:
        scene.producer.on_command(BaseCommand(type=answer), b"")
    await closing
    sent = [decode_command(frame[4:])[0].type for frame in scene.sent[1:]]
    assert sent == [*([] if answer is None else [answer]), BaseCommand.CLOSE_PRODUCER]


@pytest.mark.parametrize("leave", ["close", "on_client_lost"])
async def test_a_client_that_leaves_is_refused_nothing(monkeypatch, leave):
    scene = Scene(monkeypatch)
    await scene.producer.start()
    left = getattr(scene.producer, leave)()
    if left is not None:
        await left
    await scene.pass_deadline()
    assert not scene.refused
