"""The parent process of workers: it starts, restarts and ends them, and serves their health and metrics over HTTP."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import ClientConnectorError, ClientError, ClientSession, ClientTimeout, web
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from readonly_engine.background import run_forever
from readonly_engine.http.access import OPEN
from readonly_engine.http.guard import HttpPort
from readonly_engine.http.status.page import render_workers
from readonly_engine.http.status.quota import PageQuota
from readonly_engine.http.status.style import HEADERS
from readonly_engine.net.interfaces import LOOPBACK
from readonly_engine.status.addresses import host_of, page_url
from readonly_engine.workers.liveness import PERIOD_S, Liveness
from readonly_engine.workers.merge import merge
from readonly_engine.workers.plan import worker_config
from readonly_engine.workers.restarts import Restarts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_engine.config.settings import EngineConfig
    from readonly_engine.http.access import HttpAccess

log = logging.getLogger("readonly_engine.workers")

REQUEST_TIMEOUT_S: Final = 5.0
READY_TIMEOUT_S: Final = 1.5
"""Time for a worker's readiness: shorter than the default of a kubelet's probe, 2 s, which would else miss the reason."""
READY_POLL_S: Final = 0.2

STOP_TIMEOUT_S: Final = 60.0
"""Time for a worker to drain after SIGTERM; then it is killed."""


class Worker:
    """One worker's process.

    Args:
        index: its number, from 0.
        config: its configuration.
        argv: the arguments of `serve`.
    """

    def __init__(self, index: int, config: EngineConfig, argv: Sequence[str]) -> None:
        self.index = index
        host = LOOPBACK.get(config.http.host, config.http.host)
        self.port = config.http.port
        self.http = f"{'https' if config.http_tls else 'http'}://{f'[{host}]' if ':' in host else host}:{self.port}"
        self.restarts = Restarts()
        self.liveness = Liveness()
        self.process: asyncio.subprocess.Process | None = None
        self._argv = argv

    async def start(self) -> asyncio.subprocess.Process:
        """Start the process. It ends when its standard input is closed, so it never outlives its parent."""
        self.process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "readonly_engine.worker", str(self.index), *self._argv, stdin=asyncio.subprocess.PIPE
        )
        self.liveness = Liveness()
        return self.process

    async def stop(self) -> None:
        """Let the process drain and end; kill it after END_S."""
        process = self.process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(STOP_TIMEOUT_S):
                await process.wait()
        except TimeoutError:
            log.warning("worker %d has not ended within %g s; killing it", self.index, STOP_TIMEOUT_S)
            process.kill()
            await process.wait()


class Parent:
    """Supervisor of all workers.

    Args:
        config: settings of all workers.
        argv: arguments of `serve`, passed on to each worker.
        access: TLS and token of the HTTP ports.
    """

    def __init__(self, config: EngineConfig, argv: Sequence[str], access: HttpAccess = OPEN) -> None:
        self._config = config
        self._access = access
        self._workers = [Worker(index, worker_config(config, index), argv) for index in range(config.workers)]
        self._stop = asyncio.Event()
        self._status = 0
        self._session: ClientSession | None = None
        self._port: HttpPort | None = None
        self._quota = PageQuota()
        self._merging: asyncio.Task[bytes] | None = None

    async def listen(self, host: str, port: int) -> None:
        """Serve health and metrics over HTTP.

        Raises:
            OSError: the address cannot be listened on.
        """
        app = web.Application()
        app.router.add_get("/", self._page)
        app.router.add_get("/healthz", self._healthz)
        app.router.add_get("/readyz", self._readyz)
        app.router.add_get("/metrics", self._metrics)
        app.router.add_get("/{rest:.*}", self._redirect)
        http = HttpPort(app, access=self._access)
        await http.start(host, port)
        self._port = http

    async def run(self) -> int:
        """Run until SIGTERM or SIGINT, or until a worker cannot start.

        Returns:
            The exit status: 0, or that of a worker that could not start.
        """
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with ClientSession(timeout=ClientTimeout(total=REQUEST_TIMEOUT_S)) as self._session:
            keeping = [
                run_forever(partial(self._supervise, worker), f"supervising worker {worker.index}")
                for worker in self._workers
            ]
            log.info("%d workers; health and metrics on %s", len(self._workers), self._config.http)
            try:
                await self._stop.wait()
                log.info("stopping")
            finally:
                for task in keeping:
                    task.cancel()
                await asyncio.gather(*keeping, return_exceptions=True)
                await asyncio.gather(*(worker.stop() for worker in self._workers))
                if self._port is not None:
                    await self._port.close()
        return self._status

    async def _supervise(self, worker: Worker) -> None:
        loop = asyncio.get_running_loop()
        while True:
            process = await worker.start()
            worker.restarts.started(loop.time())
            watching = [asyncio.create_task(watch(worker)) for watch in (self._watch, self._guard)]
            try:
                status = await process.wait()
            finally:
                for task in watching:
                    task.cancel()
            pause = worker.restarts.ended(status, loop.time())
            if pause is None:
                self._status = self._status or status
                self._stop.set()
                return
            log.error("worker %d ended with status %d; restarting it in %g s", worker.index, status, pause)
            await asyncio.sleep(pause)

    async def _watch(self, worker: Worker) -> None:
        """Poll the worker until it is ready. A worker that was ready is restarted after any exit status."""
        while not worker.restarts.ready:
            worker.restarts.ready = not await self._why_unready(worker)
            await asyncio.sleep(READY_POLL_S)

    async def _guard(self, worker: Worker) -> None:
        """Kill the worker once it hangs; its end restarts it. It would ignore SIGTERM."""
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            if await self._answers(worker):
                worker.liveness.answered()
            elif worker.liveness.hangs():
                break
            await asyncio.sleep(max(0.0, began + PERIOD_S - loop.time()))
        log.error("worker %d has not answered %d times in a row; killing it", worker.index, worker.liveness.silent)
        if worker.process is not None and worker.process.returncode is None:
            worker.process.kill()

    async def _answers(self, worker: Worker) -> bool:
        """Return whether the worker's process answers. It lives, too, if it closes the connection: others may need its place."""
        try:
            await self._ask(worker, "/healthz", PERIOD_S)
        except (ClientConnectorError, TimeoutError):
            return False
        except (ClientError, OSError, ValueError):
            return True
        return True

    async def _ask(self, worker: Worker, path: str, timeout_s: float = REQUEST_TIMEOUT_S) -> tuple[int, str]:
        if self._session is None:
            raise OSError("no worker has been started yet")
        url, timeout, access = worker.http + path, ClientTimeout(total=timeout_s), self._access
        headers, own = access.headers_for(url), access.own_certificate()
        async with self._session.get(url, timeout=timeout, headers=headers, ssl=own) as response:
            text = await response.text()
        # A worker that was ready may hang before the guard has asked it for the first time.
        worker.liveness.answered()
        return response.status, text

    async def _why_unready(self, worker: Worker) -> str:
        if worker.process is None or worker.process.returncode is not None:
            return f"worker {worker.index}: not running"
        try:
            status, text = await self._ask(worker, "/readyz", READY_TIMEOUT_S)
        except (ClientError, OSError, TimeoutError) as error:
            return f"worker {worker.index}: {str(error) or 'does not answer'}"
        return "" if status == web.HTTPOk.status_code else f"worker {worker.index}: {text.strip()}"

    # HTTP

    async def _healthz(self, _request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _readyz(self, _request: web.Request) -> web.Response:
        reasons = await self._unready()
        return web.Response(status=503 if reasons else 200, text="".join(f"{reason}\n" for reason in reasons) or "ok\n")

    async def _metrics(self, _request: web.Request) -> web.Response:
        if self._merging is None or self._merging.done():
            self._merging = asyncio.create_task(self._merged())
        merging = self._merging  # simultaneous requests share it
        await asyncio.wait({merging})
        return web.Response(body=merging.result(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def _merged(self) -> bytes:
        answers = await asyncio.gather(
            *(self._ask(worker, "/metrics") for worker in self._workers), return_exceptions=True
        )
        texts = {}
        for worker, answer in zip(self._workers, answers, strict=True):
            if isinstance(answer, BaseException):
                log.info("worker %d did not return metrics: %s", worker.index, answer or "no answer in time")
            else:
                texts[worker.index] = answer[1]
        # In a thread: many workers with many topics have megabytes, and the kubelet's probes must not wait for them.
        return await asyncio.to_thread(merge, texts)

    async def _page(self, request: web.Request) -> web.Response:
        if not self._quota.enter(asyncio.get_running_loop().time()):
            try:
                reasons = await self._unready()
            finally:
                self._quota.leave(0.0)
        else:
            reasons = ["this broker makes other pages now, so the state of its workers is not shown"]
        host = host_of(f"//{request.host}")
        pages = [(f"worker {one.index}", page_url(host, one.port, tls=self._access.tls)) for one in self._workers]
        return web.Response(text=render_workers(pages, reasons), content_type="text/html", headers=HEADERS)

    async def _unready(self) -> list[str]:
        return [reason for reason in await asyncio.gather(*map(self._why_unready, self._workers)) if reason]

    async def _redirect(self, request: web.Request) -> web.Response:
        urls = [f"{worker.http}{request.path_qs}" for worker in self._workers]
        return web.json_response({"reason": "ask each worker", "workers": urls}, status=404)
