"""The plugin at its limits: brokers after a crash, silent brokers, texts of others, many pools, other versions, signals."""

import asyncio
import os
import signal
import time
from types import SimpleNamespace

import pytest
from readonly_engine.status.document import encode
from readonly_operator.kube.names import PoolKey
from readonly_operator.kubectl import command, doctor, next_steps, reading
from readonly_operator.kubectl.command import main
from readonly_operator.kubectl.connection import NO_HEADERS
from readonly_operator.kubectl.document import as_document
from readonly_operator.kubectl.errors import AnswerError, PluginError
from readonly_operator.kubectl.reading import Reader
from readonly_operator.kubectl.snapshot import ConditionView, broker_view
from readonly_operator.kubectl.top import PoolStatusReader

from tests.support.states import SMALL
from tests.unit.operator.kubectl.recorded import (
    BINDINGS,
    NAMESPACE,
    PODS,
    POOLS,
    Recorded,
    condition,
    items,
    pod,
    pool,
    refused,
    status_path,
    well,
)

KEY = PoolKey(NAMESPACE, "orders")


def crashed_before(name="orders-0", words="metadata-store-url: no answer"):
    """A pod that runs again, and is not ready."""
    body = pod(name, ready=False)
    container = body["status"]["containerStatuses"][0]
    container["state"] = {"running": {"startedAt": "2026-11-01T11:00:00Z"}}
    container["lastState"]["terminated"]["message"] = words
    return body


def test_a_broker_that_runs_again_after_a_crash_is_asked_and_can_be_checked():
    answers = {**well(), PODS: (200, items(crashed_before()))}
    found = Reader(Recorded(answers), NAMESPACE).snapshot("")
    (broker,) = found.pools[0].brokers
    assert broker.runs
    assert broker.observed[0].status == SMALL
    assert doctor.chosen(KEY, [crashed_before()], "")["metadata"]["name"] == "orders-0"
    (step,) = next_steps.of_pool(found.pools[0])
    assert "not ready: metadata-store-url: no answer. Try: kubectl logs orders-0 -n streaming --previous" in step
    assert as_document(found)["pools"][0]["brokers"][0]["problem"] == "metadata-store-url: no answer"


def test_words_of_a_container_control_no_terminal(monkeypatch, capsys):
    waiting = pod("orders-0", ready=False)
    waiting["status"]["containerStatuses"][0]["lastState"]["terminated"]["message"] = "\x1b[2J\u202eevil"
    with pytest.raises(PluginError) as raised:
        doctor.chosen(KEY, [waiting], "")
    (observed,) = Reader(Recorded(well()), NAMESPACE).observe([broker_view(waiting)])
    monkeypatch.setattr(command, "_status", lambda *_: (_ for _ in ()).throw(PluginError("a\x1b[2J\nb")))
    assert main(["status", "-n", "n"]) == 1
    for text in (str(raised.value), observed.error, capsys.readouterr().err.removesuffix("\n")):
        assert text.isprintable(), text


def test_top_goes_on_when_a_right_comes_back():
    answers = well()
    reader = PoolStatusReader(Reader(Recorded(answers), NAMESPACE), KEY)
    asyncio.run(reader.read())
    answers[status_path("orders-0")] = (403, refused("get", "pods/proxy"))
    assert "missing right: get pods/proxy" in asyncio.run(reader.read())[0].error
    answers[status_path("orders-0")] = (200, encode(SMALL))
    assert [one.status for one in asyncio.run(reader.read())] == [SMALL, SMALL]


class Slow(Recorded):
    """Brokers that answer late, or not before they are told so."""

    def __init__(self, answers, wait):
        super().__init__(answers)
        self.wait = wait

    def get(self, path, timeout_s=0.0, headers=NO_HEADERS):
        if "/proxy/" in path:
            self.asked.append(path)
            self.wait()
            raise AnswerError("no answer")
        return super().get(path, timeout_s, headers)


def many_silent(count=40):
    return {**well(), PODS: (200, items(*(pod(f"orders-{one}") for one in range(count))))}


