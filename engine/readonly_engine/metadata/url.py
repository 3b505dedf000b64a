"""The URL of a metadata store."""

from __future__ import annotations

import re
from typing import Final

from readonly_engine.metadata.errors import MetadataError

_URL: Final = re.compile(r"zk:([^/:,\s]+:\d+(?:,[^/:,\s]+:\d+)*(?:/\S*)?)")


def hosts_in(url: str) -> str:
    """The hosts in a metadata store's URL, as ZooKeeper's clients write them.

    Raises:
        MetadataError: another kind of store, or no URL.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise MetadataError(f"{url!r} would be zk:HOST:PORT[,HOST:PORT...][/chroot]")
    return match[1]
