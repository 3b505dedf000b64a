"""HTTP and TCP checks against servers of this machine that answer, answer badly, or do not answer."""

import contextlib
import json
import socket
import threading
import time

import pytest
from readonly_operator.api.pool import Source
from readonly_operator.cluster import fetch
from readonly_operator.cluster.source import SourceMonitor, active_brokers, check, health, lac_interval, send_to

from devstack.common.ports import free_port
from tests.support.played_http import played_http


@contextlib.contextmanager
def serving(answer: bytes, *, pause: threading.Event | None = None):
    """A server that sends these bytes to everyone, the second half only when `pause` is set."""
    listener = socket.create_server(("127.0.0.1", 0))
    stop = threading.Event()

    def serve():
        while not stop.is_set():
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                if pause is None:
                    connection.sendall(answer)
                else:
                    connection.sendall(answer[: len(answer) // 2])
                    pause.wait(10)

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        stop.set()
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join(timeout=15)


def http_answer(body: bytes, status: str = "200 OK") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status.encode(), len(body), body)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (http_answer(b"no\nsuch thing", "404 Not Found"), "HTTP 404 Not Found: no such thing"),
        (http_answer(b"", "503 Service Unavailable"), "HTTP 503 Service Unavailable"),
        (http_answer(b"<html>"), "the answer is not JSON"),
        (http_answer(b"[" * 100_000), "the answer is not JSON"),
        (b"SSH-2.0-OpenSSH\r\n", "SSH-2.0-OpenSSH"),
    ],
)
def test_bad_answers_say_what_they_are(answer, message):
    with serving(answer) as url, pytest.raises(fetch.FetchError) as caught:
        fetch.get_json(url, 5)
    assert str(caught.value).strip() == message


def test_an_answer_that_stops_half_way_ends_at_the_deadline():
    pause = threading.Event()
    with serving(http_answer(b'{"a": 1}' * 100), pause=pause) as url:
        with pytest.raises(fetch.FetchError, match="no answer in time"):
            fetch.get_json(url, 0.3)
        pause.set()


@contextlib.contextmanager
def dripping(line: bytes):
    """A server that sends a line every 50 ms, until its client leaves, or for 10 s."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ended = threading.Event()

        def serve():
            connection, _ = listener.accept()
            with connection, contextlib.suppress(OSError):
                for _ in range(200):
                    if ended.wait(0.05):
                        return
                    connection.sendall(line)

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            ended.set()
            thread.join(timeout=15)


@pytest.mark.parametrize("line", [b"HTTP/1.1 100 Continue\r\n\r\n", b"H"], ids=["continue", "status line"])
def test_a_server_that_sends_a_little_now_and_then_ends_at_the_deadline(line):
    with dripping(line) as url, pytest.raises(fetch.FetchError, match="no answer in time"):
        fetch.get(url, 0.5)


def test_a_name_with_many_silent_addresses_ends_at_the_deadline(monkeypatch):
    def many(*_, **__):
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("192.0.2.1", 1))] * 100

    def connect(self, _):
        asked.append(self)
        time.sleep(min(self.gettimeout(), 0.2))
        raise TimeoutError

    monkeypatch.setattr(socket, "getaddrinfo", many)
    monkeypatch.setattr(socket.socket, "connect", connect)
    for ask in (lambda: fetch.get("http://many.invalid/", 0.5), lambda: fetch.connect("many.invalid", 1, 0.5)):
        asked = []
        with pytest.raises(fetch.FetchError, match="no answer in time"):
            ask()
        assert len(asked) <= 3, "of 100"


def test_a_second_address_is_tried(monkeypatch):
    with serving(http_answer(b"[]")) as url:
        port = int(url.rpartition(":")[2])
        two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", one)) for one in (free_port(), port)]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: two)
        assert fetch.get_json("http://two.invalid/", 5) == []


@pytest.mark.parametrize("known", ["broker.shop", "broker"])
def test_a_short_name_is_that_of_a_service_in_the_pools_namespace(monkeypatch, known):
    """The operator runs in another namespace. A name that is not a Service there comes from the nodes' resolver."""
    asked = []

    def resolve(host, port, **_):
        asked.append(host)
        if host != known:
            raise socket.gaierror(socket.EAI_NONAME, "unknown")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    with serving(http_answer(b'["broker:8080"]')) as url:
        port = url.rpartition(":")[2]
        source = Source(f"pulsar://broker:{port}", f"http://broker:{port}", f"zk:broker:{port}").seen_from("shop")
        report = check(source, lambda source: fetch.Credentials(namespace=source.namespace))
        assert report.problems == ()
    assert asked == (["broker.shop"] if known == "broker.shop" else ["broker.shop", "broker"]) * 4


