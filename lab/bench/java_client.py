"""BookKeeper's own Java client as a process, compiled against the distribution's jars, with a protocol of lines."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from typing import TYPE_CHECKING, Final

from devstack.cache import cache_root, content_key
from devstack.errors import DevstackError

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType
    from typing import Any, Self

_COMPILE_SECONDS: Final = 120
_ANSWER_SECONDS: Final = 300
_STOP_SECONDS: Final = 10
_JVM: Final = ("-Xms512m", "-Xmx512m", "-XX:MaxDirectMemorySize=512m", "-Dlog4j2.level=ERROR")


class JavaClient:
    """A running StorageBench.

    Args:
        source: StorageBench.java.
        home: the Pulsar distribution.
        metadata_store: metadata store of the cluster, `zk:HOST:PORT`.

    Raises:
        DevstackError: there is no Java compiler, or the program does not compile.
    """

    def __init__(self, source: Path, home: Path, metadata_store: str) -> None:
        compiler = shutil.which("javac")
        if compiler is None:
            raise DevstackError(
                "no javac in PATH", "install a JDK, for example: apt-get install openjdk-17-jdk-headless"
            )
        classes = cache_root() / "bench" / content_key(source, home.name)
        jars = f"{home}/lib/*"
        if not classes.exists():
            made = subprocess.run(  # noqa: S603
                [compiler, "-cp", jars, "-d", str(classes), str(source)],
                capture_output=True,
                text=True,
                timeout=_COMPILE_SECONDS,
                check=False,
            )
            if made.returncode:
                shutil.rmtree(classes, ignore_errors=True)
                raise DevstackError(f"{source.name} does not compile: {made.stderr}")
        uri = f"zk+hierarchical://{metadata_store.removeprefix('zk:')}/ledgers"
        self._process = subprocess.Popen(  # noqa: S603
            ["java", *_JVM, "-cp", f"{classes}:{jars}", source.stem, uri],  # noqa: S607
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, line: str) -> Any:
        """Send one line, and return its answer, decoded from JSON.

        Raises:
            DevstackError: the program ended, or did not answer in time.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(_ANSWER_SECONDS, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
            for answer in self._process.stdout:
                if answer.startswith('{"'):  # other lines are logs
                    return json.loads(answer)
        finally:
            watchdog.cancel()
        raise DevstackError(f"the Java client ended, or took more than {_ANSWER_SECONDS} s, at: {line}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
