"""One run of a program, and all runs of a selection."""

from __future__ import annotations

import queue
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import ExitStack, closing
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

import pulsar

from bench.document import machine
from devstack.common.run import tail
from devstack.console import say
from devstack.errors import DevstackError
from devstack.pulsar.admin import AdminError
from longtests.frameworks.build import ensure_built
from longtests.frameworks.cases import OWNER, UNLOAD
from longtests.frameworks.judge import NO_BACKLOG, Counts, Verdict, judge
from longtests.frameworks.process import ProgramProcess
from longtests.frameworks.program import READER
from longtests.frameworks.relay import AdminRecorder, RelayLoop
from longtests.frameworks.results import Result, failed_build, result_of
from longtests.frameworks.stack import PoolAddress
from longtests.frameworks.workload import Publisher, Sent, plan_blocks, plan_fillers, stored_copies

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from devstack.pulsar.cluster import PulsarCluster
    from longtests.frameworks.cases import Case
    from longtests.frameworks.program import Program
    from longtests.frameworks.workload import Planned

MESSAGES: Final = 200
_MARGIN: Final = 200
"""Duplicates that a disturbed run may have. A program counts them too, so that it ends only after as many more messages."""

_PAUSE_S: Final = 0.1
"""Between two blocks of messages while servers are disturbed."""

_BLOCKS_BEFORE: Final = 3
"""Blocks before the disturbance, after the program has received the first half."""

_IDLE_S: Final = 60
"""Longer than the session of a killed broker, a reconnect of any client after it, and the start of a job on a busy machine."""

_BACKLOG_S: Final = 10.0
_SETTLE_S: Final = 30.0
"""Longer than the session of a killed broker, after which its messages come again."""

_ERROR_LINES: Final = 4


@dataclass(frozen=True, slots=True)
class Job:
    """One run.

    Attributes:
        program: the program.
        type: subscription type, or Reader.
        case: the case.
    """

    program: Program
    type: str
    case: Case

    def __str__(self) -> str:
        return f"{self.program.name} {self.type} {self.case.name}"


class Runs:
    """Runs of one stack.

    Args:
        stack: the healthy source cluster.
        folder: folder of the logs.
        workers: number of runs at a time, each with a pool of its own.
    """

    def __init__(self, stack: PulsarCluster, folder: Path, workers: int) -> None:
        self._stack = stack
        self._folder = folder
        self._workers = workers
        self._admin = stack.admin()
        self._namespace = f"public/frameworks-{uuid.uuid4().hex[:8]}"
        self._lock = threading.Lock()
        self._not_built: dict[str, str] = {}

    def run(self, jobs: Sequence[Job], keep: Callable[[Result], None]) -> list[Result]:
        """Run jobs; run those with faults once more.

        Args:
            jobs: the runs.
            keep: is called with each result, from one thread at a time.

        Returns:
            The results, in the order of the jobs.
        """
        self._admin.create_namespace(self._namespace)
        results: dict[int, Result] = {}
        with ExitStack() as open_:
            loop = open_.enter_context(RelayLoop())
            pools: queue.Queue[PoolAddress] = queue.Queue()
            if any(job.case.target != OWNER for job in jobs):
                for number in range(self._workers):
                    pool = PoolAddress(self._stack.endpoints, self._folder / f"pool-{number}", loop)
                    open_.callback(pool.close)
                    pools.put(pool)

            def finish(index: int) -> None:
                result = self._try(jobs[index], loop, pools)
                if result.faults and not result.build_error:
                    say(f"{jobs[index]}: {'; '.join(result.faults)}; a second try")
                    result = self._try(jobs[index], loop, pools).after(result)
                with self._lock:
                    results[index] = result
                    keep(result)
                say(f"{jobs[index]}: {result.line()}")

            workers = ThreadPoolExecutor(self._workers)
            try:
                for each in [workers.submit(finish, index) for index in range(len(jobs))]:
                    each.result()
            finally:
                workers.shutdown(cancel_futures=True)
        return [results[index] for index in range(len(jobs))]

    def _try(self, job: Job, loop: RelayLoop, pools: queue.Queue[PoolAddress]) -> Result:
        if job.program.name not in self._not_built:
            try:
                built = ensure_built(job.program)
            except DevstackError as error:
                self._not_built[job.program.name] = f"{error} {error.hint or ''}"
        if failure := self._not_built.get(job.program.name):
            return failed_build(job.program, job.type, job.case, failure, machine())
        begin = time.monotonic()
        pool = None if job.case.target == OWNER else pools.get()
        try:
            if pool is not None:
                pool.renew()
            verdict, requests = self._observe(job, built, loop, pool)
        except (AdminError, DevstackError, pulsar.PulsarException) as error:
            verdict, requests = Verdict(Counts(), (f"not run: {error}",)), {}
        finally:
            if pool is not None:
                pools.put(pool)
        return result_of(
            job.program, job.type, job.case, verdict, requests, round(time.monotonic() - begin, 1), machine()
        )

    def _observe(
        self, job: Job, built: Path, loop: RelayLoop, pool: PoolAddress | None
    ) -> tuple[Verdict, dict[str, int]]:
        tag = uuid.uuid4().hex[:6]
        topic = f"persistent://{self._namespace}/{job.program.name}-{job.type}-{job.case.name}-{tag}"
        if job.case.partitions:
            self._admin.create_partitioned_topic(topic, job.case.partitions)
        else:
            self._admin.create_topic(topic)
        api = pool.http_url if pool and job.case.admin_of_pool else self._stack.endpoints.admin_url
        recorder = AdminRecorder(api)
        port = loop.run(recorder.start())
        log = self._folder / f"{str(job).replace(' ', '-')}-{tag}.log"
        settings = {
            "SERVICE_URL": pool.url if pool else self._stack.endpoints.writer_url,
            "ADMIN_URL": f"http://127.0.0.1:{port}",
            "TOPIC": topic,
            "SUBSCRIPTION": "frameworks",
            "SUBSCRIPTION_TYPE": job.type,
            "COUNT": str(MESSAGES + (_MARGIN if job.case.disturbance else 0)),
            "IDLE_SECONDS": str(_IDLE_S),
        }
        try:
            with closing(Publisher(self._stack.endpoints.writer_url, topic)) as publisher:
                run = RunMessages(job, publisher, tag)
                run.publish_first_half()
                process = ProgramProcess(job.program.run, built, settings, log)
                with closing(process):
                    deadline = time.monotonic() + job.program.timeout_seconds
                    if process.wait_for(lambda events: events.ready and bool(events.messages), deadline):
                        run.publish_rest(
                            process,
                            lambda: self._disturb(job.case, topic, pool),
                            lambda: self._backlog(job, topic, 0, _SETTLE_S),
                            deadline,
                        )
                    status = process.wait_end(deadline)
            backlog = self._backlog(job, topic, len(run.sent) - len(process.events.payloads))
        finally:
            loop.run(recorder.close())
        copies = stored_copies(self._stack.endpoints.writer_url, topic, run.sent) if job.case.disturbance else []
        verdict = judge(job.case, job.type, run.sent, process.events, backlog, status, copies)
        if verdict.faults:
            end = tail(log.read_text(encoding="utf-8", errors="replace"), _ERROR_LINES)
            say(f"{job}: {verdict.details[:_ERROR_LINES]}; {log}:\n  {end}")
        return verdict, recorder.requests

    def _disturb(self, case: Case, topic: str, pool: PoolAddress | None) -> None:
        if case.disturbance == UNLOAD:
            self._admin.unload(topic)
        elif pool is not None:
            pool.end_serving(topic, case.disturbance)

    def _backlog(self, job: Job, topic: str, expected: int, seconds: float = _BACKLOG_S) -> int:
        """Return the entries in the backlog, as soon as they are as many as expected, or after some time."""
        if job.type == READER:
            return NO_BACKLOG
        parts = [f"{topic}-partition-{index}" for index in range(job.case.partitions)] or [topic]
        deadline = time.monotonic() + seconds
        while True:
            found = [self._backlog_of(part) for part in parts]
            backlog = NO_BACKLOG if NO_BACKLOG in found else sum(found)
            if backlog == expected or time.monotonic() > deadline:
                return backlog
            time.sleep(_PAUSE_S)

    def _backlog_of(self, topic: str) -> int:
        try:
            subscription = self._admin.stats(topic)["subscriptions"].get("frameworks")
        except AdminError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            return NO_BACKLOG
        return NO_BACKLOG if subscription is None else int(subscription["msgBacklog"])


