"""An object store for tasks that write files themselves: Hadoop's settings of S3A as those of obstore.

Only settings that are known here are translated. With any other one that the user has changed, such as an encryption, Spark
writes the files: a file that lacks what a setting asks for would be worse than a slow export.

Source of the names: Hadoop's core-default.xml and "Connecting to an Amazon S3 Bucket through the S3A Connector", 3.5.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from obstore.store import S3Store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Credential

PREFIX: Final = "fs.s3a."

_KEYS: Final = ("access.key", "secret.key", "session.token")
_TRANSLATED: Final = {*_KEYS, "endpoint", "endpoint.region", "path.style.access", "connection.ssl.enabled"}

_HARMLESS: Final = (
    "attempts.maximum", "audit.", "block.size", "bucket.", "change.detection.", "connection.acquisition.timeout",
    "connection.establish.timeout", "connection.expect.continue", "connection.idle.time", "connection.keepalive",
    "connection.maximum", "connection.request.timeout", "connection.timeout", "connection.ttl", "committer.",
    "create.performance", "downgrade.syncable.exceptions", "executor.capacity", "experimental.", "fast.upload.", "impl",
    "input.", "list.version", "max.total.tasks", "multiobjectdelete.enable", "multipart.", "optimized.copy.from.local.enabled",
    "paging.maximum", "performance.", "readahead.range", "retry.", "socket.", "ssl.channel.mode", "threads.", "user.agent.prefix",
    "vectored.",
)  # fmt: skip
"""Settings, or with a dot at the end their prefixes, that change how S3A works and not which objects it makes."""

_OF_KEYS: Final = {
    "SimpleAWSCredentialsProvider",
    "TemporaryAWSCredentialsProvider",
    "EnvironmentVariableCredentialsProvider",
}

_CENTRAL: Final = "s3.amazonaws.com"


class NotTranslatedError(Exception):
    """Tasks cannot use the settings. The text names the setting."""


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A bucket.

    Attributes:
        bucket: its name.
        endpoint: the store's URL; empty for Amazon's own.
        region: the region in signatures.
        virtual_host: whether the bucket's name is in the host's.
        keys: access key, secret key and session token (may be empty). They are in no text form of this object.
    """

    bucket: str
    endpoint: str
    region: str
    virtual_host: bool
    keys: tuple[str, str, str] = field(repr=False)


def translated(bucket: str, changed: Mapping[str, str]) -> StoreSettings:
    """Return the settings of a bucket.

    Args:
        bucket: its name.
        changed: the settings of S3A for this bucket, without PREFIX, that differ from Hadoop's defaults.

    Raises:
        NotTranslatedError: tasks cannot use them.
    """
    given = {name: value.strip() for name, value in changed.items() if value.strip()}
    for name, value in sorted(given.items()):
        if name == "aws.credentials.provider":
            used = {one.strip().rpartition(".")[2] for one in value.split(",")}
            if not used & _OF_KEYS:
                raise NotTranslatedError(f"{PREFIX}{name} names no provider of keys")
        elif name not in _TRANSLATED and not any(
            name.startswith(one) if one.endswith(".") else name == one for one in _HARMLESS
        ):
            raise NotTranslatedError(f"{PREFIX}{name} is set")
    access, secret, token = (given.get(name, "") for name in _KEYS)
    if not access or not secret:
        raise NotTranslatedError(f"{PREFIX}access.key and {PREFIX}secret.key are not set")
    endpoint = _url(given)
    amazon = not endpoint or _host(endpoint).endswith((".amazonaws.com", ".amazonaws.com.cn"))
    region = given.get("endpoint.region", "")
    if not region and amazon:
        raise NotTranslatedError(f"{PREFIX}endpoint.region is not set")
    if _host(endpoint) == _CENTRAL:  # S3A finds the bucket's region through it; requests for another region fail there
        endpoint = ""
    virtual = given.get("path.style.access", "false").lower() != "true"
    return StoreSettings(bucket, endpoint, region or "us-east-1", virtual, (access, secret, token))


def _url(given: Mapping[str, str]) -> str:
    endpoint = given.get("endpoint", "").rstrip("/")
    if not endpoint or "://" in endpoint:
        return endpoint
    scheme = "http" if given.get("connection.ssl.enabled", "true").lower() == "false" else "https"
    return f"{scheme}://{endpoint}"


def _host(endpoint: str) -> str:
    return urlsplit(endpoint).hostname or ""


def open_store(settings: StoreSettings, *, probe: bool = False) -> S3Store:
    """Return the bucket.

    Args:
        settings: its settings.
        probe: whether to give up soon. A task repeats requests for minutes.

    Raises:
        BaseError: obstore does not accept the settings.
    """
    access, secret, token = settings.keys

    def keys() -> S3Credential:
        return {"access_key_id": access, "secret_access_key": secret, "token": token or None, "expires_at": None}

    config: S3Config = {"region": settings.region, "virtual_hosted_style_request": settings.virtual_host}
    client: ClientConfig = {}
    retries: RetryConfig = {}
    if probe:
        client["timeout"] = timedelta(seconds=10)
        retries = {"max_retries": 1, "retry_timeout": timedelta(seconds=10)}
    if settings.endpoint:
        url = urlsplit(settings.endpoint)
        host = f"{settings.bucket}.{url.netloc}" if settings.virtual_host else url.netloc
        config["endpoint"] = url._replace(netloc=host).geturl()
        client["allow_http"] = url.scheme == "http"
    return S3Store(
        settings.bucket, config=config, client_options=client, retry_config=retries, credential_provider=keys
    )
