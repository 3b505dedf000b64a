"""Exports on a standalone cluster of Spark: a master and two workers, with the same packages and with code that is sent along."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import sysconfig
import time
import venv
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pulsar as pulsar_lib
import pyspark
import pytest
from pyarrow import dataset

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 400
MESSAGES: Final = 2000

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
]


def wait_for(log: Path, expression: str) -> str:
    deadline = time.monotonic() + DEADLINE_S
    while True:
        found = re.search(expression, log.read_text())
        if found:
            return found[0]
        assert time.monotonic() < deadline, log.read_text()[-2000:]
        time.sleep(0.1)  # until it says so


@pytest.fixture(scope="module")
def master(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a master that two workers have registered at. Their folder is not the project's."""
    folder = tmp_path_factory.mktemp("standalone")
    program = str(Path(pyspark.__file__).parent / "bin" / "spark-class")
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_WORKER_DIR": str(folder / "work")}
    environment.pop("PYTHONPATH", None)

    def start(name: str, *words: str) -> Path:
        log = folder / f"{name}.log"
        with log.open("wb") as out:
            process = subprocess.Popen([program, *words], cwd=folder, env=environment, stdout=out, stderr=out)
        started.callback(process.wait, 60)
        started.callback(process.terminate)
        return log

    deploy = "org.apache.spark.deploy"
    with ExitStack() as started:
        log = start("master", f"{deploy}.master.Master", "--host", "127.0.0.1", "--port", "0", "--webui-port", "0")
        url = wait_for(log, r"spark://127\.0\.0\.1:\d+")
        options = ("--host", "127.0.0.1", "--cores", "1", "--memory", "1g", "--webui-port", "0", url)
        for name in ("worker-1", "worker-2"):
            wait_for(start(name, f"{deploy}.worker.Worker", *options), "Successfully registered with master")
        yield url


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A Python with the packages of this one, but without this project."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, with_pip=False)
    packages = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # A folder that is named like this is searched, but the .pth files in it, which lead to the project, are not.
    (packages / "packages.pth").write_text(sysconfig.get_path("purelib") + "\n")
    python = str(folder / "bin" / "python")
    ran = subprocess.run(
        [python, "-c", "import pyarrow, readonly_spark"], cwd="/", capture_output=True, text=True, check=False
    )
    assert "No module named 'readonly_spark'" in ran.stderr
    return python


@pytest.mark.parametrize("way", ["same packages", "code sent along", "no code"])
def test_an_export_runs_on_two_workers(spark_stack, master, bare_python, topic, tmp_path, way) -> None:
    client = pulsar_lib.Client(
        spark_stack.endpoints.writer_url, logger=pulsar_lib.ConsoleLogger(pulsar_lib.LoggerLevel.Error)
    )
    producer = client.create_producer(topic, batching_enabled=True, batching_max_messages=5, block_if_queue_full=True)
    for number in range(MESSAGES):
        producer.send_async(str(number).encode(), None)
    producer.flush()
    client.close()
    words = [
        sys.executable,
        "-m",
        "readonly_engine.command",
        "export",
        "--topics",
        topic,
        "--to",
        str(tmp_path / "table"),
    ]
    words += ["--metadata-store", spark_stack.endpoints.metadata_store, "-o", "json", "--master", master]
    words += ["--option", "maxBytesPerPartition=5k", "--conf", "spark.executor.memory=600m"]
    words += ["--conf", "spark.driver.host=127.0.0.1", "--conf", "spark.driver.bindAddress=127.0.0.1"]
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable if way == "same packages" else bare_python}
    environment.pop("PYTHONPATH", None)
    if way == "code sent along":
        words.append("--ship-code")
    ran = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    if way == "no code":
        assert ran.returncode == 1
        assert "readonly_spark" in ran.stderr.splitlines()[-1], "the error names what the workers lack"
        return
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert json.loads(ran.stdout.splitlines()[-1])["messages"] == MESSAGES
    table = dataset.dataset(tmp_path / "table", format="parquet", exclude_invalid_files=False).to_table(
        columns=["value"]
    )
    assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(MESSAGES))
