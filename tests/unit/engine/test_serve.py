"""What `pulsar-readonly serve` says before it has started anything."""

from __future__ import annotations

import pytest
from readonly_engine.config import KEYS, Address, make_config
from readonly_engine.serve import StartError, advertised_url, main, parser

FLAGS = [
    "--metadata-store", "zk:127.0.0.1:1", "--writer-url", "pulsar://127.0.0.1:1", "--admin-url", "http://127.0.0.1:1",
]  # fmt: skip


def test_every_setting_is_a_flag_and_the_other_way_round():
    flags = {option for action in parser()._actions for option in action.option_strings}
    assert flags - {"-h", "--help", "--config"} == {f"--{key}" for key in KEYS}


def test_flags_that_are_not_given_are_no_settings():
    assert vars(parser().parse_args([])) == {}


def test_a_wrong_setting_ends_it_with_status_2(capsys):
    assert main([*FLAGS, "--topics", "orders", "--cache-size", "lots"]) == 2
    assert capsys.readouterr().err == "pulsar-readonly serve: --cache-size: 'lots' would be a size as 64MiB or 1GiB\n"


def test_a_flag_wins_over_the_file(tmp_path, capsys):
    file = tmp_path / "engine.yaml"
    file.write_text("listen: nowhere\ncache-size: lots")
    assert main([*FLAGS, "--topics", "orders", "--config", str(file), "--cache-size", "1MiB"]) == 2
    assert capsys.readouterr().err.startswith("pulsar-readonly serve: listen in the file of --config: 'nowhere'")


@pytest.mark.parametrize(
    ("settings", "url"),
    [
        ({"listen": "127.0.0.1:7000"}, "pulsar://127.0.0.1:7000"),
        ({"advertised-url": "pulsar://me:1", "listen": "0.0.0.0:7000"}, "pulsar://me:1"),
    ],
)
def test_where_clients_are_sent(settings, url):
    given = {"metadata-store": "zk:a:1", "writer-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    assert advertised_url(make_config(given, settings)) == url


def test_clients_cannot_be_sent_to_all_interfaces():
    given = {"metadata-store": "zk:a:1", "writer-url": "pulsar://a:1", "admin-url": "http://a:1", "topics": ["t"]}
    config = make_config(given, {})
    assert config.listen == Address("0.0.0.0", 6650)
    with pytest.raises(StartError, match=r"--advertised-url is missing: .* give pulsar://HOST:6650"):
        advertised_url(config)
