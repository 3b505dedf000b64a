import asyncio

from readonly_engine.owner.single_flight import SingleFlight


class Source:
    """Answers on demand, with the number of the request."""

    def __init__(self):
        self.sent = []

    async def send(self):
        answer = asyncio.get_running_loop().create_future()
        self.sent.append(answer)
        return await answer


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_callers_during_a_request_share_the_next_one():
    asking, source = SingleFlight(), Source()
    first = asyncio.create_task(asking.run("q", source.send))
    await turns()
    later = [asyncio.create_task(asking.run("q", source.send)) for _ in range(5)]
    other = asyncio.create_task(asking.run("p", source.send))
    await turns()
    assert len(source.sent) == 2, "the first, and the other question"
    source.sent[1].set_result("other")
    source.sent[0].set_result("early")
    assert (await first, await other) == ("early", "other")
    await turns()
    assert len(source.sent) == 3
    source.sent[2].set_result("late")
    assert await asyncio.gather(*later) == ["late"] * 5


async def test_a_cancelled_caller_does_not_cancel_the_request_of_others():
    asking, source = SingleFlight(), Source()
    gone, stays = [asyncio.create_task(asking.run("q", source.send)) for _ in range(2)]
    await turns()
    gone.cancel()
    await turns()
    source.sent[0].set_result("yes")
    assert await stays == "yes"
