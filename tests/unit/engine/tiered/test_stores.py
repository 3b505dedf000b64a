"""What is missing or wrong among the settings of tiered storage is named."""

from pathlib import Path

import pytest
from readonly_engine.config.option import ConfigError
from readonly_engine.config.tiered import TIERED_STORAGE, TieredConfig
from readonly_engine.tiered.errors import SettingMissingError
from readonly_engine.tiered.storage import TieredStorage
from readonly_engine.tiered.stores import DRIVERS, Location, locate, open_store
from readonly_engine.wire.managed_ledger_pb2 import OffloadDriverMetadata


def noted(name, **properties):
    made = OffloadDriverMetadata(name=name)
    for key, value in properties.items():
        made.properties.add(key=key, value=value)
    return made


def test_a_location_is_as_noted_unless_a_setting_replaces_it() -> None:
    note = noted("S3", bucket="b", region="r", serviceEndpoint="http://store:9000/")
    assert locate(note, TieredConfig()) == Location("S3", "b", "r", "http://store:9000")
    config = TieredConfig(bucket="other", region="s", endpoint="https://near")
    assert locate(note, config) == Location("S3", "other", "s", "https://near")
    folder = noted("filesystem", storageBasePath="file:///data")
    assert locate(folder, TieredConfig()).path == "/data"
    assert locate(folder, TieredConfig(filesystem_root=Path("/mnt"))).path == "/mnt"


@pytest.mark.parametrize(
    ("note", "says"),
    [
        (noted("S3"), "set tiered-storage.bucket"),
        (noted("tape", bucket="b"), "the driver 'tape'; known are aws-s3"),
        (noted("filesystem", storageBasePath="hdfs://name:9000/x"), "set tiered-storage.filesystem-root"),
    ],
)
def test_a_note_that_does_not_tell_enough(note, says) -> None:
    with pytest.raises(SettingMissingError, match=says):
        locate(note, TieredConfig())


@pytest.mark.parametrize(
    ("driver", "endpoint", "environment", "says"),
    [
        ("S3", "http://store:1", {}, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"),
        ("S3", "", {"ACCESS_KEY_ID": "a", "ACCESS_KEY_SECRET": "b"}, "set tiered-storage.endpoint"),
        ("aws-s3", "", {"AWS_ACCESS_KEY_ID": "a"}, "AWS_ACCESS_KEY_ID is set in the environment, and"),
        ("azureblob", "", {}, "set AZURE_STORAGE_ACCOUNT in the environment"),
        ("azureblob", "", {"AZURE_STORAGE_ACCOUNT": "a"}, "set AZURE_STORAGE_ACCESS_KEY in the environment"),
        ("google-cloud-storage", "", {"GOOGLE_APPLICATION_CREDENTIALS": "/none"}, "there is no file /none"),
    ],
)
def test_missing_credentials_are_named(driver, endpoint, environment, says) -> None:
    assert driver in DRIVERS
    with pytest.raises(SettingMissingError, match=says):
        open_store(Location(driver, "b", "", endpoint), TieredConfig(), environment)


@pytest.mark.parametrize(
    ("driver", "good", "names"),
    [
        (
            "S3",
            "[default]\naws_access_key_id = a\naws_secret_access_key = b\n",
            "aws_access_key_id and aws_secret_access_key",
        ),
        (
            "azureblob",
            "[default]\nazure_storage_account = a\nazure_storage_access_key = Yg==\n",
            "azure_storage_account and azure_storage_access_key",
        ),
    ],
)
def test_credentials_may_be_in_a_file(tmp_path, driver, good, names) -> None:
    path = tmp_path / "credentials"
    at, config = Location(driver, "bucket", "", "http://127.0.0.1:1"), TieredConfig(credentials_file=path)
    with pytest.raises(SettingMissingError, match=r"credentials-file .*: No such file"):
        open_store(at, config, {})
    for bad in ("s3cret", "[default]\n", good.replace("= a", "=")):
        path.write_text(bad)
        with pytest.raises(SettingMissingError, match=f"must have {names} in the section") as caught:
            open_store(at, config, {})
        assert "s3cret" not in str(caught.value)
    path.write_text(good)
    assert open_store(at, config, {})


def test_everything_is_opened_anew_when_credentials_were_replaced(tmp_path) -> None:
    path = tmp_path / "credentials"
    path.write_text("first")
    storage = TieredStorage(TieredConfig(credentials_file=path))
    storage._stores[Location("S3", "bucket")] = object()
    storage._reload_credentials()
    assert storage._stores
    (tmp_path / "new").write_text("other")
    (tmp_path / "new").rename(path)
    storage._reload_credentials()
    assert not storage._stores


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"endpoint": "store:9000"}, "endpoint: must be http://HOST:PORT or https://HOST, not 'store:9000'"),
        ({"filesystem-root": "data"}, "filesystem-root: must be an absolute path, not 'data'"),
        ({"request-timeout": 0}, "request-timeout: must be a number of seconds above 0, at most 600, not 0"),
        ({"read-size": 1}, "read-size: must be at least 64KiB, not 1"),
        ({"cache-size": 1 << 20}, "cache-size: must be at least four times the read-size 1048576, not 1048576"),
        ({"bucket": 5}, "bucket: must be a non-empty text, not 5"),
    ],
)
def test_wrong_settings_are_named(settings, says) -> None:
    with pytest.raises(ConfigError) as caught:
        TIERED_STORAGE.parse(settings)
    assert str(caught.value) == says


def test_a_cache_for_four_reads_is_enough():
    assert TIERED_STORAGE.parse({"read-size": "64KiB", "cache-size": "256KiB"}).cache_size == 256 << 10
    with pytest.raises(ConfigError, match="at least four times"):
        TIERED_STORAGE.parse({"read-size": "64KiB", "cache-size": (256 << 10) - 1})
