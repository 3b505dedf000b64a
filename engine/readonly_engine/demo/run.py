"""The demo, step by step: source cluster, pool, clients, one broker killed, report."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import shutil
import sys
import tempfile
import time
import webbrowser
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aiohttp import ClientError, ClientSession, ClientTimeout

from readonly_engine.demo import clients as client_program
from readonly_engine.demo.addresses import check_addresses
from readonly_engine.demo.children import Child, Children
from readonly_engine.demo.console import ask_to_go_on, elapsed, print_progress
from readonly_engine.demo.distribution import VERSION, ensure_distribution
from readonly_engine.demo.errors import DemoError
from readonly_engine.demo.live import LiveView
from readonly_engine.demo.pool import Broker, Pool
from readonly_engine.demo.report import SubscriptionResult, render, subscription_result
from readonly_engine.demo.source_cluster import SourceCluster, start_pulsar

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

PARTITIONS: Final = 4
RATE: Final = 1250
"""Messages per second."""

SUBSCRIPTIONS: Final = (("exclusive", "Exclusive", 1), ("failover", "Failover", 2), ("shared", "Shared", 3))
KILL_AT: Final = 0.25
"""Share of the deliveries after which one broker is killed."""

ENDLESS: Final = str(10**9)
KEPT_RATE: Final = 5
"""Messages per second while the demo is kept running."""

REFRESH_S: Final = 0.5
SETTLE_S: Final = 10.0
SUBSCRIBE_S: Final = 60.0
CLEAN_UP_S: Final = 30.0
_ATTEMPT: Final = ClientTimeout(total=30)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What to run.

    Attributes:
        cluster: a running source cluster; None to start a stock Pulsar.
        pulsar_home: folder of an installed Pulsar; None for the one in the cache.
        token_file: token for a running cluster; empty for none.
        namespace: namespace of the topic.
        messages: number of messages.
        keep: whether all keeps running after the report.
        open_page: whether to open the status page in a browser.
        ask: whether to ask on a terminal before anything is created in a running cluster.
    """

    cluster: SourceCluster | None = None
    pulsar_home: Path | None = None
    token_file: str = ""
    namespace: str = "public/default"
    messages: int = 10_000
    keep: bool = False
    open_page: bool = False
    ask: bool = False