@pytest.mark.parametrize(
    ("urls", "shared"),
    [
        (("pulsar://b.x:1", "http://b.x:1", "zk:z.x:1"), True),
        (("pulsar://localhost:1", "http://127.0.0.1:1", "oxia://z.x:1/y"), True),
        (("pulsar://b:1", "http://b.x:1", "zk:z.x:1"), False),
        (("pulsar://b.x:1,b:1/", "http://b.x:1", "zk:z.x:1"), False),
        (("pulsar+ssl://b.x", "https://b/", "zk:z.x:1"), False),
        (("pulsar://b.x", "http://b.x:1", "zk:z.x:1,z:1/chroot"), False),
        (("pulsar://b.x", "http://b.x:1", "zk:z.x:1", "zk:z:1"), False),
    ],
)
def test_pools_of_two_namespaces_share_reports_only_without_short_names(urls, shared):
    one, other = (Source(*urls).seen_from(namespace) for namespace in ("dev", "stage"))
    assert (one == other) is shared


def test_a_url_with_a_blank_in_its_host_is_an_error_of_the_request():
    with pytest.raises(fetch.FetchError, match="control characters"):
        fetch.get("http://a b:1/", 1)


def test_a_huge_answer_is_cut(monkeypatch):
    monkeypatch.setattr(fetch, "MAX_BYTES", 10)
    with (
        serving(http_answer(b"[" + b"1," * 50 + b"1]")) as url,
        pytest.raises(fetch.FetchError, match="larger than 10 bytes"),
    ):
        fetch.get_json(url, 5)


@pytest.mark.parametrize(
    ("host", "port", "of_a_request", "of_a_connection"),
    [
        ("127.0.0.1", free_port(), "connection refused", "connection refused"),
        ("no-such-host.invalid", 1, "the host name does not resolve", "the host name does not resolve"),
        ("a..b", 1, "the host name does not resolve", "the host name does not resolve"),
        ("x" * 64 + ".example", 1, "the host name does not resolve", "the host name does not resolve"),
        ("127.0.0.1", 99999, "port out of range", "99999 is no port"),
    ],
)
def test_addresses_where_nobody_is(host, port, of_a_request, of_a_connection):
    with pytest.raises(fetch.FetchError, match=of_a_request):
        fetch.get(f"http://{host}:{port}/", 5)
    with pytest.raises(fetch.FetchError, match=of_a_connection):
        fetch.connect(host, port, 5)


