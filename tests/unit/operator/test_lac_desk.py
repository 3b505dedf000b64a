"""What becomes of pools while the API server does not do what managing explicit LAC asks of it."""

from __future__ import annotations

import datetime as dt

import pytest
from readonly_operator.explicit_lac.desk import LacDesk
from readonly_operator.explicit_lac.seen import Note
from readonly_operator.fetch import ANONYMOUS
from readonly_operator.kinds import CONFIG_MAP, POOL, STATEFUL_SET
from readonly_operator.kube import KubeError
from readonly_operator.names import ANNOTATION_EXPLICIT_LAC, FINALIZER_WRITER, PoolKey
from readonly_operator.store import Store

NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)
STAMP = "2026-01-01T12:00:00Z"
DEMO = PoolKey("team", "demo")
TARGET = {"configMap": {"name": "broker", "key": "lac"}, "statefulSet": {"name": "broker"}}


class Immutable:
    """An API server whose ConfigMap of the writable brokers takes no change."""

    def get(self, kind, namespace, name):
        note = Note(200, "0", "uid-of-demo").text()
        metadata = {"name": name, "uid": "u", "resourceVersion": "1", "creationTimestamp": STAMP}
        if kind == CONFIG_MAP:
            return {"metadata": {**metadata, "annotations": {ANNOTATION_EXPLICIT_LAC: note}}, "data": {"lac": "200"}}
        if kind == STATEFUL_SET:
            return {"metadata": metadata, "spec": {"replicas": 0, "template": {"spec": {}}}}
        return None

    def may(self, right):
        return True

    def merge(self, manager, kind, namespace, name, patch):
        raise KubeError("field is immutable when `immutable` is set", 422)


@pytest.mark.parametrize(("waited", "released"), [(dt.timedelta(0), False), (dt.timedelta(minutes=10), True)])
def test_a_deletion_ends_where_the_config_map_takes_no_change(pool_body, waited, released):
    body = pool_body(explicitLac={"management": "Manage", "target": TARGET, "onDeletion": "Restore"})
    body["spec"]["source"]["adminUrl"] = "http://127.0.0.1:1"
    body["metadata"] |= {"deletionTimestamp": STAMP, "finalizers": [FINALIZER_WRITER], "creationTimestamp": STAMP}
    store = Store()
    store.put(POOL, body)
    desk = LacDesk(Immutable(), store, 60, lambda: NOON + waited, lambda _: None, lambda _: None, lambda _: ANONYMOUS)
    desk.look()
    report = desk.report(DEMO)
    assert report.released is released
    assert report.condition is not None
    assert "immutable" in report.condition.message
