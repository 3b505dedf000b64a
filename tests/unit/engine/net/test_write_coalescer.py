"""What goes out when a turn of the event loop is over."""

import asyncio
import logging

from readonly_engine.net.write_coalescer import WriteCoalescer


class Recorder:
    def __init__(self, *, broken: bool = False) -> None:
        self.flushed = 0
        self._broken = broken

    def flush(self) -> None:
        self.flushed += 1
        if self._broken:
            raise OSError("the socket is broken")


def test_all_are_flushed_once_the_turn_is_over_and_none_before(caplog):
    async def run():
        turn, all_of_them = WriteCoalescer(), [Recorder(), Recorder(broken=True), Recorder()]
        for sender in all_of_them:
            turn.add(sender)
        assert [sender.flushed for sender in all_of_them] == [0, 0, 0]
        await asyncio.sleep(0)
        assert [sender.flushed for sender in all_of_them] == [1, 1, 1]
        turn.add(all_of_them[0])
        await asyncio.sleep(0)
        assert all_of_them[0].flushed == 2

    with caplog.at_level(logging.ERROR):
        asyncio.run(run())
    assert "a client cannot be sent to" in caplog.text
