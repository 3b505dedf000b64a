"""Every timer, callback and task of a broker, and what an unexpected error in it ends."""

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import readonly_engine

ENGINE = Path(readonly_engine.__file__).parent
TOOLS = {"demo", "doctor", "sizing", "status", "subscriptions", "tool", "top"}
"""Packages of commands that are no brokers; their tasks are awaited."""

STARTS = {
    "call_later",
    "call_at",
    "call_soon",
    "call_soon_threadsafe",
    "create_task",
    "ensure_future",
    "add_done_callback",
}

PROCESS = "the process ends (ProcessGuard)"
AWAITED = "its callers get the error"
RESTARTS = "it is logged and starts again"
TRIVIAL = "it changes a container, or closes a transport; an error ends the process (ProcessGuard)"
LOGGED = "it is logged; the next one is due later"

ENDS = {
    "background.run_forever": RESTARTS,
    "background.end_with": "what the caller says",
    "background.must_not_fail": PROCESS,
    "bookkeeper.lac_follower.LacFollower._on_answer": PROCESS,
    "bookkeeper.lac_follower.LacFollower._tick": f"{PROCESS}; a probe: {LOGGED}",
    "bookkeeper.lac_follower.LacFollower._arm": PROCESS,
    "bookkeeper.pipeline.Pipeline._send": "@ends",
    "bookkeeper.pipeline.Pipeline._expire": "@ends",
    "bookkeeper.pool._Connections.get": AWAITED,
    "bookkeeper.reads._all_or_none": AWAITED,
    "bookkeeper.speculative_read.speculative_read": AWAITED,
    "broker.consumer.client_consumer.ClientConsumer._close": PROCESS,
    "broker.cursors.partition.CursorPartition._change": AWAITED,
    "broker.cursors.local_cursors.LocalCursors.open": AWAITED,
    "broker.cursors.local_cursors.LocalCursors.end": "the claim is released in any case",
    "broker.cursors.local_subscription.LocalSubscription._change_active": "@ends",
    "broker.cursors.owner_access.OwnerAccess.connection": AWAITED,
    "broker.cursors.owner_access.OwnerAccess._check_authorized": "the consumer",
    "broker.cursors.store.CursorStore.call_when_stored": "@ends",
    "broker.cursors.store.CursorStore._schedule": "the store (_begin)",
    "broker.cursors.store.CursorStore._begin": "@ends",
    "broker.cursors.store.CursorStore._committed": "the store",
    "broker.passthrough.policy.PassThroughPolicy.statistics": AWAITED,
    "broker.pool.claim_store.ClaimStore._run_in_background": PROCESS,
    "broker.server.broker.Broker.spawn": "it is logged; a connection's ends the connection",
    "broker.server.drain._all": AWAITED,
    "broker.session.client_consumers.ClientConsumers.subscribe": "@ends",
    "broker.session.client_producers.ClientProducers.create": "@ends",
    "broker.session.client_requests.ClientRequests.serve": "@ends",
    "broker.session.client_requests.ClientRequests.close": "@ends",
    "broker.session.connection.ClientConnection.probe": "@ends",
    "broker.session.connection.ClientConnection._watch": "@ends",
    "broker.session.connection.ClientConnection.spawn": "@ends",
    "broker.session.producer.ProxiedProducer.start": "@ends",
    "broker.session.producer_connections.ProducerConnections.on_producer_left": "@ends",
    "broker.session.topic_watcher.TopicWatcher.on_connection_lost": "@ends",
    "broker.session.transport.ClientTransport.close": TRIVIAL,
    "broker.split.registry.SplitSubscriptions.wait_all_ended": AWAITED,
    "broker.split.runner.SplitRunner.touch": "@ends",
    "broker.split.runner.SplitRunner._call_within": "@ends",
    "broker.split.runner.SplitRunner._fail": PROCESS,
    "broker.split.runner.SplitRunner._spawn": "@ends",
    "broker.subscription.batch_index_acks.BatchIndexAckStore.mark": LOGGED,
    "broker.subscription.batch_index_acks.BatchIndexAckStore.save": AWAITED,
    "broker.subscription.batch_index_acks.BatchIndexAckStore._sweep_if_due": LOGGED,
    "broker.subscription.delivery.DeliveryLoop.read_more": "@ends",
    "broker.subscription.delivery.DeliveryLoop._schedule_read": "@ends",
    "broker.subscription.pause.Pausable.refresh": "the consumers (DeliveryLoop._task_ended)",
    "broker.subscription.subscription.Subscription.active_changed": "the consumers (DeliveryLoop._task_ended)",
    "broker.subscription.subscription.Subscription._activate": AWAITED,
    "broker.subscription.topics._after_sample_interval": PROCESS,
    "broker.tail.owner_probes.OwnerProbes._start": PROCESS,
    "broker.tail.tail_consumer.TailConsumer.policies_changed": "@ends",
    "broker.tail.tail_consumer.TailConsumer.consumer_left": "@ends",
    "broker.tail.tail_consumer.TailConsumer._leave_unused": "@ends",
    "broker.tail.tail_consumer.TailConsumer._begin": "@ends",
    "broker.tail.tail_consumer.TailConsumer._poll_bookies_soon": "@ends",
    "broker.tail.tail_consumer.TailConsumer._later": "the pushes: it gets methods with @ends",
    "broker.tail.tail_consumer.TailConsumer._ack_due": "@ends",
    "broker.tail.tail_consumer.TailConsumer.on_entries": "@ends",
    "broker.tail.tail_consumer.TailConsumer._check_later": "@ends",
    "broker.tail.tail_consumer.TailConsumer._check": "@ends",
    "http.backlog_age.BacklogAges.measure": LOGGED,
    "http.bound.BoundTopics._refresh": AWAITED,
    "http.exposition.Exposition.text": AWAITED,
    "http.guard._Connection._set_deadline": PROCESS,
    "http.guard._Connection.secure": PROCESS,
    "http.loop_delay.EventLoopDelay.start": PROCESS,
    "http.process_metrics.ProcessMetrics.text": AWAITED,
    "http.status.members.MemberReader._round": AWAITED,
    "lease_guard.LeaseGuard.start": PROCESS,
    "metadata.oxia.store.OxiaStore._register_all": PROCESS,
    "metadata.watchers.Watchers._fired": PROCESS,
    "metadata.watches.NodeWatch.refresh": RESTARTS,
    "metadata.watches.Refreshes.begin": PROCESS,
    "metadata.watches.NodeWatch._retry_later": RESTARTS,
    "metadata.watches.NodeWatch.poll": RESTARTS,
    "metadata.watches.PollRounds._schedule": PROCESS,
    "metadata.zookeeper.ZooKeeperStore._end_session.end": "sets an event",
    "metadata.zookeeper.ZooKeeperStore._state_changed": PROCESS,
    "metadata.zookeeper.ZooKeeperStore._connected_again": PROCESS,
    "metadata.zookeeper_requests.ZooKeeperRequests.answer_of": PROCESS,
    "net.frame_slicer.FrameSlicer._process_slice": "the connection (ClientConnection._process_later)",
    "net.keep_alive.KeepAlive.start": PROCESS,
    "net.write_coalescer.WriteCoalescer.add": "the write of one client, which is logged",
    "owner.connection.OwnerConnection.close": TRIVIAL,
    "owner.connection.OwnerConnection._notify": LOGGED,
    "owner.connection.OwnerConnection._check_alive": "@ends",
    "owner.connection.OwnerConnection.connection_made": "@ends",
    "owner.consumer.OwnerConsumer.send_acks": PROCESS,
    "owner.consumer.OwnerConsumer._on_owner_lost": "the consumer",
    "owner.directory.OwnerDirectory._admit": AWAITED,
    "owner.directory.OwnerDirectory._auth_attempt_done": TRIVIAL,
    "owner.directory.OwnerDirectory.owner_of": TRIVIAL,
    "owner.grouped_acks.GroupedAckSender._schedule": PROCESS,
    "owner.identity_session.IdentitySession.connection": "@ends",
    "owner.identity_session.IdentitySession._close_later": "@ends",
    "owner.identity_session.IdentitySession.on_challenge": "@ends",
    "owner.identity_session.IdentitySession.on_probe": "@ends",
    "owner.identity_session.IdentitySession._probe_some": "@ends",
    "owner.identity_session.IdentitySession._apply_credentials": "@ends",
    "owner.requests.OwnerRequests.send": "@ends",
    "owner.requests.OwnerRequests._await_until": "@ends",
    "owner.requests.OwnerRequests._expire": "@ends",
    "owner.single_flight.SingleFlight.run": AWAITED,
    "tiered.storage.TieredStorage.open": AWAITED,
    "tiered.windows.WindowCache._start": AWAITED,
    "topic.max_read_position.MaxReadPosition.request": LOGGED,
    "topic.reading.TopicReader._next": AWAITED,
    "topic.shared_reads.SharedReads._start": AWAITED,
    "topic.tail_notifier.TailNotifier._schedule": RESTARTS,
    "topic.tail_polls.TailPolls.follow": PROCESS,
    "topic.tail_notifier.TailNotifier._dispatch": RESTARTS,
    "topic.tail_notifier.TailNotifier._permitted": RESTARTS,
    "topic.tail_notifier.TailNotifier._failed": RESTARTS,
    "topic.tail_notifier.TailNotifier._call": RESTARTS,
    "topic.transactions.TopicTransactions.advance": LOGGED,
    "waiting.wait_until_done": TRIVIAL,
    "wake.server.WakeServer.schedule": PROCESS,
    "wake.server.WakeServer._on_timer": PROCESS,
    "workers.parent.Parent._supervise": AWAITED,
    "workers.parent.Parent._metrics": AWAITED,
}
"""What ends with an unexpected error in a callback or task, by the function that starts it. `@ends`: what the decorator of the
called method names."""