def test_silent_brokers_hold_a_command_for_a_bounded_time(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(reading, "time", SimpleNamespace(monotonic=lambda: now[0]))
    api = Slow(many_silent(), lambda: now.append(now.pop() + reading.BROKERS_TIMEOUT_S))
    brokers = Reader(api, NAMESPACE).snapshot("").pools[0].brokers
    assert [one.observed[0].error for one in brokers] == ["no answer"] + [
        "not asked: the brokers before it took 20 s"
    ] * 39
    assert sum("/proxy/" in path for path in api.asked) == 1


def test_an_interrupt_of_top_does_not_wait_for_all_silent_brokers():
    api = Slow(many_silent(), lambda: time.sleep(0.2))

    async def run():
        task = asyncio.ensure_future(PoolStatusReader(Reader(api, NAMESPACE), KEY).read())
        while sum("/proxy/" in path for path in api.asked) < 2:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())  # it waits for the thread
    assert sum("/proxy/" in path for path in api.asked) <= 1 + 2 * reading.MAX_CONCURRENT_QUERIES


class Counted(dict):
    """A pod that counts how often it is looked at."""

    looks = 0

    def get(self, *arguments):
        Counted.looks += 1
        return super().get(*arguments)


def test_many_pools_look_at_each_pod_a_few_times():
    names = [f"pool-{one}" for one in range(300)]
    pods = [Counted(pod(f"{name}-{number}", pool_name=name)) for name in names for number in (0, 1)]

    class Api(Recorded):
        def list(self, path, selector, most):
            return (pods, False) if path == PODS else super().list(path, selector, most)

    Counted.looks = 0
    answers = {POOLS: (200, items(*map(pool, names))), BINDINGS: (200, items())}
    found = Reader(Api(answers), NAMESPACE).snapshot("")
    assert [len(one.brokers) for one in found.pools] == [2] * 300
    assert Counted.looks < 20 * len(pods)


def test_a_condition_of_an_unknown_type_needs_no_attention():
    assert not next_steps.is_bad(ConditionView("Degraded", "False", "Well"))
    assert not next_steps.is_bad(ConditionView("Degraded", "True", "Ill"))
    body = pool()
    body["status"]["conditions"].append(condition("Degraded", "False", "Well"))
    found = Reader(Recorded({**well(), POOLS: (200, items(body))}), NAMESPACE).snapshot("")
    assert next_steps.of_pool(found.pools[0]) == []


@pytest.mark.parametrize("answer", [(500, {"kind": "Status", "message": "etcd is away"}), (403, refused("list", "x"))])
def test_bindings_that_cannot_be_read_are_not_those_of_other_namespaces(answer):
    found = Reader(Recorded({**well(), BINDINGS: answer}), NAMESPACE).snapshot("")
    assert not any("of other namespaces" in note for note in found.notes)


def test_a_chart_has_no_json_form(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["status", "--topology", "--output", "json"])
    assert ended.value.code == 2
    assert "--topology: it has no form json" in capsys.readouterr().err


@pytest.mark.parametrize("said", ["../kube-system", "a b", "A", "\x1b[2J"])
def test_a_context_with_another_text_than_a_namespace_is_an_error(monkeypatch, said):
    monkeypatch.setattr(command, "output_of", lambda _: (0, said, ""))
    with pytest.raises(PluginError, match=r"the namespace of the context: .* must be a namespace") as raised:
        command._namespace(command.parser().parse_args(["status"]), ["kubectl"])
    assert "\x1b" not in str(raised.value)


@pytest.mark.parametrize("argv", [["status"], ["top", "orders", "--output", "json"]])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_command_leaves_the_connection(monkeypatch, number, argv):
    """So kubectl and its folder go too; without a handler this process would end here."""
    left, sent = [], []

    class Signalled(Recorded):
        def __init__(self, _):
            super().__init__(well())

        def __enter__(self):
            return self

        def __exit__(self, *_):
            left.append("left")

        def get(self, path, timeout_s=0.0, headers=NO_HEADERS):
            # top asks for them in a thread, while its loop waits; the thread may ask again after the command has ended
            if path.startswith(PODS) and not sent:
                sent.append(number)
                os.kill(os.getpid(), number)
            return super().get(path, timeout_s, headers)

    before = signal.getsignal(number)
    monkeypatch.setattr(command, "Connection", Signalled)
    monkeypatch.setattr(command, "output_of", lambda _: (0, NAMESPACE, ""))
    kept = signal.signal(number, lambda *_: left.append("not handled"))
    try:
        assert main(argv) == 130
    finally:
        signal.signal(number, kept)
    assert left == ["left"]
    assert signal.getsignal(number) is before


def test_nohup_stays_in_force(monkeypatch):
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with command._ended_by_signals():
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
