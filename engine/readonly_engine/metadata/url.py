"""The URL of a metadata store."""

from __future__ import annotations

import re
from typing import Final

from readonly_engine.metadata.errors import MetadataError

_URL: Final = re.compile(r"zk:([^/:,\s]+:\d+(?:,[^/:,\s]+:\d+)*(?:/\S*)?)")


def hosts_in(url: str) -> str:
    """Return the hosts in a metadata store's URL, as ZooKeeper's clients write them.

    Raises:
        MetadataError: the URL is invalid, or of another kind of store.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise MetadataError(f"must be zk:HOST:PORT[,HOST:PORT...][/chroot], not {url!r}")
    return match[1]
