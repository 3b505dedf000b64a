"""Condition LocalCursors of bindings: which namespaces are checked, and what the checks come to."""

import pytest
from readonly_operator.assembly.local_cursors import local_cursors
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.cluster.cursor_limits import CursorLimits
from readonly_operator.cluster.local_cursors.checks import NamespaceReport
from readonly_operator.cluster.source import SourceReport
from readonly_operator.kube.events import of_conditions
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.kube.status import Condition, ConditionStatus

DEMO = PoolKey("team", "demo")
FINE, FORBIDDEN = NamespaceReport(), NamespaceReport(forbidden=True)
ENCRYPTED = Condition("LocalCursors", ConditionStatus.FALSE, "EncryptionRequired", "a/b: disable it")
LIMITED = Condition("LocalCursors", ConditionStatus.FALSE, "TopicLimit", "c/d: raise it")


@pytest.mark.parametrize(
    ("reports", "reason"),
    [
        ({}, "NotChecked"),
        ({"a/b": FINE}, "NotChecked"),
        ({"a/b": FINE, "c/d": FINE}, "Allowed"),
        ({"a/b": FINE, "c/d": FORBIDDEN}, "Allowed"),
        ({"a/b": FORBIDDEN, "c/d": FORBIDDEN}, None),
        ({"a/b": FINE, "c/d": NamespaceReport(problem="no answer in time")}, "SourceUnreachable"),
        ({"a/b": NamespaceReport((ENCRYPTED,)), "c/d": NamespaceReport(problem="x")}, "EncryptionRequired"),
    ],
)
def test_reasons(reports, reason):
    found = local_cursors(("a/b", "c/d"), reports)
    assert (found and found.reason) == reason


def test_every_obstacle_is_in_the_message_once():
    reports = {"a/b": NamespaceReport((ENCRYPTED, LIMITED)), "c/d": NamespaceReport((LIMITED,))}
    found = local_cursors(("a/b", "c/d"), reports)
    assert found.message == "a/b: disable it; c/d: raise it"
    assert [one.reason for one in of_conditions({}, [found])] == ["EncryptionRequired"]


def test_namespaces_with_local_cursors_are_checked(server, context, put, pool_body, binding_body, monkeypatch):
    server.refuses = False
    report = SourceReport((), cursor_limits=CursorLimits(partitions=8))
    monkeypatch.setattr(context.sources, "report", lambda _: report)
    put(POOL, pool_body(replicas=0, cursors="Local", cursorPartitions=4))
    owner = binding_body("owner", topics=["persistent://a/b/.*"])
    owner["spec"]["cursors"] = "Owner"
    put(BINDING, owner)
    put(BINDING, binding_body("local", topics=["persistent://c/d/.*", "persistent://e/f/x"]))
    context.cursor_checks.reports = {"c/d": FINE, "e/f": FINE}
    reconcile(context, DEMO)
    (request,) = context.cursor_checks.tracked[DEMO].values()
    assert (request.namespaces, request.partitions) == (("c/d", "e/f"), 4)
    assert request.limits == report.cursor_limits
    assert "LocalCursors" not in {one["type"] for one in server.status(BINDING, "owner")["conditions"]}
    (found,) = [one for one in server.status(BINDING, "local")["conditions"] if one["type"] == "LocalCursors"]
    assert (found["status"], found["reason"]) == ("True", "Allowed")


def test_a_binding_can_have_them_alone_and_keeps_the_last_result_after_a_restart(
    server, context, put, pool_body, binding_body
):
    server.refuses = False
    put(POOL, pool_body(replicas=0))
    body = binding_body()
    body["spec"]["cursors"] = "Local"
    put(BINDING, body)
    context.cursor_checks.reports = {"public/default": NamespaceReport((ENCRYPTED,))}
    reconcile(context, DEMO)
    assert "cursors: Local" in next(iter(server.objects["ConfigMap", "demo-bindings"]["data"].values()))
    before = server.status(BINDING, "orders")
    context.cursor_checks.reports = {}
    reconcile(context, DEMO)
    assert server.status(BINDING, "orders") == before