class Demo:
    """One run.

    Args:
        options: what to run.
        children: starts processes.
        folder: an empty folder for data and logs.
    """

    def __init__(self, options: DemoOptions, children: Children, folder: Path) -> None:
        self._options = options
        self._children = children
        self._folder = folder
        name = "demo" if options.cluster is None else f"demo-{secrets.token_hex(3)}"
        self._pool_name = name
        self._topic = f"persistent://{options.namespace}/pulsar-readonly-{name}"
        self._created = False
        self._killed = ""
        self._cluster = options.cluster
        self._environment = {client_program.TOKEN_FILE: options.token_file}

    async def run(self) -> None:
        """Run the demo.

        Raises:
            DemoError: a part fails, or a message is lost.
        """
        if self._cluster is None:
            home = self._options.pulsar_home or await ensure_distribution(self._children)
            self._cluster = await start_pulsar(self._children, home, self._folder)
        else:
            await check_addresses(self._cluster, client_program.read_token(self._options.token_file))
            self._announce(self._cluster)
            if self._options.ask:
                await ask_to_go_on()
        pool = Pool(self._children, self._cluster, self._pool_name, self._topic, self._options.token_file)
        await all_or_first_error(self._create_topic(self._cluster), pool.start())
        print_progress(f"a pool of {len(pool.brokers)} read-only brokers runs: {pool.url}")
        page = f"{pool.brokers[0].http_url}/"
        print_progress(f"status page, until the demo ends: {page}")
        if self._options.open_page:
            await asyncio.to_thread(webbrowser.open, page)
        results, cpu = await self._read_and_ack(self._cluster, pool)
        problems = [problem for result in results for problem in result.problems]
        self._print_report(results, cpu, problems)
        if self._options.keep:
            await self._stay(self._cluster, pool)
        if problems:
            raise DemoError("; ".join(problems))
        await self._cluster.record_classes()

    async def clean_up(self) -> None:
        """Delete the topic of a running cluster that this run has created."""
        if self._options.cluster is None or not self._created:
            return
        try:
            async with asyncio.timeout(CLEAN_UP_S):
                await self._client("delete", self._options.cluster.admin_url, self._topic)
            print_progress(f"deleted {self._topic}")
        except (DemoError, TimeoutError) as error:
            print_progress(f"could not delete {self._topic}: {error or 'not in time'}")
            print_progress(f"delete it with pulsar-admin topics delete-partitioned-topic -f {self._topic}")

    def _announce(self, cluster: SourceCluster) -> None:
        print_progress(f"this run creates at {cluster.admin_url}, and deletes at its end:")
        print_progress(f"  {self._topic}, with {PARTITIONS} partitions and {len(SUBSCRIPTIONS)} subscriptions")
        print_progress(f"this run creates in {cluster.metadata_store}: ephemeral nodes of the pool {self._pool_name}")
        print_progress("it starts two read-only brokers on 127.0.0.1, and kills one of these; nothing else is touched")

    async def _client(self, *arguments: str) -> Any:
        child = await self._start_client(*arguments)
        return _result(await child.output())

    async def _start_client(self, *arguments: str) -> Child:
        command = [sys.executable, client_program.__file__, *arguments]
        name = "-".join(["clients", arguments[0], *arguments[3:4]])
        return await self._children.start(name, command, self._environment, read=True)

    async def _create_topic(self, cluster: SourceCluster) -> None:
        await cluster.wait_ready()
        if cluster.owner is not None:
            print_progress(f"a stock Pulsar runs: {cluster.service_url}, admin API {cluster.admin_url}")
        self._created = True
        names = [name for name, _, _ in SUBSCRIPTIONS]
        await self._client("prepare", cluster.admin_url, self._topic, str(PARTITIONS), *names)

    async def _read_and_ack(self, cluster: SourceCluster, pool: Pool) -> tuple[list[SubscriptionResult], str]:
        count = str(self._options.messages)
        consumers = sum(number for _, _, number in SUBSCRIPTIONS)
        print_progress(
            f"{self._options.messages:,} messages to the owner, {RATE:,} per second; "
            f"{consumers} consumers of {len(SUBSCRIPTIONS)} subscriptions at the pool"
        )
        owner_s = cluster.owner.cpu_s() if cluster.owner else 0.0
        pool_s = sum(broker.child.cpu_s() for broker in pool.brokers)
        reading = [
            await self._start_client("consume", pool.url, self._topic, name, kind, str(number), count)
            for name, kind, number in SUBSCRIPTIONS
        ]
        for child, (_, _, number) in zip(reading, SUBSCRIPTIONS, strict=True):
            await child.ready(partial(_has_subscribed, child, number), SUBSCRIBE_S)
        producing = await self._start_client("produce", cluster.service_url, self._topic, count, str(RATE))
        outputs = [asyncio.ensure_future(child.output()) for child in (producing, *reading)]
        try:
            await self._watch(pool, outputs)
            produced, *received = [_result(await output) for output in outputs]
        finally:
            for output in outputs:
                output.cancel()
        if produced["failed"]:
            raise DemoError(f"{produced['failed']} messages could not be published")
        stats, internal = await self._settled_stats(cluster)
        await pool.count_dispatched()
        by_broker = {broker.name: broker.dispatched for broker in pool.brokers}
        results = [
            subscription_result(one, produced["produced"], stats, internal, by_broker, interrupted=True)
            for one in received
        ]
        delivered = sum(len(result.received) for result in results)
        used = sum(one.child.cpu_s() for one in pool.brokers) - pool_s
        cpu = f"pool {used:.1f} s for {delivered:,} deliveries ({1e6 * used / delivered:,.0f} µs each)"
        if cluster.owner:
            used = cluster.owner.cpu_s() - owner_s
            cpu += f"; owner broker {used:.1f} s for {produced['produced']:,} published messages and all acks, in a cold JVM. "
            cpu += "This is different work; docs/explanation/performance.md compares both for the same readers"
        return results, cpu

    async def _watch(self, pool: Pool, outputs: Sequence[asyncio.Future[str]]) -> None:
        """Show the pool until the clients have ended; kill its last broker on the way."""
        victim = pool.brokers[-1]
        enough = KILL_AT * self._options.messages * len(SUBSCRIPTIONS)
        view = LiveView(pool)
        try:
            while not all(output.done() for output in outputs):
                await view.show()
                if victim.child.alive and pool.dispatched >= enough:
                    self._killed = victim.name
                    victim.child.kill()
                    await victim.child.wait()
                    print_progress(
                        f"killed {victim.name} (SIGKILL); its consumers come to {pool.brokers[0].name} within some seconds, when "
                        "its session at the metadata store has ended"
                    )
                    await view.restart()
                await asyncio.wait(outputs, timeout=REFRESH_S)
                for output in outputs:
                    if output.done():
                        output.result()  # a failed client ends the demo now
        finally:
            await view.close()

    async def _settled_stats(self, cluster: SourceCluster) -> tuple[Any, Any]:
        """Return the owner's statistics after the last acks have arrived, or after SETTLE_S."""
        token = client_program.read_token(self._options.token_file)
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        path = client_program.topic_path(cluster.admin_url, self._topic)
        deadline = time.monotonic() + SETTLE_S
        try:
            async with ClientSession(timeout=_ATTEMPT, headers=headers, raise_for_status=True) as session:
                while True:
                    async with session.get(f"{path}/partitioned-stats?getPreciseBacklog=true") as response:
                        stats = await response.json()
                    backlogs = [one["msgBacklog"] for one in stats["subscriptions"].values()]
                    if not any(backlogs) or time.monotonic() > deadline:
                        break
                    await asyncio.sleep(0.2)
                async with session.get(f"{path}/partitioned-internalStats") as response:
                    return stats, await response.json()
        except (ClientError, TimeoutError) as error:
            raise DemoError(f"{cluster.admin_url}: no statistics of {self._topic}: {error}") from error

    def _print_report(self, results: list[SubscriptionResult], cpu: str, problems: list[str]) -> None:
        lost = sum(result.lost for result in results)
        delivered = sum(len(result.received) for result in results)
        notes = ["", f"CPU: {cpu}"]
        if self._killed:
            notes.append(f"{self._killed}: figures right before it was killed")
            pauses = ", ".join(f"{result.name} {result.longest_pause_s:.1f} s" for result in results)
            notes.append(f"longest pause of one partition: {pauses} (until its session ended, and clients tried again)")
        if any(result.duplicated for result in results):
            notes.append("duplicated: the killed broker had not passed their acks on, so they were delivered again")
        print("\n".join(["", render(results), *notes, ""]), flush=True)
        killed = "one of its brokers was killed, " if self._killed else ""
        seen = f"Seen in {elapsed():.0f} s: the pool delivered {delivered:,} messages, {killed}{lost} lost."
        lines = [] if problems else [seen]
        if not self._options.keep:
            lines.append(f"Stay in it: {self._command('--keep')}; all runs until Ctrl-C.")
        lines.append(
            "Next: docs/tutorials/demo.md explains the table; docs/tutorials/process.md starts a read-only broker step by step."
        )
        print("\n".join(lines), flush=True)

    def _command(self, option: str) -> str:
        """Return the command of this run with one more option, to paste."""
        words = [sys.executable, "-m", "readonly_engine.command", "demo", option]
        if (cluster := self._options.cluster) is not None:
            words += ["--metadata-store-url", cluster.metadata_store, "--service-url", cluster.service_url]
            words += ["--admin-url", cluster.admin_url, "--namespace", self._options.namespace]
            words += ["--token-file", self._options.token_file] if self._options.token_file else []
        return shlex.join(words)

    async def _stay(self, cluster: SourceCluster, pool: Pool) -> None:
        """Start ended brokers again, let some messages flow, and wait for Ctrl-C."""
        ended: list[Broker] = [broker for broker in pool.brokers if not broker.child.alive]
        for broker in ended:
            await pool.replace(broker)
            print_progress(f"started {broker.name} again")
        kept = [
            await self._start_client("consume", pool.url, self._topic, "kept", "Shared", "1", ENDLESS),
            await self._start_client("produce", cluster.service_url, self._topic, ENDLESS, str(KEPT_RATE)),
        ]
        program = Path(sys.executable).with_name("pulsar-readonly")
        quiet = "logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)"
        consumer = (
            f"import pulsar; client = pulsar.Client({pool.url!r}, {quiet}); "
            f"consumer = client.subscribe({self._topic!r}, 'mine', initial_position=pulsar.InitialPosition.Earliest); "
            "messages = [consumer.receive() for _ in range(10)]; "
            "[(print(one.data()), consumer.acknowledge(one)) for one in messages]; client.close()"
        )
        producer = (
            f"import pulsar; client = pulsar.Client({cluster.service_url!r}, {quiet}); "
            f"client.create_producer({self._topic!r}).send(b'hello'); client.close()"
        )
        lines = [
            "",
            f"Everything runs until Ctrl-C, with {KEPT_RATE} messages per second:",
            f"  consumers   {pool.url}",
            f"  producers   {cluster.service_url}",
            f"  topic       {self._topic}",
            f"  admin API   {cluster.admin_url}",
            f"  store       {cluster.metadata_store}",
            f"  status page {pool.brokers[0].http_url}/",
            f"  top         {program} top {' '.join(broker.http_url for broker in pool.brokers)}",
            f"  logs        {self._folder}",
            f"A stock consumer and a producer, to paste into another terminal; the topic has {PARTITIONS} partitions:",
            f'  {sys.executable} -c "{consumer}"',
            f'  {sys.executable} -c "{producer}"',
        ]
        print("\n".join(lines), flush=True)
        outputs = [asyncio.ensure_future(client.output()) for client in kept]
        try:
            done, _ = await asyncio.wait(outputs, return_when=asyncio.FIRST_COMPLETED)
            for output in done:
                output.result()
            raise DemoError("a client of the demo has ended")
        finally:
            for output in outputs:
                output.cancel()


