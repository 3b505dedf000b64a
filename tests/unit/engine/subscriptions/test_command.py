import pytest
from readonly_engine.subscriptions.changes import seek_target
from readonly_engine.subscriptions.command import main
from readonly_engine.subscriptions.pool_client import client_log
from readonly_engine.topic.position import Position


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["--pool", "p"], "--service-url is missing: give it, or --config"),
        (["--config", "/nowhere"], "--config /nowhere: No such file"),
        (["--service-url", "http://a"], "--service-url: must be pulsar://HOST:PORT"),
    ],
)
def test_wrong_settings_are_status_2(words, text, capsys):
    admin = [] if words[0] == "--pool" else ["--admin-url", "http://a:8080"]
    assert main(["ls", "t", *words, *admin]) == 2
    assert text in capsys.readouterr().err


def test_places_of_a_seek():
    largest = (1 << 63) - 1
    assert seek_target("earliest") == (-1, -1)
    assert seek_target("latest") == (largest, largest)
    assert seek_target(Position(3, 4)) == (3, 4)
    assert seek_target(1_700_000_000_000) == 1_700_000_000_000


def test_the_reason_of_an_error_is_in_the_clients_log():
    with client_log() as log:
        path = log._path
        line = "2026 WARN [1] X:1 | [a -> b] Received error response from server: ConsumerBusy ({}) -- req_id: 2\n"
        path.write_text("other\n" + line.format("first") + line.format("second (with) more"))
        assert log.reason == "second (with) more"
        log.begin()
        assert log.reason == ""
        with path.open("a") as file:
            file.write(line.format("third") + "other\n")
        assert log.reason == "third"
    assert not path.exists()
