"""Which status writes wait, and that a rollout of a pool with many bindings costs few of them."""

from dataclasses import replace

import pytest
from readonly_operator.assembly import reconcile as module
from readonly_operator.assembly.binding_status import report_status
from readonly_operator.assembly.brokers import BrokerReport
from readonly_operator.assembly.lookup_state import LookupState
from readonly_operator.assembly.reconcile import reconcile
from readonly_operator.assembly.status_throttle import BURST, MIN_INTERVAL_SECONDS, PER_SECOND, StatusThrottle
from readonly_operator.bindings.pool_bindings import PoolBindings
from readonly_operator.kube.kinds import BINDING, POOL
from readonly_operator.kube.names import PoolKey
from readonly_operator.model.lookup import LookupConfig

DEMO = PoolKey("team", "demo")


def status(number=1, reason="Held", generation=1, topics=None):
    condition = {"type": "Ready", "status": "True", "reason": reason, "message": f"{number} of 3"}
    found = {"observedGeneration": generation, "holdingBrokers": number, "conditions": [condition]}
    return found if topics is None else {**found, "matchedTopics": topics}


def body(before, uid="u"):
    return {"metadata": {"uid": uid}, "status": before}


@pytest.mark.parametrize(
    "after",
    [status(2, reason="BrokersUnreachable"), status(generation=2), status(topics=4)],
    ids=["reason", "spec", "topics"],
)
def test_a_change_that_users_wait_for_is_written_at_once(clock, after):
    throttle = StatusThrottle(clock)
    assert throttle.admits(body({}), status())
    assert throttle.admits(body(status()), after)
    assert not throttle.defers([body(status())])


def test_other_numbers_wait_for_a_while(clock):
    throttle = StatusThrottle(clock)
    assert throttle.admits(body({}), status())
    assert not throttle.admits(body(status()), status(2))
    assert throttle.defers([body(status())])
    assert not throttle.defers([body({}, "other")])
    clock.now += MIN_INTERVAL_SECONDS
    assert throttle.admits(body(status()), status(2))
    assert not throttle.defers([body(status())])


def test_numbers_that_are_the_former_ones_again_need_no_write(clock):
    throttle = StatusThrottle(clock)
    throttle.admits(body({}), status())
    throttle.admits(body(status()), status(2))
    assert throttle.admits(body(status()), status())
    assert not throttle.defers([body(status())])


def test_all_objects_together_have_a_rate(clock):
    throttle = StatusThrottle(clock)
    assert sum(throttle.admits(body(status(), str(one)), status(2)) for one in range(1000)) == BURST
    clock.now += 1
    assert sum(throttle.admits(body(status(), str(one)), status(2)) for one in range(1000)) == PER_SECOND


def reports(config, brokers, down=()):
    return [
        BrokerReport(f"demo-{one}", reachable=False, problem="it is ending")
        if one in down
        else BrokerReport(
            f"demo-{one}", reachable=True, revision=config.revision, bindings=frozenset(config.bindings), serving=True
        )
        for one in range(brokers)
    ]


def test_a_rollout_writes_few_statuses_and_no_binding_is_ever_not_ready(server, context, put, binding_body, clock):
    context = replace(context, status_throttle=StatusThrottle(clock))
    for number in range(120):
        put(BINDING, binding_body(f"b{number}", topics=[f"persistent://public/default/t{number}"]))
    written = []
    keep = server.apply_status
    server.apply_status = lambda manifest: written.append(manifest["status"]) or keep(manifest)

    def observe(down=()):
        bindings = PoolBindings.of(context.store, DEMO).good
        config = LookupConfig.of(binding for binding, _ in bindings)
        report_status(context, bindings, LookupState(config, 10, reports(config, 10, down)), {}, {})

    observe()
    assert len(written) == 120
    written.clear()
    clock.now += 600
    for broker in range(10):
        for down in ((broker,), ()):
            for _ in range(2):  # several events a pod
                observe(down)
                clock.now += 1
    assert len(written) <= BURST + PER_SECOND * 40, "10 brokers x 120 bindings x 2 changes are 2400"
    assert all(one["conditions"][0]["status"] == "True" for one in written)
    while context.status_throttle.defers(body for _, body in PoolBindings.of(context.store, DEMO).good):
        clock.now += MIN_INTERVAL_SECONDS
        observe()
    assert {server.status(BINDING, f"b{number}")["servingBrokers"] for number in range(120)} == {10}


def test_a_deferred_status_is_written_by_a_later_reconcile(
    server, context, put, pool_body, binding_body, clock, monkeypatch
):
    context = replace(context, status_throttle=StatusThrottle(clock))
    server.refuses = False
    put(POOL, pool_body(replicas=1))
    put(BINDING, binding_body())
    reconcile(context, DEMO)
    monkeypatch.setattr(module.finalizer, "hold_bindings", lambda *_: None)
    server.refuses = True  # the spec changes; the message has the error
    put(POOL, {**pool_body(replicas=2), "metadata": {**pool_body()["metadata"], "generation": 4}})
    reconcile(context, DEMO)
    message = server.status(BINDING, "orders")["conditions"][0]["message"]
    assert "exceeded quota" in message
    original = server.apply

    def refuse(manifest):
        try:
            return original(manifest)
        except Exception as error:
            error.args = ("another quota",)
            raise

    server.apply = refuse
    assert 0 < reconcile(context, DEMO).refresh_seconds <= MIN_INTERVAL_SECONDS
    assert server.status(BINDING, "orders")["conditions"][0]["message"] == message
    clock.now += MIN_INTERVAL_SECONDS
    reconcile(context, DEMO)
    assert "another quota" in server.status(BINDING, "orders")["conditions"][0]["message"]
