"""The files of a table, by its log: read by no code of Spark or Delta."""

import io
import json
from collections.abc import Callable, Mapping
from urllib.parse import unquote

import pyarrow.parquet as pq

LOGS = {"parquet": "_spark_metadata", "delta": "_delta_log"}
"""The folder of the log in a table, by format."""


def live_files(form: str, log: Mapping[str, bytes]) -> list[str]:
    """Return the files of a table, as paths in it.

    Args:
        form: `parquet`, with the log of Spark's file sink, or `delta`.
        log: the files of the log's folder, by name.
    """
    live: set[str] = set()
    for name in sorted(log):
        lines = log[name].decode(errors="replace").splitlines()
        if form == "parquet" and name.split(".")[0].isdigit():
            live |= {json.loads(line)["path"].rpartition("/table/")[2] for line in lines[1:]}
        elif form == "delta" and name.endswith(".json"):
            for action in map(json.loads, lines):
                live |= {action["add"]["path"]} if "add" in action else set()
                live -= {action["remove"]["path"]} if "remove" in action else set()
    return sorted(map(unquote, live))


def numbers_in(files: list[str], read: Callable[[str], bytes]) -> list[int]:
    """Return the values of files as numbers, sorted; `read` returns the content of a file."""
    tables = [pq.ParquetFile(io.BytesIO(read(name))).read(columns=["value"]) for name in files]
    return sorted(int(value) for table in tables for value in table["value"].to_pylist())
