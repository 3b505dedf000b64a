from __future__ import annotations

import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import MetadataUrl, StoreKind


@pytest.mark.parametrize(
    ("text", "parsed"),
    [
        ("zk:a:2181", (StoreKind.ZOOKEEPER, "a:2181", "")),
        ("zk:a:2181,b:2182/chroot/x", (StoreKind.ZOOKEEPER, "a:2181,b:2182", "/chroot/x")),
        ("zk:a:2181/", (StoreKind.ZOOKEEPER, "a:2181", "")),
        ("zk:[::1]:2181", (StoreKind.ZOOKEEPER, "[::1]:2181", "")),
        ("oxia://a:6648/broker", (StoreKind.OXIA, "a:6648", "broker")),
        ("oxia://a:6648", (StoreKind.OXIA, "a:6648", "default")),
        ("oxia://a:6648/", (StoreKind.OXIA, "a:6648", "default")),
        ("oxia://[::1]:6648/x", (StoreKind.OXIA, "[::1]:6648", "x")),
    ],
)
def test_urls_are_parsed(text, parsed):
    assert MetadataUrl.parse(text) == parsed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "zk:",
        "zk:a",
        "a:2181",
        "zk:a:2181,",
        "zk:a:2181 ",
        "oxia:a:6648",
        "oxia://a",
        "oxia://a:1,b:2/x",
        "oxia://a:1/x/y",
        "etcd:http://a:1",
    ],
)
def test_another_url_is_refused_with_the_forms(text):
    with pytest.raises(MetadataError, match=r"must be zk:HOST:PORT.* or oxia://HOST:PORT"):
        MetadataUrl.parse(text)
