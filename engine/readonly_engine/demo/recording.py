"""Records the archives of classes of a stock Pulsar without a demo."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from readonly_engine.demo import clients
from readonly_engine.demo.children import Children
from readonly_engine.demo.source_cluster import start_pulsar

TOPIC = "persistent://public/default/classes"


async def record_classes(home: Path) -> None:
    """Start a Pulsar in a temporary folder, publish some messages, and record the classes of its servers.

    Args:
        home: folder of the distribution.

    Raises:
        DemoError: a server does not start.
    """
    with tempfile.TemporaryDirectory(prefix="pulsar-readonly-classes-", ignore_cleanup_errors=True) as name:
        children = Children(Path(name))
        try:
            cluster = await start_pulsar(children, home, Path(name))
            await cluster.wait_ready()
            for arguments in (
                ("prepare", cluster.admin_url, TOPIC, "1", "one"),
                ("produce", cluster.service_url, TOPIC, "100"),
            ):
                client = await children.start("clients", [sys.executable, clients.__file__, *arguments], read=True)
                await client.output()
            await cluster.record_classes()
        finally:
            await children.close()
