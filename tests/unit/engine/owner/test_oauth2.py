"""Access tokens from an OAuth 2.0 server on loopback: real HTTP and TLS, changed files, errors without secrets."""

import asyncio
import contextlib
import json
import logging
import socket

import pytest
from aiohttp import web
from readonly_engine.config.oauth2 import OAuth2Config
from readonly_engine.config.reader import make_config
from readonly_engine.doctor.clients import secrets_of
from readonly_engine.net.tls import TlsFiles
from readonly_engine.owner.admin import AdminClient
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.oauth2 import OAuth2Login

from devstack.pulsar.security import Credentials

KEY = {"type": "client_credentials", "client_id": "me", "client_secret": "s3cret"}


class Issuer:
    """An OAuth 2.0 server, and an admin API that notes the tokens.

    Attributes:
        forms: token requests.
        tokens: tokens of requests to the admin API.
        accepts: header of the requests that the admin API accepts; empty for all.
    """

    def __init__(self):
        self.forms = []
        self.tokens = []
        self.base = ""
        self.lifetime = 3600
        self.refuses = None
        self.accepts = ""

    async def discover(self, _):
        return web.json_response({"token_endpoint": f"{self.base}/token"})

    async def grant(self, request):
        self.forms.append(dict(await request.post()))
        if self.refuses is not None:
            return self.refuses()
        return web.json_response({"access_token": f"token-{len(self.forms)}", "expires_in": self.lifetime})

    async def admin(self, request):
        self.tokens.append(request.headers.get("Authorization"))
        return web.json_response({}, status=401 if self.accepts not in {"", self.tokens[-1]} else 200)

    @contextlib.asynccontextmanager
    async def serving(self, tls=None):
        app = web.Application()
        app.router.add_get("/realm/.well-known/openid-configuration", self.discover)
        app.router.add_post("/token", self.grant)
        app.router.add_get("/admin/{path:.*}", self.admin)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.server_context() if tls else None)
            await site.start()
            self.base = f"http{'s' if tls else ''}://127.0.0.1:{runner.addresses[0][1]}"
            yield self
        finally:
            await runner.cleanup()


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    return path


def config(issuer, key_file=None, **fields):
    return OAuth2Config(issuer_url=f"{issuer.base}/realm", key_file=key_file, **fields)


async def test_the_admin_api_gets_a_token_of_the_issuer(key_file):
    async with Issuer().serving() as issuer:
        login = OAuth2Login(config(issuer, key_file, audience="urn:pulsar", scope="read"))
        admin = AdminClient(issuer.base, login=login)
        try:
            with pytest.raises(OwnerUnavailableError, match="no token has been requested yet"):
                await admin.configuration()
            await login.refresh()
            await login.refresh()
            assert await admin.configuration() == {}
        finally:
            await admin.close()
        assert issuer.tokens == ["Bearer token-1"]
        assert issuer.forms == [
            {
                "grant_type": "client_credentials",
                "client_id": "me",
                "client_secret": "s3cret",
                "audience": "urn:pulsar",
                "scope": "read",
            }
        ]


async def test_a_token_is_renewed_early_and_with_changed_files_at_once(tmp_path):
    now = [0.0]
    (tmp_path / "id").write_text("me\n")
    (tmp_path / "secret").write_text("s3cret\n")
    async with Issuer().serving() as issuer:
        files = {"client_id_file": tmp_path / "id", "client_secret_file": tmp_path / "secret"}
        login = OAuth2Login(config(issuer, **files), lambda: now[0])
        await login.refresh()
        now[0] = 2000
        await login.refresh()
        assert login.get() == "token-1"
        now[0] = 2900
        await login.refresh()
        assert login.get() == "token-2"
        (tmp_path / "secret").write_text("another")
        await login.refresh()
        assert login.get() == "token-3"
        assert [form["client_secret"] for form in issuer.forms] == ["s3cret", "s3cret", "another"]


