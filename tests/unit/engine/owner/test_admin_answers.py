"""AdminClient against servers that redirect or answer badly: real HTTP and TLS on loopback."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.net.tls import ClientTls, TlsFiles
from readonly_engine.owner import admin_requests
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.cursor_admin import CursorAdmin
from readonly_engine.owner.errors import AdminRefusedError, OwnerUnavailableError
from readonly_engine.owner.redirect_sessions import GuardedResolver

from devstack.pulsar.security import Credentials

TOPIC = parse_topic_name("persistent://public/default/redirected")


@pytest.fixture(scope="module")
def credentials(tmp_path_factory) -> Credentials:
    made = Credentials.make(tmp_path_factory.mktemp("admin-tls"))
    made.certificate("broker")
    return made


@contextlib.asynccontextmanager
async def serving(answer: Callable[[web.Request], web.Response], tls: TlsFiles | None = None) -> AsyncIterator[str]:
    """Serve every path with one function; yields HOST:PORT."""

    async def handle(request: web.Request) -> web.Response:
        return answer(request)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context() if tls else None)
        await site.start()
        yield f"127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def redirect_to(url: str) -> Callable[[web.Request], web.Response]:
    return lambda request: web.Response(status=307, headers={"Location": url + request.path_qs})


@contextlib.asynccontextmanager
async def asking(url: str, **options) -> AsyncIterator[AdminClient]:
    client = AdminClient(url, **options)
    try:
        yield client
    finally:
        await client.close()


def ask(answer, request):
    """Return what a request of AdminClient returns if a server answers so."""

    async def run():
        async with serving(answer) as broker, asking(f"http://{broker}") as client:
            return await request(client)

    return asyncio.run(run())


@pytest.mark.parametrize("secure", [True, False])
async def test_a_redirect_gets_the_token_unless_it_leads_from_https_to_http(credentials, tmp_path, secure):
    token = tmp_path / "token"
    token.write_text("a-secret")
    tls = (
        TlsFiles("tls", None, credentials.folder / "broker.pem", credentials.folder / "broker.key") if secure else None
    )
    shown: list[str | None] = []

    def listen(request: web.Request) -> web.Response:
        shown.append(request.headers.get("Authorization"))
        return web.json_response({"subscriptions": {}})

    trust = ClientTls(TlsFiles("broker-tls", trust=credentials.authority)) if secure else None
    async with (
        serving(listen) as owner,
        serving(redirect_to(f"http://{owner}"), tls) as broker,
        asking(f"http{'s' * secure}://{broker}", tls=trust, token_file=token) as client,
    ):
        if secure:
            with pytest.raises(OwnerUnavailableError, match=r"expected https://HOST:PORT.*webServicePortTls"):
                await client.stats(TOPIC)
        else:
            assert await client.stats(TOPIC) == {"subscriptions": {}}
    assert shown == ([] if secure else ["Bearer a-secret"])


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("http://127.0.0.1:1/elsewhere", "redirected to another path"),
        ("http://169.254.169.254{path}", "metadata service and is not followed"),
        ("http://[::ffff:169.254.169.254]{path}", "metadata service and is not followed"),
        ("http://u:p@127.0.0.1:1{path}", "redirected to http://127.0.0.1; expected"),
    ],
)
def test_a_redirect_leads_to_the_same_path_of_another_broker_only(location, reason):
    def answer(request):
        return web.Response(status=307, headers={"Location": location.format(path=request.path_qs)})

    with pytest.raises(OwnerUnavailableError, match=reason):
        ask(answer, lambda client: client.stats(TOPIC))


class Names(AbstractResolver):
    """Resolves every name to these addresses."""

    def __init__(self, *addresses: str) -> None:
        self._addresses = addresses

    async def resolve(self, host, port=0, family=socket.AF_INET):
        return [
            {"hostname": host, "host": one, "port": port, "family": family, "proto": 0, "flags": 0}
            for one in self._addresses
        ]

    async def close(self) -> None:
        pass


async def test_a_name_leads_to_no_address_that_a_redirect_must_not_reach():
    mixed = GuardedResolver(Names("169.254.169.254", "10.0.0.7", "127.0.0.1"), "pulsar.example.org")
    assert [one["host"] for one in await mixed.resolve("b", 8080)] == ["10.0.0.7"]
    with pytest.raises(OSError, match="is not followed"):
        await GuardedResolver(Names("169.254.169.254", "::1"), "pulsar.example.org").resolve("b", 8080)
    local = GuardedResolver(Names("127.0.0.1"), "localhost")
    assert [one["host"] for one in await local.resolve("b", 8080)] == ["127.0.0.1"]


@pytest.mark.parametrize("name", ["..", "."])
def test_a_topic_whose_name_would_be_a_step_of_the_path_is_refused_before_a_request(name):
    """Else `..` deletes or reads what belongs to the namespace."""
    asked: list[str] = []

    def listen(request: web.Request) -> web.Response:
        asked.append(request.raw_path)
        return web.json_response({})

    async def requests(client) -> None:
        with pytest.raises(AdminRefusedError, match=r"'\.' and '\.\.' are not allowed"):
            await client.stats(parse_topic_name(f"persistent://public/default/{name}"))
        with pytest.raises(AdminRefusedError):
            await CursorAdmin(client).delete_subscription(TOPIC, name)
        await client.stats(parse_topic_name(f"persistent://public/default/a/{name}/b"))

    ask(listen, requests)
    assert asked == [
        f"/admin/v2/persistent/public/default/a%2F{name}%2Fb/stats?excludePublishers=true&subscriptionBacklogSize=false"
    ]


@pytest.mark.parametrize(("size", "refused"), [(1000, False), (1001, True)])
def test_the_size_of_an_answer_is_bounded(monkeypatch, size, refused):
    monkeypatch.setattr(admin_requests, "MAX_ANSWER_BYTES", 1000)
    body = b'{"name":"' + b"x" * (size - len(b'{"name":""}')) + b'"}'

    expected = pytest.raises(OwnerUnavailableError, match="more than 1000 bytes")
    with expected if refused else contextlib.nullcontext():
        ask(lambda _: web.Response(body=body, content_type="application/json"), lambda client: client.stats(TOPIC))


@pytest.mark.parametrize(
    ("stats", "empty"),
    [
        ({"numberOfEntries": 0, "compactedLedger": {"entries": -1}}, True),
        ({"numberOfEntries": 0}, True),
        ({"numberOfEntries": 1, "compactedLedger": {"entries": -1}}, False),
        ({"numberOfEntries": 0, "compactedLedger": {"entries": 1}}, False),
        ({"numberOfEntries": 0, "compactedLedger": {"entries": "?"}}, False),
        ({}, False),
    ],
)
def test_a_topic_is_empty_if_its_statistics_say_so(stats, empty):
    assert ask(lambda _: web.json_response(stats), lambda client: client.extent(TOPIC))[0] is empty


@pytest.mark.parametrize("body", ["4.0.8", '"4.0.8"', "4.0.8\n"])
def test_the_version_is_a_text_and_the_answer_has_the_brokers_date(body):
    date = "Thu, 26 Nov 2026 00:00:10 GMT"
    answer = lambda _: web.Response(text=body, headers={"Date": date})  # noqa: E731
    assert ask(answer, lambda client: client.version()) == ("4.0.8", date)
