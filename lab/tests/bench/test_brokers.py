"""The parts of `python -m bench` that need no Pulsar: samples, tables, plots, the document, and the load client's program."""

import os
import re
import socket
import struct
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ET

import pytest

from bench.__main__ import BENCHES, main
from bench.client import LoadClient
from bench.cpu import Meter, family, resident_bytes
from bench.document import insert, marks, page_of, save
from bench.figures import Bar, Report, Sample, ratio
from bench.plan import Plan
from bench.plot import draw, nice_step
from bench.scenarios.fan_out import WORKS
from bench.sides import Measured, Round, Workload, behind
from devstack.errors import DevstackError
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import STOCK_VERSION, PulsarSpec


def test_a_sample_says_its_median_and_its_spread():
    assert Sample((3.0, 1.0, 2.0)).text(".1f") == "2.0 (1.0 to 3.0)"
    assert Sample((0.5,)).text(".0%") == "50%"


def test_a_ratio_is_taken_round_by_round():
    # Whatever made the second round slow slowed both sides.
    assert ratio([1.0, 10.0], [4.0, 40.0]).values == (0.25, 0.25)
    assert ratio([1.0], [0.0]).values == (float("inf"),)


def test_sides_change_places_in_each_round():
    plan = Plan()
    assert [plan.turns(number, "ab") for number in range(3)] == [["a", "b"], ["b", "a"], ["a", "b"]]


def test_shapes_are_picked_by_their_names():
    assert next(str(shape) for shape in Plan(only="1,000 x").pick(WORKS, ())) == "1,000 x 10/s, 1 KB"
    assert Plan(only="40,000").pick((1_000, 40_000), ()) == Plan(only="40000").pick((1_000, 40_000), ()) == [40_000]
    assert str(Plan(2, 6.0, only="1 KB")) == "2 rounds of 6 s per side, only shapes with “1 KB”"
    assert Plan(only="1 KB").described("once a side") == "once a side, only shapes with “1 KB”"
    assert str(Plan(2, 6.0, transactions=True)) == "2 rounds of 6 s per side, transactions on"
    assert str(Plan(2, 6.0, tail="bookies", explicit_lac_ms=0)) == (
        "2 rounds of 6 s per side, --tail bookies, explicit LAC off"
    )
    assert Plan(explicit_lac_ms=1000).described("once a side") == "once a side, explicit LAC every 1000 ms"
    assert Plan(release=STOCK_VERSION).named("latency") == "latency"
    assert Plan(release="5.0.0-M1", explicit_lac_ms=0).named("latency") == "latency-5.0.0-M1-lac-0"
    assert Plan(transactions=True, tail="owner", explicit_lac_ms=0, release=STOCK_VERSION).named("latency") == (
        "latency-transactions-tail-owner-lac-0"
    )
    assert str(Plan(short=True)) == "5 rounds of 8 s per side, a small part of the shapes"
    assert Plan(short=True).pick(WORKS, WORKS[:1]) == [WORKS[0]]


def side(name, delivered, **cpu):
    return Measured(name, 10.0, 1000, delivered, cpu, {})


def test_the_owner_is_charged_for_what_readers_add():
    one = Round(
        side("owner", 100_000, owner=2.0), side("pool", 100_000, owner=1.1, engine=0.25), side("baseline", 0, owner=1.0)
    )
    assert one.owner_us == pytest.approx(10.0)
    assert one.pool_us == pytest.approx(2.5)
    assert one.saved == pytest.approx(0.9)
    assert one.left_us == pytest.approx(1.0)


def test_a_side_that_does_not_keep_up_is_named():
    one = Round(side("owner", 50_000), side("pool", 40_000))
    assert behind(Workload(50, 100), [one]) == [
        "50 x 100/s, 1 KB, pool: 80% of the published messages were delivered in time."
    ]
    assert behind(Workload(50, 100, shared=True), [Round(side("owner", 1000), side("pool", 1000))]) == []


REPORT = Report(
    ("what", "µs"),
    (("a & b", "1.0"),),
    "µs",
    (Bar("a & b", "owner", Sample((1.0, 3.0))), Bar("a & b", "pool", Sample((0.5,)))),
)


def test_a_table_has_its_figures_on_the_right():
    assert REPORT.table().splitlines() == ["| what | µs |", "|---|---:|", "| a & b | 1.0 |"]


def test_a_plot_is_a_picture_with_a_bar_for_each_sample():
    root = ET.fromstring(draw("T < U", "µs", REPORT.bars))
    names = [element.tag.rpartition("}")[2] for element in root]
    assert names.count("rect") == 1 + 2 + 2  # paper, legend, bars
    assert "a & b" in [element.text for element in root]


@pytest.mark.parametrize(("highest", "step"), [(5.0, 1.0), (0.9, 0.2), (23.0, 5.0), (0.0, 1.0), (1000.0, 200.0)])
def test_a_grid_has_about_five_lines(highest, step):
    assert nice_step(highest) == pytest.approx(step)


def test_a_page_has_a_place_for_each_bench_and_keeps_the_rest():
    for name in BENCHES:
        text = page_of(name).read_text(encoding="utf-8")
        once = insert(text, name, "made of whole cloth")
        assert once.count("made of whole cloth") == 1
        assert insert(once, name, text.partition(marks(name)[0] + "\n")[2].partition("\n" + marks(name)[1])[0]) == text
    assert page_of("no-such-bench") is None
    with pytest.raises(ValueError, match="no lines"):
        insert("nothing", "fan-out", "made")