async def test_a_broker_waits_for_its_first_token_but_not_for_a_silent_server(key_file, monkeypatch):
    async def started(issuer):
        login = OAuth2Login(config(issuer, key_file))
        following = asyncio.create_task(login.follow())
        began = asyncio.get_running_loop().time()
        await login.await_first()
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)
        return login.current(), asyncio.get_running_loop().time() - began

    async with Issuer().serving() as issuer:
        assert (await started(issuer))[0] == "token-1"
        issuer.refuses = lambda: web.json_response({}, status=503)
        monkeypatch.setattr("readonly_engine.owner.oauth2.FIRST_S", 60.0)
        token, seconds = await started(issuer)
        assert (token, seconds < 30.0) == ("", True)
    monkeypatch.setattr("readonly_engine.owner.oauth2.FIRST_S", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        issuer.base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        token, seconds = await started(issuer)
    assert (token, seconds < 5.0) == ("", True)


async def test_a_token_that_the_brokers_refuse_is_replaced(key_file):
    """For example because the server has new keys: the token would be valid for another hour."""
    now = [0.0]
    async with Issuer().serving() as issuer:
        login = OAuth2Login(config(issuer, key_file), lambda: now[0])
        await login.refresh()
        admin = AdminClient(issuer.base, login=login)
        issuer.accepts = "Bearer token-2"
        try:
            for now[0], granted in ((10.0, 1), (400.0, 2), (401.0, 2)):
                with contextlib.suppress(OwnerUnavailableError):
                    await admin.configuration()
                await login.refresh()
                assert len(issuer.forms) == granted
            assert await admin.configuration() == {}
        finally:
            await admin.close()


async def test_a_refusal_keeps_the_valid_token_and_tells_no_secret(key_file, caplog):
    caplog.set_level(logging.DEBUG)
    now = [0.0]
    async with Issuer().serving() as issuer:
        login = OAuth2Login(config(issuer, key_file), lambda: now[0])
        await login.refresh()
        issuer.refuses = lambda: web.json_response({"error": "invalid_client", "x": "s3cret"}, status=401)
        now[0] = 3000
        await login.refresh()
        assert login.get() == "token-1"
        now[0] = 3600
        assert login.current() == ""
        with pytest.raises(OwnerUnavailableError) as caught:
            login.get()
        assert str(caught.value).endswith("the token endpoint answers HTTP 401, invalid_client")
        before = len(issuer.forms)
        await login.refresh()
        await login.refresh()
        assert len(issuer.forms) == before + 1, "the second one is too early"
    assert "invalid_client" in caplog.text
    assert "s3cret" not in caplog.text
    assert "token-1" not in caplog.text


@pytest.mark.parametrize("kind", ["large", "redirect", "gone"])
async def test_other_answers_are_failures(key_file, kind):
    async with Issuer().serving() as issuer:
        made = config(issuer, key_file)
        issuer.refuses = {
            "large": lambda: web.Response(body=b"x" * (300 << 10)),
            "redirect": lambda: web.Response(status=307, headers={"Location": "/token"}),
            "gone": None,
        }[kind]
        if kind == "gone":
            made = OAuth2Config(issuer_url="http://127.0.0.1:1", key_file=key_file)
        login = OAuth2Login(made)
        await login.refresh()
        says = {"large": "larger than 262144 bytes", "redirect": "HTTP 307", "gone": "ClientConnectorError"}[kind]
        with pytest.raises(OwnerUnavailableError, match=says):
            login.get()
        assert len(issuer.forms) <= 1


async def test_an_issuer_with_tls_is_trusted_by_its_authority(key_file, tmp_path):
    made = Credentials.make(tmp_path / "tls")
    async with Issuer().serving(
        TlsFiles("tls", None, made.folder / "broker.pem", made.folder / "broker.key")
    ) as issuer:
        login = OAuth2Login(config(issuer, key_file, trust_certificates=made.authority))
        await login.refresh()
        assert login.get() == "token-1"
        stranger = OAuth2Login(config(issuer, key_file))
        await stranger.refresh()
        with pytest.raises(OwnerUnavailableError, match="CertificateError"):
            stranger.get()


def test_files_that_cannot_be_used_are_named_without_their_content(tmp_path, key_file):
    key_file.write_text('{"client_id": "me", "client_secret": "s3cret')
    issuer = {"issuer_url": "https://issuer"}
    with pytest.raises(ValueError, match=r"key\.json: the key file is not JSON$"):
        OAuth2Login(OAuth2Config(**issuer, key_file=key_file))
    with pytest.raises(OSError, match="No such file"):
        OAuth2Login(OAuth2Config(**issuer, key_file=tmp_path / "gone"))
    key_file.write_text(json.dumps(KEY))
    with pytest.raises(ValueError, match=r"^trust-certificates: .*gone cannot be used: No such file"):
        OAuth2Login(OAuth2Config(**issuer, key_file=key_file, trust_certificates=tmp_path / "gone"))


def test_the_doctor_knows_the_client_secret_as_one(key_file):
    settings = {
        "metadata-store-url": "zk:127.0.0.1:1",
        "service-url": "pulsar://127.0.0.1:1",
        "admin-url": "http://127.0.0.1:1",
        "admin-oauth2": {"issuer-url": "https://issuer", "key-file": str(key_file)},
    }
    assert "s3cret" in secrets_of(make_config(settings, {}, topics_required=False))