async def _has_subscribed(child: Child, consumers: int) -> bool:
    return child.log.read_text(encoding="utf-8").count(client_program.SUBSCRIBED) == consumers


def _result(output: str) -> Any:
    return json.loads(output.strip().splitlines()[-1])


async def run_demo(options: DemoOptions) -> None:
    """Run the demo in a temporary folder, and end all of its processes.

    Raises:
        DemoError: a part fails, or a message is lost.
    """
    print_progress(
        f"a stock Pulsar {VERSION}, two read-only brokers and stock clients on 127.0.0.1; Ctrl-C ends all"
        if options.cluster is None
        else "two read-only brokers and stock clients on 127.0.0.1; Ctrl-C ends them"
    )
    with run_folder() as folder:
        children = Children(folder)
        demo = Demo(options, children, folder)
        try:
            await demo.run()
        finally:
            try:
                await children.close()  # first: clients that run create a deleted topic again
                await demo.clean_up()
            finally:
                await children.close()
            print_progress("all has ended")


@contextmanager
def run_folder() -> Iterator[Path]:
    """Yield a temporary folder, which is removed at the end; after an error its logs stay, and the error names it."""
    folder = Path(tempfile.mkdtemp(prefix="pulsar-readonly-demo-"))
    try:
        yield folder
    except Exception as error:
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            elif path.suffix not in {".log", ".conf"}:
                path.unlink()
        if not any(folder.iterdir()):
            folder.rmdir()
            raise
        if isinstance(error, DemoError):
            raise DemoError(f"{error}\n  logs: {folder}") from error
        error.add_note(f"logs: {folder}")
        raise
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    shutil.rmtree(folder, ignore_errors=True)


async def all_or_first_error(*work: Coroutine[Any, Any, None]) -> None:
    """Run coroutines at the same time; after the first DemoError, cancel the others and raise it."""
    try:
        async with asyncio.TaskGroup() as together:
            for one in work:
                together.create_task(one)
    except BaseExceptionGroup as group:
        expected, unexpected = group.split(DemoError)
        if expected is None or unexpected is not None:
            raise
        raise expected.exceptions[0] from None
