"""docs/reference/errors.md quotes the errors of `pulsar-readonly serve` as they are printed."""

import re

import pytest
from readonly_engine.serve import main

from docsite.__main__ import DOCS

PAGE = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
GIVEN = {
    "--metadata-store-url": "zk:127.0.0.1:1",
    "--service-url": "pulsar://127.0.0.1:1",
    "--admin-url": "http://127.0.0.1:1",
    "--topics": "orders",
    "--advertised-url": "pulsar://me:6650",
}
MISTAKES = [
    ({"--metadata-store-url": "zookeeper:2181"}, 2),
    ({"--service-url": "http://broker"}, 2),
    ({"--service-url": None}, 2),
    ({"--topics": "persistent://public/default/orders-("}, 1),
    ({"--topics": "persistent://public/default/(?!orders).*"}, 1),
    ({"--topics": "orders-.*"}, 1),
    ({"--topics": None}, 2),
    ({"--advertised-url": None}, 1),
    ({"--tls-listen": "127.0.0.1:6651"}, 2),
    ({"--workers": "2", "--http": "127.0.0.1:6750"}, 2),
    ({"--config": "broker.yaml"}, 2),
]


def quoted() -> list[re.Pattern[str]]:
    """The messages of the page; an ellipsis stands for any text."""
    messages = re.findall(r"`(pulsar-readonly serve: [^`]+)`", PAGE)
    return [re.compile(".*".join(map(re.escape, message.split("…")))) for message in messages]


@pytest.mark.parametrize(("options", "status"), MISTAKES)
def test_the_page_has_the_error_of_a_mistake(options, status, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broker.yaml").write_text("topic: orders\n")
    given = {**GIVEN, **options}
    assert main([word for name, value in given.items() if value is not None for word in (name, value)]) == status
    (line,) = capsys.readouterr().err.splitlines()
    assert any(pattern.fullmatch(line) for pattern in quoted()), line
