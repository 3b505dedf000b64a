"""Stores of offloaded ledgers, opened by the brokers' description of the offload and by the option `tiered-storage`."""

from __future__ import annotations

import configparser
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from readonly_engine.tiered.errors import SettingMissingError, StoreUnavailableError
from readonly_engine.tiered.objects import Bucket, Folder

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import AzureConfig, ClientConfig, RetryConfig, S3Config

    from readonly_engine.config.tiered import TieredConfig
    from readonly_engine.tiered.objects import Objects
    from readonly_engine.wire.managed_ledger_pb2 import OffloadDriverMetadata

S3_DRIVERS = ("aws-s3", "S3", "aliyun-oss")
GOOGLE_DRIVER = "google-cloud-storage"
AZURE_DRIVER = "azureblob"
FILESYSTEM_DRIVER = "filesystem"
DRIVERS = (*S3_DRIVERS, GOOGLE_DRIVER, AZURE_DRIVER, FILESYSTEM_DRIVER)
"""OffloadPoliciesImpl.DRIVER_NAMES, Pulsar 4.0.8."""

_KEY_PAIRS = (
    ("ACCESS_KEY_ID", "ACCESS_KEY_SECRET"),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
    ("ALIYUN_OSS_ACCESS_KEY_ID", "ALIYUN_OSS_ACCESS_KEY_SECRET"),
)
"""Variables of the environment; the brokers' offloader reads the first and the last pair."""

_RETRIES: RetryConfig = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}


@dataclass(frozen=True, slots=True)
class Location:
    """Store of an offloaded ledger.

    Attributes:
        driver: the offloader's driver, one of DRIVERS.
        bucket: bucket or container.
        region: its region; may be empty.
        endpoint: the store's address; empty for the provider's own.
        path: base path of the filesystem driver.
    """

    driver: str
    bucket: str = ""
    region: str = ""
    endpoint: str = ""
    path: str = ""


def locate(noted: OffloadDriverMetadata, config: TieredConfig) -> Location:
    """Return the store of a ledger, from the broker's description and the settings that replace parts of it.

    Raises:
        SettingMissingError: the driver is unknown, or there is no bucket or path.
    """
    properties = {pair.key: pair.value for pair in noted.properties}
    if noted.name not in DRIVERS:
        raise SettingMissingError(f"offloaded by the driver {noted.name!r}; known are {', '.join(DRIVERS)}")
    if noted.name == FILESYSTEM_DRIVER:
        return Location(FILESYSTEM_DRIVER, path=_base_path(properties.get("storageBasePath", ""), config))
    bucket = config.bucket or properties.get("bucket", "")
    if not bucket:
        raise SettingMissingError("the brokers stored no bucket; set tiered-storage.bucket")
    return Location(
        noted.name,
        bucket,
        config.region or properties.get("region", ""),
        config.endpoint or properties.get("serviceEndpoint", "").rstrip("/"),
    )


def _base_path(noted: str, config: TieredConfig) -> str:
    if config.filesystem_root is not None:
        return str(config.filesystem_root)
    parts = urlsplit(noted)
    if parts.scheme not in {"", "file"} or not parts.path.startswith("/"):
        raise SettingMissingError(
            f"offloaded to the file system {noted!r}, which is not a path of this machine; "
            "set tiered-storage.filesystem-root to its mount point"
        )
    return parts.path


def open_store(location: Location, config: TieredConfig, environment: Mapping[str, str]) -> Objects:
    """Open a store.

    Raises:
        SettingMissingError: credentials or an endpoint are missing.
        StoreUnavailableError: the store does not accept the settings.
    """
    if location.driver == FILESYSTEM_DRIVER:
        return Folder(
            Path(location.path),
            "tiered-storage.filesystem-root, or fs.defaultFS of the brokers, names the folder",
            config.request_timeout,
        )
    at = f" at {location.endpoint}" if location.endpoint else ""
    where = f"bucket {location.bucket}{at} ({location.driver})"
    client: ClientConfig = {
        "timeout": timedelta(seconds=config.request_timeout),
        "connect_timeout": timedelta(seconds=min(config.request_timeout, 5)),
        "allow_http": location.endpoint.startswith("http://"),
    }
    try:
        if location.driver in S3_DRIVERS:
            store: S3Store | GCSStore | AzureStore = _s3(location, config, environment, client, where)
        elif location.driver == GOOGLE_DRIVER:
            store = _google(location, config, environment, client, where)
        else:
            store = _azure(location, config, environment, client, where)
    except BaseError as error:
        raise StoreUnavailableError(f"{where}: {type(error).__name__}: the settings of the store are invalid") from None
    return Bucket(store, where, config.request_timeout)