def test_an_unreachable_cluster_is_told_field_by_field():
    port = free_port()
    report = check(Source(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{port}", f"zk:127.0.0.1:{port}/pulsar"))
    assert report.problems == (
        f"adminUrl http://127.0.0.1:{port}: connection refused",
        f"serviceUrl pulsar://127.0.0.1:{port}: connection refused",
        f"metadataStoreUrl zk:127.0.0.1:{port}/pulsar: connection refused",
    )
    assert report.intervals_ms == ()


def test_one_address_of_several_is_enough():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        good, bad = listener.getsockname()[1], free_port()
        source = Source(f"pulsar://127.0.0.1:{bad},127.0.0.1:{good}", f"http://127.0.0.1:{bad}", f"zk:127.0.0.1:{good}")
        assert [problem.split()[0] for problem in check(source).problems] == ["adminUrl"]


def test_an_admin_url_of_something_else_says_so():
    with serving(http_answer(b'{"hello": "world"}')) as url:
        port = url.rpartition(":")[2]
        problems = check(Source(f"pulsar://127.0.0.1:{port}", url, f"zk:127.0.0.1:{port}")).problems
    assert problems == (
        f"adminUrl {url}: the answer is not a list of brokers; is this the admin API of Pulsar brokers?",
    )


def test_the_monitor_reports_a_change_once_and_forgets_what_nobody_names():
    port = free_port()
    source = Source(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{port}", f"zk:127.0.0.1:{port}")
    changed = threading.Event()
    monitor = SourceMonitor(60, lambda _source: changed.set())
    monitor.start()
    try:
        assert monitor.report(source) is None
        assert changed.wait(10)
        assert len(monitor.report(source).problems) == 3
        monitor.keep(set())
        changed.clear()
        assert monitor.report(source) is None
        assert changed.wait(10)
    finally:
        monitor.stop()


@pytest.mark.parametrize(("bad", "fails"), [(2, False), (19, True)], ids=["no answer", "unknown errors"])
def test_bad_clusters_keep_no_other_waiting(bad, fails):
    port = free_port()
    good, *others = (
        Source(f"pulsar://127.0.0.1:{port}", f"http://127.0.0.1:{port}", f"zk:127.0.0.1:{port}/{number}")
        for number in range(bad + 1)
    )
    checked, answer = threading.Event(), threading.Event()

    def credentials_for(source):
        if source is not good and fails:
            raise RuntimeError("nobody expects this")
        if source is not good:
            answer.wait(60)
        return fetch.ANONYMOUS

    monitor = SourceMonitor(60, lambda source: checked.set() if source == good else None, credentials_for)
    monitor.start()
    try:
        for source in (*others, good):
            monitor.report(source)
        assert checked.wait(30)
        assert fails or [monitor.report(source) for source in others] == [None, None]
    finally:
        answer.set()
        monitor.stop()


def redirect(location: str) -> bytes:
    return b"HTTP/1.1 307 Temporary Redirect\r\nContent-Length: 0\r\nLocation: %s\r\n\r\n" % location.encode()


def test_a_redirect_to_the_owner_is_followed():
    with serving(http_answer(b"[1]")) as owner, serving(redirect(f"{owner}/x?authoritative=true")) as url:
        assert fetch.send("GET", f"{url}/x", None, 5) == b"[1]"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://127.0.0.1:1/latest/meta-data", "it redirected to another path"),
        ("http://169.254.169.254/x", "it leads to an address of this machine or of a metadata service"),
        ("http://[::ffff:169.254.169.254]/x", "it leads to an address of this machine or of a metadata service"),
        ("ftp://127.0.0.1/x", "it redirected to ftp://127.0.0.1; expected http or https://HOST:PORT"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_redirect_leads_to_the_same_path_of_another_broker_only(method, location, reason):
    with serving(redirect(location)) as url, pytest.raises(fetch.FetchError, match=reason):
        fetch.send(method, f"{url}/x", None, 5)


def test_a_redirect_does_not_lead_to_this_machine(monkeypatch):
    """A name of the given host leads to loopback here, as that of a server elsewhere would lead to its address."""
    with serving(http_answer(b"secret")) as local, serving(redirect(f"{local}/x")) as url:
        known = socket.getaddrinfo
        monkeypatch.setattr(
            socket,
            "getaddrinfo",
            lambda host, *more, **options: known("127.0.0.1" if host == "pulsar.invalid" else host, *more, **options),
        )
        with pytest.raises(fetch.FetchError, match="it leads to an address of this machine"):
            fetch.send("GET", f"http://pulsar.invalid:{url.rpartition(':')[2]}/x", None, 5)


@pytest.mark.parametrize(
    "answer", [http_answer(b"a secret", "403 Forbidden"), b"a secret\r\n", b"HTTP/9.9 a secret\r\n\r\n"]
)
def test_no_error_quotes_the_answer_of_another_host_than_the_given_one(answer):
    with (
        serving(answer) as other,
        serving(redirect(f"http://localhost:{other.rpartition(':')[2]}/x")) as url,
        pytest.raises(fetch.FetchError, match=r"HTTP 403 Forbidden after a redirect|the answer is not HTTP") as raised,
    ):
        fetch.send("GET", f"{url}/x", None, 5)
    assert "secret" not in str(raised.value)
    with serving(http_answer(b"a reason", "403 Forbidden")) as url, pytest.raises(fetch.FetchError, match="a reason"):
        fetch.send("GET", f"{url}/x", None, 5)


def test_redirects_are_bounded():
    asked = []

    def answer(request):
        asked.append(request)
        return 307, None, {"Location": f"http://{request.headers['Host']}/x"}

    with played_http(answer) as port, pytest.raises(fetch.FetchError, match="HTTP 307"):
        fetch.send("GET", f"http://127.0.0.1:{port}/x", None, 5)
    assert len(asked) == fetch.REDIRECTS + 1


@pytest.mark.parametrize("name", ["..", "."])
def test_a_name_that_would_be_a_step_of_the_path_is_refused_before_a_request(name):
    """Else the deletion of a subscription of a topic `..` is a request about its namespace."""
    for ask in (
        lambda url: fetch.send("DELETE", url, None, 1),
        lambda url: fetch.exchange("GET", url, 1),
        lambda url: fetch.get_json(url, 1),
    ):
        with pytest.raises(fetch.FetchError, match=r"a name in the path of the request is '\.' or '\.\.'"):
            ask(f"http://127.0.0.1:1/admin/v2/persistent/t/n/{name}/subscriptions?a=b")


def test_something_is_sent_to_the_first_host_that_takes_it():
    with serving(http_answer(b"", "204 No Content")) as url:
        hosts = f"http://127.0.0.1:{free_port()},{url.removeprefix('http://')}"
        source = Source("pulsar://b:6650", hosts, "zk:z:2181")
        send_to(source, "PUT", "/x", {"a": 1}, 5, fetch.ANONYMOUS)
    with pytest.raises(fetch.FetchError, match="refused"):
        send_to(source, "PUT", "/x", None, 5, fetch.ANONYMOUS)


@pytest.mark.parametrize(
    "broker",
    ["169.254.169.254/latest/meta-data?", "b", "u:p@b:8080", "b:8080#", "b:8080/", "", "b :80", "b:" + "8" * 6],
)
def test_a_list_of_brokers_with_other_text_is_no_list_of_brokers(broker):
    """Else an admin API chooses the path of a request to any server."""
    with serving(http_answer(json.dumps(["b:8080", broker]).encode())) as url:
        source = Source("pulsar://b:6650", url, "zk:z:2181")
        with pytest.raises(fetch.FetchError, match="not a list of brokers as HOST:PORT"):
            active_brokers(source)


@pytest.mark.parametrize(
    "broker", ["b:8080", "broker-0.broker.pulsar.svc:8080", "10.0.0.7:8443", "[fd00::7]:8080", "a_b:1"]
)
def test_brokers_are_listed_as_host_and_port(broker):
    with serving(http_answer(json.dumps([f"http://{broker}", broker]).encode())) as url:
        assert active_brokers(Source("pulsar://b:6650", url, "zk:z:2181")) == [broker, broker]


def test_a_listed_broker_is_reached_like_the_target_of_a_redirect():
    """Neither a metadata service, nor with a quotation of its answer."""
    with serving(http_answer(b"a secret", "403 Forbidden")) as other:
        source = Source("pulsar://b:6650", "http://localhost:1", "zk:z:2181")
        for ask in (health, lac_interval):
            with pytest.raises(fetch.FetchError, match=r"^HTTP 403 Forbidden$"):
                ask(source, other.removeprefix("http://"))
    for ask in (health, lac_interval):
        with pytest.raises(fetch.FetchError, match="it leads to an address of this machine or of a metadata service"):
            ask(Source("pulsar://b:6650", "http://pulsar.invalid:8080", "zk:z:2181"), "127.0.0.1:1")
