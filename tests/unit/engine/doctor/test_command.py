"""The whole command against a cluster on loopback, and against nothing."""

import asyncio
import io
import json
import time
from contextlib import asynccontextmanager

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.doctor import command, examination
from readonly_engine.doctor.checks.finding import Result, worst
from readonly_engine.doctor.command import main, subjects_of
from readonly_engine.doctor.examination import Subjects, examine
from readonly_engine.doctor.progress import Progress
from readonly_engine.metadata.topic_name import parse_topic_name

from tests.support.waiting import until
from tests.unit.engine.doctor.played_cluster import (
    AdminApi,
    MemoryStore,
    MemoryStores,
    bookie_node,
    config_of,
    old_bookie,
    topic_node,
)
from tests.unit.engine.owner.played_brokers import Server

STORE = ["--metadata-store-url", "zk:127.0.0.1:1"]
UNREACHABLE = [*STORE, "--service-url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1"]
ORDERS = parse_topic_name("orders")


class Ended(BaseException):
    """The end of the process."""


@pytest.fixture
def ended(monkeypatch):
    """Runs the command; returns its exit status."""

    def end(status):
        raise Ended(status)

    monkeypatch.setattr(command, "exit_now", end)

    def run(*words):
        with pytest.raises(Ended) as caught:
            main(list(words))
        return caught.value.args[0]

    return run


def silent() -> Progress:
    return Progress(io.StringIO(), "doctor")


def by_check(findings):
    found: dict[str, list[str]] = {}
    for one in findings:
        found.setdefault(one.check, []).append(one.result.value)
    return found


@asynccontextmanager
async def played_cluster(monkeypatch, store=None, api=None):
    """A whole cluster on loopback; yields a configuration with its addresses."""
    broker = await Server(b"").start()
    async with (api or AdminApi()).serving() as url, old_bookie() as (host, port):
        held = store or MemoryStore({})
        held.nodes |= {
            "/managed-ledgers/public/default/persistent/orders": topic_node(),
            "/admin/policies/public/default": b"",
            "/admin/partitioned-topics": b"",
            "/ledgers/available/b": bookie_node(host, port),
        }
        monkeypatch.setattr("readonly_engine.doctor.clients.ClusterStores", lambda *_: MemoryStores(held))
        try:
            yield config_of(service_url=broker.url, admin_url=url)
        finally:
            broker.close()


def healthy_api() -> AdminApi:
    path = "persistent/public/default/orders"
    return AdminApi(
        **{
            "brokers/configuration/runtime": {"bookkeeperExplicitLacIntervalInMills": "200"},
            "brokers": [],
            f"{path}/internalStats": {},
            f"{path}/stats": {"subscriptions": {}},
            f"{path}/entryFilters": 204,
            f"{path}/replication": ["a"],
            "namespaces/public/default": {"replication_clusters": ["a"]},
        }
    )


async def test_a_healthy_cluster(monkeypatch):
    wanted = Subjects((ORDERS,), ("public/default",))
    store, api = MemoryStore({}), healthy_api()
    async with played_cluster(monkeypatch, store, api) as config:
        found = await examine(config, wanted, 20, silent())
    assert worst(found) is not Result.FAIL, [one for one in found if one.result is Result.FAIL]
    checks = by_check(found)
    assert checks["service URL"] == ["ok"]
    assert checks["topic owner"] == ["ok"]
    assert (checks["admin API"], checks["admin API rights"]) == (["ok"], ["ok"])
    assert (checks["Pulsar version"], checks["clock"]) == (["ok"], ["ok"])
    assert checks["metadata rights: write"] == ["ok", "ok"]
    assert checks["bookie"] == ["warn"]  # one before 4.17
    assert checks["explicit LAC"] == ["ok", "ok"]
    assert (checks["topic"], checks["namespace"], checks["passthrough"]) == (["ok"], ["ok"], ["ok", "ok"])
    assert checks["tiered storage"] == ["ok"]
    assert [one.check for one in found][:3] == ["configuration", "open files", "cores"]
    assert (store.closed, api.changes) == (True, 0)


async def test_a_store_that_is_away_leaves_the_other_checks(monkeypatch):
    from readonly_engine.metadata.errors import MetadataUnavailableError  # noqa: PLC0415

    store = MemoryStore({})
    store.failure = MetadataUnavailableError("no ZooKeeper answers")
    async with played_cluster(monkeypatch, store, healthy_api()) as config:
        checks = by_check(await examine(config, Subjects((ORDERS,), ("a/b",)), 20, silent()))
    assert (checks["metadata store"], checks["bookies"]) == (["fail"], ["fail"])
    assert (checks["topic"], checks["namespace"]) == (["fail"], ["fail"])
    assert (checks["service URL"], checks["admin API"], checks["explicit LAC"]) == (["ok"], ["ok"], ["ok"])


