"""Metrics of what a broker waits for, and of its own certificates and event loop."""

import os
import time
from types import SimpleNamespace

from readonly_engine.http import certificate_metrics, loop_delay
from readonly_engine.http.certificate_metrics import CertificateCollector
from readonly_engine.http.loop_delay import EventLoopDelay
from readonly_engine.http.owner_metrics import OwnerCollector
from readonly_engine.http.store_metrics import StoreCollector
from readonly_engine.net.durations import Durations
from readonly_engine.owner.durations import RequestDurations

from tests.support.waiting import until


def collected(collector):
    """Return the values of a collector's samples by name and labels."""
    return {(one.name, *one.labels.values()): one.value for family in collector.collect() for one in family.samples}


def test_the_answers_of_servers_are_counted_with_their_times():
    durations = RequestDurations()
    for seconds in (0.5, 1.5):
        durations.answered("SUBSCRIBE", seconds)
    name = "pulsar_readonly_owner_request_duration_seconds"
    assert collected(OwnerCollector(durations)) == {
        (f"{name}_count", "SUBSCRIBE"): 2,
        (f"{name}_sum", "SUBSCRIBE"): 2.0,
    }
    stores = SimpleNamespace(connected=True, denied=0, durations=durations.by_request["SUBSCRIBE"] + Durations())
    found = collected(StoreCollector(stores))
    name = "pulsar_readonly_metadata_store_request_duration_seconds"
    assert (found[f"{name}_count",], found[f"{name}_sum",]) == (2, 2.0)


def test_a_delay_of_the_event_loop_counts_up_to_its_bound():
    delay = EventLoopDelay()
    for seconds in (0.0, 0.02, 0.0201, 7.0):
        delay.observe(seconds)
    name = "pulsar_readonly_event_loop_delay_seconds"
    found = collected(delay)
    assert [found[f"{name}_bucket", bound] for bound in ("0.001", "0.02", "0.1", "2", "+Inf")] == [1, 2, 3, 3, 4]
    assert found[f"{name}_count",] == 4


async def test_a_timer_that_is_late_is_measured(monkeypatch):
    monkeypatch.setattr(loop_delay, "EVERY_S", 0.01)
    delay, seen = EventLoopDelay(), []
    monkeypatch.setattr(delay, "observe", seen.append)
    delay.start()
    time.sleep(0.1)
    await until(lambda: seen)
    delay.stop()
    assert seen[0] >= 0.05


def test_the_end_of_a_renewed_certificate_is_read_and_a_missing_one_has_none(tmp_path, monkeypatch):
    path, ends = tmp_path / "one.pem", [100.0]
    monkeypatch.setattr(certificate_metrics, "first_expiry", lambda _: ends[-1])
    collector = CertificateCollector({"tls-certificate": path})
    assert collected(collector) == {}
    for changed, end in ((1, 200.0), (2, 300.0)):
        path.touch()
        os.utime(path, ns=(changed, changed))
        ends.append(end)
        assert list(collected(collector).values()) == [end]
    ends.append(400.0)
    assert list(collected(collector).values()) == [300.0]  # the file is as before
