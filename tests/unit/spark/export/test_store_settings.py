"""Settings of S3A as tasks use them, and those with which Spark writes the files."""

import socket

import pytest
from obstore.store import MemoryStore
from readonly_spark.export import store_target as module
from readonly_spark.export.destinations import Target
from readonly_spark.export.store_settings import NotTranslatedError, StoreSettings, open_store, translated
from readonly_spark.export.store_target import store_target

KEYS = {"access.key": "who", "secret.key": "hidden"}
OF_KEYS = ("who", "hidden", "")
MINIO = {**KEYS, "endpoint": "http://minio:9000/", "path.style.access": "true"}


@pytest.mark.parametrize(
    ("changed", "settings", "url"),
    [
        (MINIO, StoreSettings("b", "http://minio:9000", "us-east-1", False, OF_KEYS), "http://minio:9000"),
        (
            {**KEYS, "endpoint": "minio:9000", "connection.ssl.enabled": "false", "endpoint.region": "x"},
            StoreSettings("b", "http://minio:9000", "x", True, OF_KEYS), "http://b.minio:9000",
        ),
        (
            {**KEYS, "endpoint": "minio", "session.token": "t", "multipart.size": "64M", "impl": "S", "bucket.b.x": "y"},
            StoreSettings("b", "https://minio", "us-east-1", True, ("who", "hidden", "t")), "https://b.minio",
        ),
        ({**KEYS, "endpoint.region": "eu-west-1"}, StoreSettings("b", "", "eu-west-1", True, OF_KEYS), None),
        (
            {**KEYS, "endpoint.region": "eu-west-1", "endpoint": "s3.amazonaws.com"},
            StoreSettings("b", "", "eu-west-1", True, OF_KEYS), None,
        ),
        (
            {**MINIO, "aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider", "encryption.key": " "},
            StoreSettings("b", "http://minio:9000", "us-east-1", False, OF_KEYS), "http://minio:9000",
        ),
    ],
)  # fmt: skip
def test_known_settings_are_translated(changed, settings, url) -> None:
    assert translated("b", changed) == settings
    assert "hidden" not in repr(settings)
    store = open_store(settings)
    assert store.config.get("endpoint") == url
    assert "hidden" not in f"{store!r}{store.config}"
    assert store.config["region"] == settings.region


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({**MINIO, "encryption.algorithm": "SSE-KMS"}, "fs.s3a.encryption.algorithm is set"),
        ({**MINIO, "acl.default": "PublicRead"}, "fs.s3a.acl.default is set"),
        ({**MINIO, "proxy.host": "p"}, "fs.s3a.proxy.host is set"),
        ({**MINIO, "create.storage.class": "glacier"}, "fs.s3a.create.storage.class is set"),
        ({**MINIO, "something.new": "1"}, "fs.s3a.something.new is set"),
        ({**MINIO, "impl.disable": "1"}, "fs.s3a.impl.disable is set"),
        ({"endpoint": "http://minio:9000"}, "fs.s3a.access.key and fs.s3a.secret.key are not set"),
        ({"access.key": "who", "secret.key": ""}, "fs.s3a.access.key and fs.s3a.secret.key are not set"),
        (KEYS, "fs.s3a.endpoint.region is not set"),
        ({**KEYS, "endpoint": "s3.amazonaws.com"}, "fs.s3a.endpoint.region is not set"),
        (
            {
                **MINIO,
                "aws.credentials.provider": "software.amazon.awssdk.auth.credentials.ContainerCredentialsProvider",
            },
            "fs.s3a.aws.credentials.provider names no provider of keys",
        ),
    ],
)
def test_spark_writes_with_all_other_settings(changed, reason) -> None:
    with pytest.raises(NotTranslatedError, match=f"^{reason}$"):
        translated("b", changed)


class Files:
    """The folder of a table in an object store."""

    where = "s3a://b/a table/"
    bucket_and_key = ("b", "a table")

    def __init__(self, changed: dict[str, str], *, conditional: bool = True) -> None:
        self._changed, self.conditional = changed, conditional

    def changed_settings(self, prefix: str) -> dict[str, str]:
        assert prefix == "fs.s3a."
        return self._changed


@pytest.mark.parametrize("key", ["a table/_pulsar-readonly/lease/1", "other/_pulsar-readonly/lease/1"])
def test_tasks_write_where_they_see_the_table(monkeypatch, caplog, key) -> None:
    bucket = MemoryStore()
    bucket.put(key, b"x")
    monkeypatch.setattr(module, "open_store", lambda _, probe: bucket if probe else None)
    target = store_target(Files(MINIO))
    if key.startswith("other"):
        assert target is None
        assert (
            "s3a://b/a table/: Spark writes the files row by row, which takes more CPU: bucket b has no" in caplog.text
        )
    else:
        assert target == Target("s3a://b/a table/", "a table", translated("b", MINIO))
        assert not caplog.text


def test_without_an_answer_spark_writes(caplog) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    assert store_target(Files({**MINIO, "endpoint": f"http://127.0.0.1:{port}"})) is None
    assert "Spark writes the files row by row" in caplog.text
    assert len(caplog.text.splitlines()) == 1
    assert "hidden" not in caplog.text


def test_without_conditional_writes_spark_writes() -> None:
    assert store_target(Files(MINIO, conditional=False)) is None
