"""The pool's own credentials: those of a failed login, the option that remedies name, and the secrets of the output."""

import asyncio
import io
import json
import logging

import pytest
from readonly_engine.doctor.checks.admin_api import AdminAnswer, admin_findings
from readonly_engine.doctor.checks.brokers import BrokerHandshake, OwnerLookup, broker_findings, owner_findings
from readonly_engine.doctor.checks.explicit_lac import lac_findings
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.checks.topics import Policies, TopicAnswers, policy_findings, topic_findings
from readonly_engine.doctor.clients import open_clients, secrets_of
from readonly_engine.doctor.command import main
from readonly_engine.doctor.examination import Subjects, examine
from readonly_engine.doctor.progress import Progress
from readonly_engine.wire.pulsar_pb2 import CommandError, ServerError

from tests.unit.engine.doctor.played_cluster import MemoryStore, MemoryStores, config_of
from tests.unit.engine.owner.played_brokers import Server
from tests.unit.engine.owner.test_oauth2 import KEY, Issuer

WRONG = Failure(FailureKind.CREDENTIALS, "401")
FORBIDDEN = Failure(FailureKind.RIGHTS, "403")
OAUTH2 = "admin-oauth2"


@pytest.fixture
def key_file(tmp_path):
    path = tmp_path / "key.json"
    path.write_text(json.dumps(KEY))
    return path


def examined(monkeypatch, key_file, *, refuses=None, message="Failed to authenticate"):
    """Examine a broker that quotes the token in its refusal, with a login at an OAuth 2.0 server."""

    async def run():
        monkeypatch.setattr(
            "readonly_engine.doctor.clients.ClusterStores", lambda *_: MemoryStores(MemoryStore({"/ledgers": b""}))
        )
        monkeypatch.setattr(
            "tests.unit.engine.owner.played_brokers.FAILED",
            CommandError(request_id=-1, error=ServerError.AuthenticationError, message=message),
        )
        broker = await Server(b"nobody's").start()
        try:
            async with Issuer().serving() as issuer:
                issuer.refuses = refuses
                oauth2 = {"issuer-url": f"{issuer.base}/realm", "key-file": str(key_file)}
                config = config_of(service_url=broker.url, admin_url=issuer.base, admin_oauth2=oauth2)
                found = await examine(config, Subjects(), 20, Progress(io.StringIO(), "doctor"))
                return found, list(broker.asked), issuer.tokens
        finally:
            broker.close()

    return asyncio.run(run())


def test_the_access_token_is_in_no_finding(monkeypatch, key_file):
    found, asked, _ = examined(monkeypatch, key_file, message="refused: Bearer token-1")
    assert "CONNECT" in asked
    (refused,) = [one for one in found if one.check == "service URL"]
    assert (refused.observed, refused.remedy) == ("refused: Bearer ***", "set admin-oauth2 to valid credentials")
    assert not any("token-1" in text for one in found for text in (one.observed, one.remedy, one.subject))


def test_after_a_failed_login_nothing_is_asked_without_credentials(monkeypatch, key_file):
    """The refusal would say that the pool has no credentials, and advise an option that contradicts the login."""
    from aiohttp import web  # noqa: PLC0415

    found, asked, tokens = examined(
        monkeypatch, key_file, refuses=lambda: web.json_response({"error": "invalid_client"}, status=401)
    )
    assert (asked, tokens) == ([], [])
    by_check = {one.check: one for one in found}
    assert "invalid_client" in by_check["configuration"].observed
    for check in ("service URL", "admin API"):
        assert by_check[check].result == "fail"
        assert by_check[check].observed.startswith("not checked")
    assert not any("admin-token-file" in one.remedy for one in (by_check["service URL"], by_check["admin API"]))


def test_after_an_unusable_key_file_nothing_is_asked_without_credentials():
    clients = open_clients(config_of(admin_oauth2={"issuer-url": "https://issuer/", "key-file": "/none"}))
    assert (clients.identity, clients.admin, clients.admins) == (None, None, {})
    assert clients.problems == ["admin-oauth2: [Errno 2] No such file or directory: '/none'"]


@pytest.mark.parametrize(
    ("settings", "option"),
    [
        ({}, "admin-token-file"),
        ({"admin_token_file": "/t"}, "admin-token-file"),
        ({"admin_oauth2": {"issuer-url": "https://issuer/", "key-file": "/k"}}, OAUTH2),
        (
            {"service_url": "pulsar+ssl://a:1", "broker_tls_certificate": "/c", "broker_tls_key": "/k"},
            "broker-tls-certificate",
        ),
    ],
)
def test_the_option_of_the_credentials(settings, option):
    assert open_clients(config_of(**settings)).credentials_option == option


def test_remedies_name_the_option_of_the_credentials():
    refused = AdminAnswer("http://a", version="4.0.8", configuration_failure=FORBIDDEN)
    topic = TopicAnswers("t", state_failure=FORBIDDEN, policies=Policies("", [], "403"))
    found = [
        *broker_findings([BrokerHandshake("pulsar://a", WRONG)], "token", OAUTH2, required=False),
        *owner_findings([OwnerLookup("t", failure=FORBIDDEN)], "token", OAUTH2),
        *admin_findings([AdminAnswer("http://a", WRONG)], OAUTH2),
        admin_findings([refused], OAUTH2)[-1],
        *topic_findings(topic, OAUTH2, local_cursors=False)[1:],
        *policy_findings(Policies("", [], "403"), "t", OAUTH2, local_cursors=False),
        *lac_findings({}, (), OAUTH2),
    ]
    assert len(found) == 8
    for one in found:
        assert OAUTH2 in one.remedy, one
        assert "admin-token-file" not in one.remedy, one


# Secrets


def test_the_secrets_of_tiered_storage(tmp_path, monkeypatch):
    ini = tmp_path / "s3.ini"
    ini.write_text(
        "[default]\naws_access_key_id = AKIA\naws_secret_access_key = s3-secret\naws_session_token=s3-token\n"
    )
    google = tmp_path / "google.json"
    google.write_text(
        json.dumps({"private_key_id": "g-id", "private_key": "-----BEGIN-----\ng-key\n", "project_id": "p"})
    )
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(google))
    found = secrets_of(config_of(tiered_storage={"credentials-file": str(ini)}))
    assert {"s3-secret", "s3-token", "g-id", "g-key"} <= set(found)
    assert not {"AKIA", "p"} & set(found)
    ini.write_bytes(b"\xff\xfe")
    assert "s3-secret" not in secrets_of(config_of(tiered_storage={"credentials-file": str(ini)}))


def test_no_log_has_the_texts_of_servers(monkeypatch):
    """The report has them without secrets. A log of the engine would have them as they are."""
    levels = []
    monkeypatch.setattr("logging.basicConfig", lambda **settings: levels.append(settings["level"]))
    assert main(["--pool", "p"]) == 2
    assert levels == [logging.CRITICAL]


def test_an_invalid_option_shows_no_password(capsys):
    words = ["--metadata-store-url", "zk:a:1", "--admin-url", "http://a:1", "--service-url", "http://me:a-password@a:1"]
    assert main(words) == 2
    shown = capsys.readouterr().err
    assert "service-url" in shown
    assert "a-password" not in shown
