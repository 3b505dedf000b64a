"""The service URL of several brokers."""

from collections.abc import Iterable


def service_url(urls: Iterable[str]) -> str:
    """Return one service URL of several brokers, of their URLs without TLS."""
    return "pulsar://" + ",".join(url.removeprefix("pulsar://") for url in urls)
