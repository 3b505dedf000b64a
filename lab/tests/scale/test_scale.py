"""Counts of `make -C lab scale`, and its page."""

import datetime as dt
import json
from collections import Counter

import pytest

from longtests.scale import audit, report, stand_ins
from longtests.scale.__main__ import Phase
from longtests.scale.objects import Load
from longtests.scale.watching import ReadyChanges

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


def test_the_page_says_how_often_ready_changed_in_a_rollout():
    idle = Phase("no change", True, 120.0)
    rolled = Phase("roll", False, 12.0, Counter({"patch pools/status": 120}), 8.0, 109.6, 60, (20, 1), (0, 0))
    load = Load(20, 200, 4, (SOURCE,), 3)
    page = " ".join(report.text(load, [rolled, idle], 120.4, 5).split())
    assert "60 brokers were replaced, in at most 5 pools at the same time, with 2.0 status writes for each." in page
    assert "Ready became False in 20 of 20 pools, at most 1 times in one, and in 0 of 200 bindings." in page
    rolled.bindings = (7, 3)
    assert "and in 7 of 200 bindings, at most 3 times in one." in " ".join(
        report.text(load, [rolled, idle], 1, 5).split()
    )
    assert "rollout 60" not in report.text(load, [idle], 120.4)


def ready(uid: str, value: str | None) -> dict:
    conditions = [{"type": "Ready", "status": value}] if value else []
    return {"metadata": {"uid": uid}, "status": {"conditions": conditions}}


def test_only_a_change_from_true_counts():
    changes = ReadyChanges()
    for value in (None, "False", "True", "True", "Unknown", "False", "True", "False"):
        changes.take("MODIFIED", ready("a", value))
    for value in ("True", "False"):
        changes.take("MODIFIED", ready("b", value))
    changes.take("ADDED", ready("c", "True"))
    assert (changes.objects, changes.most) == (2, 2)


class Server:
    """Gets the status of pods."""

    def __init__(self) -> None:
        self.started = []

    def request(self, method, path, body, kind):
        self.started.append((method, path, body["status"]["podIP"]))


def pod(name: str) -> dict:
    volumes = [
        {"name": "pulsar-readonly-config", "configMap": {"name": "demo-config"}},
        {"name": "pulsar-readonly-bindings", "configMap": {"name": "demo-bindings"}},
    ]
    spec = {"volumes": volumes, "containers": [{"name": "broker", "image": "a:1"}]}
    return {"metadata": {"uid": name, "namespace": "n", "name": name}, "spec": spec}


def test_a_stand_in_starts_each_pod_once_and_holds_what_its_config_map_says(monkeypatch):
    class Now:
        def __init__(self, _seconds, function, arguments):
            self.start = lambda: function(*arguments)

    monkeypatch.setattr(stand_ins.threading, "Timer", Now)
    server = Server()
    nodes = stand_ins.Nodes(server)
    for name in ("demo-0", "demo-1", "demo-0"):
        nodes.pod("ADDED", pod(name))
    path = "/api/v1/namespaces/n/pods/{}/status"
    assert server.started == [
        ("PATCH", path.format("demo-0"), "127.1.0.1"),
        ("PATCH", path.format("demo-1"), "127.1.0.2"),
    ]
    assert nodes.answer("127.1.0.1") is None
    for revision in ("r1", "r2"):
        text = f"revision: {revision}\nbindings: [{{name: n/b, topics: [t]}}]"
        data = {"bindings.yaml": text}
        nodes.config_map("MODIFIED", {"metadata": {"namespace": "n", "name": "demo-bindings"}, "data": data})
        held = {"name": "n/b", "topics": ["t"], "matched": {"topics": 1, "partitions": 1}}
        assert json.loads(nodes.answer("127.1.0.2")) == {"revision": revision, "bindings": [held], "error": ""}
    ended = pod("demo-1")
    ended["status"] = {"podIP": "127.1.0.2"}
    nodes.pod("DELETED", ended)
    assert nodes.answer("127.1.0.2") is None
    assert nodes.answer("127.1.0.1") is not None


@pytest.mark.parametrize(("gone", "fails"), [(404, False), (409, False), (422, True)])
def test_a_pod_that_was_deleted_meanwhile_is_not_started(gone, fails):
    class Refusing:
        def request(self, method, path, body, kind):
            raise stand_ins.ScaleError(f"{method} {path}: {gone} because")

    nodes = stand_ins.Nodes(Refusing())
    if fails:
        with pytest.raises(stand_ins.ScaleError):
            nodes._start(pod("demo-0"), "127.1.0.1")
    else:
        nodes._start(pod("demo-0"), "127.1.0.1")
