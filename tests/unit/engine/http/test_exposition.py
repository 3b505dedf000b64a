"""An exposition made in slices: the same text as in one piece, once for all simultaneous requests, and within a share of time."""

import asyncio
import itertools

import pytest
from prometheus_client.core import GaugeMetricFamily
from readonly_engine.http.exposition import SAMPLES_PER_PART, STEPS_PER_SAMPLE, Exposition, render
from readonly_engine.http.status.quota import BURST_S, PageQuota
from readonly_engine.http.status.slices import STEPS, Slices


def gauge(name, *labels):
    found = GaugeMetricFamily(name, "Text\nwith two lines", labels=["label"])
    for label in labels:
        found.add_metric([label], 1)
    return found


async def given(*metrics):
    for metric in metrics:
        yield metric


def test_the_event_loop_has_a_turn_after_each_part():
    slices, pauses = Slices(), []
    slices.pause = lambda: pauses.append(slices.steps) or Slices.pause(slices)
    parts = [gauge("a", *map(str, range(SAMPLES_PER_PART))) for _ in range(20)]
    asyncio.run(render(given(*parts), slices))
    assert len(pauses) == 20
    assert max(later - earlier for earlier, later in itertools.pairwise([0, *pauses])) <= STEPS + STEPS_PER_SAMPLE


class Source:
    """Metrics whose number of collections is their value; `free` lets them end."""

    def __init__(self):
        self.collections = 0
        self.free = asyncio.Event()
        self.free.set()

    async def collect(self, _slices):
        self.collections += 1
        await self.free.wait()
        yield GaugeMetricFamily("collections", "Collections", value=self.collections)


@pytest.mark.parametrize("going", [0, 1, 50], ids=["none", "the first", "all but one"])
async def test_simultaneous_requests_share_an_exposition_and_clients_that_go_do_not_end_it(going, monkeypatch):
    monkeypatch.setattr(PageQuota, "charge", lambda *_: None)
    source = Source()
    source.free.clear()
    exposition = Exposition(source.collect)
    requests = [asyncio.create_task(exposition.text()) for _ in range(51)]
    await asyncio.sleep(0)
    for one in requests[:going]:
        one.cancel()
    await asyncio.sleep(0)
    source.free.set()
    assert b"collections 1.0" in await requests[50]
    assert b"collections 2.0" in await exposition.text()


async def test_requests_without_a_pause_get_the_last_exposition_until_their_share_of_time_is_back():
    source = Source()
    exposition = Exposition(source.collect)
    await exposition.text()
    exposition._quota.charge(2 * BURST_S)  # as after long collections
    assert [await exposition.text() for _ in range(100)] == [await exposition.text()] * 100
    assert source.collections == 1
    exposition._quota.charge(-2 * BURST_S)
    assert b"collections 2.0" in await exposition.text()
