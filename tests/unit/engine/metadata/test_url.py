import pytest
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.metadata.url import MetadataUrl


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
