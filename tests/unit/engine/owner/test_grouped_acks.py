"""GroupedAckSender on the event loop: consumers record acks, and answer them on demand."""

import asyncio

from readonly_engine.owner.grouped_acks import GroupedAckSender, ack_of_entries
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck

from tests.support.waiting import until


class Channel:
    def __init__(self):
        self.sent = []

    def send_acks(self, ids, answered):
        self.sent.append(([one.entry_id for one in ack_of_entries(ids).message_id], answered))


def ids(*entries):
    ack = CommandAck()
    for entry_id in entries:
        ack.message_id.add(ledger_id=1, entry_id=entry_id)
    return ack.SerializeToString()


def answer():
    return BaseCommand(type=BaseCommand.ACK_RESPONSE)


async def test_acks_without_an_answer_are_sent_again():
    sender, first, second = GroupedAckSender(), Channel(), Channel()
    sender.channel_opened(first, "line")
    sender.channel_opened(second, "line")
    sender.add(first, ids(5), 1)
    sender.flush("line")
    first.sent[0][1](None)
    await until(lambda: len(first.sent) > 1)
    sender.channel_closed(first)
    await until(lambda: second.sent)
    assert [entries for entries, _ in second.sent] == [[5]]


async def test_wait_for_acks_waits_for_earlier_acks_only():
    sender, channel = GroupedAckSender(), Channel()
    await sender.wait_for_acks()
    sender.channel_opened(channel, "line")
    assert sender.receipt()()
    sender.add(channel, ids(1), 1)
    receipt = sender.receipt()
    settled = asyncio.create_task(sender.wait_for_acks())
    await until(lambda: channel.sent)
    sender.add(channel, ids(2), 1)
    await until(lambda: len(channel.sent) > 1)
    channel.sent[1][1](answer())
    await asyncio.sleep(0)
    assert not settled.done()
    assert not receipt()
    sender.add(channel, ids(3), 1)
    channel.sent[0][1](answer())
    await settled
    assert receipt()
    assert not sender.receipt()()


async def test_forget_ends_wait_for_acks():
    sender, channel = GroupedAckSender(), Channel()
    sender.channel_opened(channel, "line")
    sender.add(channel, ids(1), 1)
    settled = asyncio.create_task(sender.wait_for_acks())
    await until(lambda: channel.sent)
    sender.forget()
    await settled
    channel.sent[0][1](None)
    assert not sender.unanswered.message_id