def test_json_and_plot_are_saved(tmp_path):
    save(REPORT, "a-bench", "A bench", {"rounds": 2}, tmp_path)
    assert '"a & b"' in (tmp_path / "a-bench.json").read_text()
    assert (tmp_path / "a-bench.svg").exists()


def test_the_command_says_what_is_wrong(capsys):
    assert main(["fan-out", "--rounds", "0"]) == 2
    assert "--rounds" in capsys.readouterr().err
    assert main(["fan-out", "--transactions", "--write"]) == 2
    assert "use --out FOLDER" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["fan-in"])
    assert "fan-out" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["bench", "fan-out"], ["bench.versions", "CHECKOUT"]])
def test_what_keeps_its_pulsar_from_starting_is_said_with_its_remedy(words, tmp_path):
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    words = [str(tmp_path) if word == "CHECKOUT" else word for word in words]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        command = [sys.executable, "-m", *words, "--base-port", str(port)]
        ended = subprocess.run(command, check=False, capture_output=True, text=True)
    PulsarCluster(PulsarSpec(name=f"bench-brokers-{port}", base_port=port)).down(purge=True)
    assert ended.returncode == 1
    assert re.search(r"^error: port \d+ for .* is in use", ended.stderr, re.MULTILINE)
    assert ended.stderr.endswith("\n  choose other ports with --base-port\n")


def test_a_meter_counts_a_process_and_its_children():
    began = time.monotonic()
    meter = Meter({"me": [os.getpid()]})
    inner = time.process_time()
    for _ in range(10_000):
        pass  # less than a hundredth of a second
    least = time.process_time() - inner
    assert least <= meter.used()["me"] <= (time.monotonic() - began) * (os.cpu_count() or 1)
    assert os.getpid() in family(os.getpid())
    assert resident_bytes([os.getpid()]) > 1_000_000
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    assert resident_bytes([ended.pid, os.getpid()]) == pytest.approx(resident_bytes([os.getpid()]), rel=0.1)


def frame(kind: int, body: bytes, rest: bytes = b"") -> bytes:
    command = (
        bytes([8, kind]) + bytes([kind << 3 | 2])
        if kind < 16
        else bytes([8, kind]) + bytes([(kind << 3 | 2) & 127 | 128, kind >> 4])
    )
    command += bytes([len(body)]) + body
    return struct.pack(">II", len(command) + 4 + len(rest), len(command)) + command + rest


def serve_one(server: socket.socket, answers: list[bytes]) -> None:
    """Answer each frame that comes with the next of the answers."""
    client, _ = server.accept()
    with client:
        for answer in answers:
            size = struct.unpack(">I", client.recv(4, socket.MSG_WAITALL))[0]
            client.recv(size, socket.MSG_WAITALL)
            client.sendall(answer)
        while client.recv(1 << 16):
            pass


def test_the_load_client_counts_messages_in_batches():
    """Against a server of a few bytes: CONNECTED, LOOKUP_RESPONSE, SUCCESS, a batch of three, a message, and the end."""
    stamp = struct.pack(">Q", 1)
    batch = struct.pack(">I", 2) + bytes([11 << 3, 3]) + struct.pack(">I", 2) + bytes([24, 8]) + stamp
    one = struct.pack(">I", 2) + bytes([24, 5]) + stamp
    message = bytes([8, 0, 0x12, 4, 8, 7, 16, 9])
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"127.0.0.1:{server.getsockname()[1]}"
        place = f"pulsar://{url}".encode()
        lookup = bytes([10, len(place)]) + place + bytes([24, 1, 32, 1])
        answers = [
            frame(3, b"\x0a\x01x"),
            frame(24, lookup),
            frame(13, bytes([8, 10])),
            frame(9, message, batch) + frame(9, message, one),
        ]
        thread = threading.Thread(target=serve_one, args=(server, answers))
        thread.start()
        with LoadClient("consume", broker=url, topic="persistent://a/b/c") as client:
            counted, worst, deadline = client.counted(), 0.0, time.monotonic() + 30
            # Messages are counted before their latencies, and each answer has the latencies since the answer before.
            while counted.messages < 4 or worst <= 1000:
                worst = max(worst, counted.latency_ms["worst"])
                assert time.monotonic() < deadline
                counted = client.counted()
            assert (counted.messages, counted.entries) == (4, 2)
        thread.join(10)


def test_the_load_client_says_that_it_was_refused():
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"127.0.0.1:{server.getsockname()[1]}"
        thread = threading.Thread(
            target=serve_one, args=(server, [frame(14, bytes([8, 1, 16, 4, 0x1A, 2]) + b"no")]), daemon=True
        )
        thread.start()
        with pytest.raises(DevstackError, match="ended unexpectedly"):
            LoadClient("consume", broker=url, topic="persistent://a/b/c")


def test_a_bench_that_measured_nothing_says_what_was_asked_for():
    Report(("a",), (("b",),)).expect_rows("growth", "x")
    with pytest.raises(DevstackError, match="--only 7 cats: no shape of growth has that in its name"):
        Report(("a",), ()).expect_rows("growth", "7 cats")