def _starts() -> Iterator[tuple[str, ast.Call]]:
    """Yield the calls that start a timer, a callback or a task, each with the function around it."""
    for path in sorted(ENGINE.rglob("*.py")):
        module = path.relative_to(ENGINE).with_suffix("").parts
        if module[0] not in TOOLS:
            yield from _starts_in(ast.parse(path.read_text(encoding="utf-8")), module)


def _starts_in(node: ast.AST, around: tuple[str, ...]) -> Iterator[tuple[str, ast.Call]]:
    for child in ast.iter_child_nodes(node):
        inside = around
        if isinstance(child, (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            inside = (*around, child.name)
        elif isinstance(child, ast.Call) and getattr(child.func, "attr", getattr(child.func, "id", "")) in STARTS:
            yield ".".join(around), child
        yield from _starts_in(child, inside)


def _guarded() -> dict[str, Callable[..., None]]:
    """Return the methods with the decorator `ends`, by their full names."""
    found = {}
    for module in pkgutil.walk_packages([str(ENGINE)], "readonly_engine."):
        if module.name.split(".")[1] not in TOOLS:
            for _, kind in inspect.getmembers(importlib.import_module(module.name), inspect.isclass):
                for name, method in vars(kind).items():
                    if hasattr(method, "ends"):
                        found[f"{kind.__module__}.{kind.__qualname__}.{name}"] = method
    return found


GUARDED = _guarded()


def test_every_timer_callback_and_task_is_in_the_table() -> None:
    assert {name for name, _ in _starts()} == {*ENDS}


def test_what_the_table_says_to_be_guarded_is_guarded() -> None:
    names = {method.__qualname__.split(".")[-1] for method in GUARDED.values()}
    for name, call in _starts():
        function = getattr(call.func, "attr", "")
        if ENDS[name] == "@ends" and function not in {"create_task", "ensure_future"}:
            callback = ast.unparse(call.args[1 if function in {"call_later", "call_at"} else 0])
            assert any(one in callback for one in names), f"{name}: {callback}"


class _Failing:
    """Stands for any object: whatever a method looks at raises, but for the method that ends the object."""

    def __init__(self, end: str, ended: list[str]) -> None:
        first, _, rest = end.partition(".")
        self.__dict__[first] = _Failing(rest, ended) if rest else lambda: ended.append(first)

    def __getattr__(self, _name: str) -> Any:
        raise RuntimeError("injected")

    def __setattr__(self, _name: str, _value: object) -> None:
        raise RuntimeError("injected")

    def __call__(self, *_: object) -> None:
        raise RuntimeError("injected")


@pytest.mark.parametrize("name", GUARDED)
def test_an_error_in_a_guarded_callback_is_loud_and_ends_its_owner(name: str, caplog: pytest.LogCaptureFixture) -> None:
    method = GUARDED[name]
    end: str = method.ends  # type: ignore[attr-defined]
    ended: list[str] = []
    parameters = list(inspect.signature(method).parameters)[1:]
    method(_Failing(end, ended), *(_Failing("x", []) for _ in parameters))
    assert ended == [end.rsplit(".", maxsplit=1)[-1]]
    (record,) = caplog.records
    assert record.levelname == "ERROR"
    assert "injected" in str(record.exc_info and record.exc_info[1])


@pytest.mark.parametrize("name", GUARDED)
def test_what_ends_an_owner_exists(name: str) -> None:
    """At the class of the method itself, or of a connection of a client."""
    method = GUARDED[name]
    end: str = method.ends  # type: ignore[attr-defined]
    module, _, kind = name.rpartition(".")[0].rpartition(".")
    owner = getattr(importlib.import_module(module), kind)
    if end == "_client.abort":
        owner = importlib.import_module("readonly_engine.broker.session.connection").ClientConnection
    assert callable(getattr(owner, end.rpartition(".")[2]))