async def test_the_whole_command_ends_in_time(monkeypatch):
    store = MemoryStore({})
    store.slow = 60
    async with played_cluster(monkeypatch, store, healthy_api()) as config:
        began = time.monotonic()
        found = await examine(config, Subjects((ORDERS,)), 1, silent())
        assert time.monotonic() - began < 20  # not 60
    assert by_check(found)["metadata store"] == ["fail"]


async def test_a_defect_of_one_check_does_not_hide_the_others(monkeypatch):
    def broken(_config):
        raise RuntimeError("a defect")

    monkeypatch.setattr(examination, "observe_machine", broken)
    async with played_cluster(monkeypatch, api=healthy_api()) as config:
        found = await examine(config, Subjects(), 20, silent())
    (defect,) = [one for one in found if one.check == "machine"]
    assert (defect.result, defect.observed) == (Result.FAIL, "unexpected error: RuntimeError: a defect")
    assert by_check(found)["service URL"] == ["ok"]


def test_nothing_answers_and_the_file_has_unknown_keys(ended, capsys, monkeypatch, tmp_path):
    """The operator's file tells older brokers to ignore keys that they do not have."""
    monkeypatch.setattr("readonly_engine.metadata.zookeeper_requests.CONNECT_TIMEOUT_S", 0.3)
    file = tmp_path / "serve.yaml"
    file.write_text(
        "unknown-keys: warn\nnewer-key: 1\nservice-url: pulsar://127.0.0.1:1\nadmin-url: http://127.0.0.1:1\n"
    )
    assert ended("--config", str(file), *STORE, "--timeout", "5", "--output", "json") == 2
    document = json.loads(capsys.readouterr().out)
    first = document["findings"][0]
    assert (first["check"], first["subject"], first["result"]) == ("configuration", "newer-key", "warn")
    failed = {one["check"] for one in document["findings"] if one["result"] == "fail"}
    assert {"service URL", "admin API", "metadata store", "bookies"} <= failed
    assert all(one["remedy"] for one in document["findings"] if one["result"] != "ok")
    assert document["result"] == "fail"


def test_no_output_has_a_secret(ended, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("readonly_engine.metadata.zookeeper_requests.CONNECT_TIMEOUT_S", 0.3)
    (tmp_path / "token").write_text("a-secret-token")
    (tmp_path / "login").write_text("user:a-secret-password")
    words = [*UNREACHABLE, "--admin-token-file", str(tmp_path / "token")]
    words += ["--service-url", "pulsar://me:a-secret-word@127.0.0.1:1"]
    words += ["--metadata-store-login-file", str(tmp_path / "login"), "--bookie-login-file", str(tmp_path / "login")]
    assert ended(*words, "--timeout", "5") == 2
    shown = "".join(capsys.readouterr())
    assert "pulsar://***@127.0.0.1:1" in shown
    assert "a-secret" not in shown


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pool", "p"], "metadata-store-url is missing"),
        (["--config", "/nowhere"], "--config /nowhere: No such file"),
        ([*UNREACHABLE, "--topic", "x://y"], "--topic: topic 'x://y'"),
        ([*UNREACHABLE, "--namespace", "public"], "--namespace: must be TENANT/NAMESPACE, not 'public'"),
    ],
)
def test_invalid_settings_are_status_2(words, text, capsys):
    assert main(words) == 2
    assert text in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["--timeout", "0"], ["--timeout", "x"], ["--timeout", "nan"], ["--timeout", "601"], ["--output", "xml"]]
)
def test_wrong_usage_is_status_2(words, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*UNREACHABLE, *words])
    assert caught.value.code == 2
    assert "pulsar-readonly doctor" in capsys.readouterr().err


def test_topics_and_namespaces_are_checked_once():
    found = subjects_of(["orders", "persistent://public/default/orders"], ["a/b", "a/b"])
    assert found == Subjects((ORDERS,), ("a/b",))
    for name in ("a/b/c", "/b", "a/", "", "a/..", "./b", "a b/c", "a/b\x1b"):
        with pytest.raises(ConfigError, match="--namespace"):
            subjects_of([], [name])


async def test_progress_names_the_checks_that_still_run(monkeypatch):
    stream = io.StringIO()
    progress = Progress(stream, "doctor")
    progress.begin("bookies")
    progress.begin("DNS")
    progress.end("bookies")
    progress.end("never begun")
    assert progress.line(3.2) == "doctor: after 3 s still checking: DNS\n"
    monkeypatch.setattr("readonly_engine.doctor.progress.QUIET_S", 0.01)
    task = asyncio.ensure_future(progress.run())
    await until(lambda: "still checking: DNS\n" in stream.getvalue())
    task.cancel()
