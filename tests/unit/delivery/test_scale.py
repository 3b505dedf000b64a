"""Counts of `make scale`, and its page."""

from __future__ import annotations

import datetime as dt
import json
from collections import Counter

from tests.scale import audit, report
from tests.scale.__main__ import Phase
from tests.scale.objects import Load

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
SOURCE = {"serviceUrl": "pulsar://a:1", "adminUrl": "http://a:1", "metadataStoreUrl": "zk:a:1"}


def event(seconds: float, verb: str, resource: str, subresource: str = "", stage: str = "ResponseComplete") -> str:
    about = {"resource": resource, **({"subresource": subresource} if subresource else {})}
    at = (NOON + dt.timedelta(seconds=seconds)).isoformat().replace("+00:00", "Z")
    return json.dumps(
        {
            "stage": stage,
            "verb": verb,
            "requestURI": "/x",
            "objectRef": about,
            "requestReceivedTimestamp": at,
            "responseStatus": {"code": 200},
        }
    )


def test_each_request_is_counted_once(tmp_path):
    log = tmp_path / "audit.log"
    lines = [
        event(-1, "get", "pods"),
        event(0, "watch", "pods", stage="ResponseStarted"),
        event(0, "watch", "pods"),
        event(1, "patch", "readonlybrokerpools", "status"),
        event(2, "patch", "readonlybrokerpools", "status"),
        event(60, "get", "pods"),
    ]
    log.write_text("\n".join(lines) + "\n" + lines[0][:20])
    found = audit.between(log, NOON, NOON + dt.timedelta(seconds=60))
    assert found == Counter({"watch pods": 1, "patch readonlybrokerpools/status": 2})


def test_a_request_without_an_object_is_named_by_its_path():
    line = json.dumps(
        {
            "stage": "ResponseComplete",
            "verb": "get",
            "requestURI": "/apis?x=y",
            "requestReceivedTimestamp": NOON.isoformat(),
        }
    )
    assert [(one.verb, one.resource, one.code) for one in audit.parse([line])] == [("get", "/apis", 0)]


def test_bindings_are_spread_over_pools_and_none_claims_a_topic_of_another():
    load = Load(20, 200, 4, (SOURCE,))
    assert len(list(load.all_pools())) == 20
    per_pool = Counter((path, body["spec"]["poolRef"]["name"]) for path, body in load.all_bindings())
    assert set(per_pool.values()) == {10}
    assert len(per_pool) == 20
    topics = [body["spec"]["topics"][0] for _, body in load.all_bindings()]
    assert len(set(topics)) == 200
    assert sum(topic.endswith(".*") for topic in topics) == 20
    changed = dict(load.changes(20, "other"))
    made = {f"{path}/{body['metadata']['name']}" for path, body in load.all_bindings()}
    assert len(changed) == 20
    assert set(changed) <= made


def test_the_page_says_what_was_seen():
    idle = Phase("no change", True, 120.0, Counter({"watch pods": 9, "list pods": 1}), 0.5, 110.0)
    made = Phase("create everything", False, 12.0, Counter({"patch pools/status": 7, "get configmaps": 3}), 8.0, 109.6)
    page = report.text(Load(20, 200, 4, (SOURCE,)), [made, idle], 120.4)
    assert "| create everything | 12.0 s | 10 | 0 | 7 | 8.0 s | 110 MiB |" in page
    assert "| no change | (120 s) | 10 | 10 | 0 | 0.5 s | 110 MiB |" in page
    assert "it sent 5.0 requests per minute, all of them watches and lists." in page
    idle.requests["patch pools/status"] = 2
    assert "it sent 6.0 requests per minute.\n" in report.text(Load(20, 200, 4, (SOURCE,)), [made, idle], 120.4)