class RunMessages:
    """The messages of one run.

    Args:
        job: the run.
        publisher: the publisher to its topic.
        tag: begins each payload.
    """

    def __init__(self, job: Job, publisher: Publisher, tag: str) -> None:
        self._case = job.case
        self._publisher = publisher
        self._tag = tag
        blocks = plan_blocks(tag, MESSAGES, keyed=job.type == "Key_Shared", batches=job.program.batches)
        self._first, self._second = blocks[: len(blocks) // 2], blocks[len(blocks) // 2 :]
        self.sent: list[Sent] = []

    def publish_first_half(self) -> None:
        """Publish what the program finds as a backlog."""
        for block in self._first:
            self._publish(block)

    def publish_rest(
        self,
        process: ProgramProcess,
        disturb: Callable[[], None],
        settle: Callable[[], object],
        deadline: float,
    ) -> None:
        """Publish the other half while the program runs, with the disturbance in the middle of it.

        Args:
            process: the program.
            disturb: disturbs the servers.
            settle: waits until all messages are acked. What comes again has come by then, and counts for the program too.
            deadline: time of `time.monotonic` until which to wait for the program.
        """
        if not self._case.disturbance:
            for block in self._second:
                self._publish(block)
            return
        process.wait_for(lambda events: len(events.payloads) >= len(self.sent), deadline)
        with ThreadPoolExecutor(1) as disturber:
            for block in self._second[:_BLOCKS_BEFORE]:
                self._publish(block)
            disturbed = disturber.submit(disturb)
            for block in self._second[_BLOCKS_BEFORE:]:
                self._publish(block)
                wait([disturbed], _PAUSE_S)
            disturbed.result()
        process.wait_for(lambda events: len(events.payloads) >= MESSAGES, deadline)
        settle()
        missing = MESSAGES + _MARGIN - len(process.events.messages)
        self._publish(plan_fillers(self._tag, max(0, missing)))

    def _publish(self, block: Sequence[Planned]) -> None:
        try:
            self.sent += self._publisher.publish(block)
        except pulsar.PulsarException as error:
            raise DevstackError(f"the stock client could not publish: {error}") from error
