"""Exports on a standalone cluster of Spark, two workers: with the packages of an image, and with code that is sent along."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path
from typing import Final

import pytest

from tests.integration.spark.export_process import Export, publish, values

ROOT: Final = Path(__file__).parents[3]
MESSAGES: Final = 2000
PACKAGED: Final = ("pyproject.toml", "README.md", "LICENSE", "engine", "operator", "spark")

pytestmark = pytest.mark.slow


def make_python(folder: Path, *packages: str) -> str:
    """A Python with the packages that this one has, but without this project, and with more of them from elsewhere."""
    venv.create(folder, with_pip=False)
    own = folder / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"
    # Folders that are named like this are searched, but the .pth files in them, which lead to the project, are not.
    (own / "packages.pth").write_text("\n".join([*packages, sysconfig.get_path("purelib"), ""]))
    return str(folder / "bin" / "python")


@pytest.fixture(scope="module")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What executors have to which code is sent."""
    python = make_python(tmp_path_factory.mktemp("bare"))
    ran = subprocess.run(
        [python, "-c", "import pyarrow, readonly_spark"], cwd="/", capture_output=True, text=True, check=False
    )
    assert "No module named 'readonly_spark'" in ran.stderr
    return python


@pytest.fixture(scope="module")
def installed_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What an image has: the project's wheel, installed; nothing of the checkout."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "source").mkdir()
    for name in PACKAGED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name,
                folder / "source" / name,
                ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "*.so"),
            )
        else:
            shutil.copy(ROOT / name, folder / "source" / name)
    words = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-index"]
    words += ["--no-build-isolation", "--target", str(folder / "packages"), str(folder / "source")]
    subprocess.run(words, check=True, timeout=300)
    return make_python(folder / "venv", str(folder / "packages"))


@pytest.mark.parametrize("way", ["image", "code sent along", "no code"])
def test_an_export_runs_on_two_workers(spark_stack, standalone, spark_client, topic, tmp_path, request, way) -> None:
    publish(spark_client, topic, 0, MESSAGES)
    executors = request.getfixturevalue("installed_python" if way == "image" else "bare_python")
    environment = {**os.environ, "PYSPARK_PYTHON": executors}
    environment.pop("PYTHONPATH", None)
    export = Export(
        spark_stack, topic, tmp_path, "parquet", "--master", standalone.url, "--conf", "spark.executor.memory=600m",
        "--shared-folder", "--option", "maxBytesPerPartition=5k", *(["--ship-code"] if way == "code sent along" else []),
        python=executors if way == "image" else sys.executable, environment=environment,
    )  # fmt: skip
    if way == "no code":
        assert export.process.wait(400) == 1
        assert "readonly_spark" in export.said().splitlines()[-1], "the error names what the workers lack"
        return
    assert export.end()["messages"] == MESSAGES
    assert values(tmp_path, "parquet") == list(range(MESSAGES))