def _s3(
    location: Location, config: TieredConfig, environment: Mapping[str, str], client: ClientConfig, where: str
) -> S3Store:
    aliyun = location.driver == "aliyun-oss"
    if not location.endpoint and location.driver != "aws-s3":
        raise SettingMissingError(f"{where}: the brokers stored no endpoint; set tiered-storage.endpoint")
    keys = _s3_keys(config, environment, where)
    if not keys and location.endpoint:
        raise SettingMissingError(
            f"{where}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, "
            "or tiered-storage.credentials-file"
        )
    endpoint = location.endpoint
    if aliyun:  # its servers require the bucket in the host's name
        parts = urlsplit(endpoint)
        endpoint = parts._replace(netloc=f"{location.bucket}.{parts.netloc}").geturl()
    settings: S3Config = {"region": location.region or "us-east-1", "virtual_hosted_style_request": aliyun, **keys}
    if endpoint:
        settings["endpoint"] = endpoint
    return S3Store(location.bucket, config=settings, client_options=client, retry_config=_RETRIES)


def _s3_keys(config: TieredConfig, environment: Mapping[str, str], where: str) -> S3Config:
    """Return key, secret and token. Without them, the library queries the identity of Amazon's machines and pods."""
    if config.credentials_file is not None:
        found = _from_file(config.credentials_file, ("aws_access_key_id", "aws_secret_access_key"), where)
        keys: S3Config = {
            "access_key_id": found["aws_access_key_id"],
            "secret_access_key": found["aws_secret_access_key"],
        }
        token = found.get("aws_session_token")
        return {**keys, "session_token": token} if token else keys
    for key, secret in _KEY_PAIRS:
        if environment.get(key) and environment.get(secret):
            token = environment.get("AWS_SESSION_TOKEN") if key.startswith("AWS") else None
            keys = {"access_key_id": environment[key], "secret_access_key": environment[secret]}
            return {**keys, "session_token": token} if token else keys
        if environment.get(key):
            raise SettingMissingError(f"{where}: {key} is set in the environment, and {secret} is not")
    return {}


def _from_file(path: Path, names: tuple[str, str], where: str) -> Mapping[str, str]:
    """Return the section `default` of an ini file.

    Raises:
        SettingMissingError: the file cannot be read, or a name is missing.
    """
    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(path.read_text(encoding="utf-8"))
        section = dict(parser["default"])
    except OSError as error:
        raise SettingMissingError(f"{where}: tiered-storage.credentials-file {path}: {error.strerror}") from None
    except (configparser.Error, KeyError, UnicodeDecodeError):
        section = {}  # the error itself would quote the file
    if not all(section.get(name) for name in names):
        raise SettingMissingError(
            f"{where}: tiered-storage.credentials-file {path} must have {' and '.join(names)} in the section [default]"
        )
    return section


def _google(
    location: Location, config: TieredConfig, environment: Mapping[str, str], client: ClientConfig, where: str
) -> GCSStore:
    path = config.credentials_file or environment.get("GOOGLE_APPLICATION_CREDENTIALS")
    if path is not None and not Path(path).is_file():
        raise SettingMissingError(
            f"{where}: there is no file {path}, which tiered-storage.credentials-file or GOOGLE_APPLICATION_CREDENTIALS names"
        )
    if path is None:  # the identity of the machine or the pod
        return GCSStore(location.bucket, client_options=client, retry_config=_RETRIES)
    return GCSStore(location.bucket, application_credentials=str(path), client_options=client, retry_config=_RETRIES)


def _azure(
    location: Location, config: TieredConfig, environment: Mapping[str, str], client: ClientConfig, where: str
) -> AzureStore:
    if config.credentials_file is not None:
        found = _from_file(config.credentials_file, ("azure_storage_account", "azure_storage_access_key"), where)
        account, key = found["azure_storage_account"], found["azure_storage_access_key"]
    else:
        for name in ("AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCESS_KEY"):
            if not environment.get(name):
                raise SettingMissingError(
                    f"{where}: no credentials; set {name} in the environment, or tiered-storage.credentials-file"
                )
        account, key = environment["AZURE_STORAGE_ACCOUNT"], environment["AZURE_STORAGE_ACCESS_KEY"]
    settings: AzureConfig = {"account_name": account, "account_key": key}
    if location.endpoint:
        settings["endpoint"] = location.endpoint
    return AzureStore(location.bucket, config=settings, client_options=client, retry_config=_RETRIES)
