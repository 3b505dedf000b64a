"""The service URL of several brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def service_url(urls: Iterable[str]) -> str:
    """Return one service URL of several brokers, of their URLs without TLS."""
    return "pulsar://" + ",".join(url.removeprefix("pulsar://") for url in urls)
