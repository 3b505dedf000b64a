"""The shape of the project: which part may import which, generated files, and how long a file may be."""

import ast
import graphlib
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.tree import imports_inside, sources

ROOT = Path(__file__).parents[2]
ENGINE = ROOT / "engine" / "readonly_engine"
OPERATOR = ROOT / "operator" / "readonly_operator"
SPARK = ROOT / "spark" / "readonly_spark"
WIRE = ENGINE / "wire"

BELOW = {
    "wire": set(),
    "net": {"background"},
    "config": {"metadata", "net"},
    "metadata": {"wire", "net", "background", "clock"},
    "bookkeeper": {"metadata", "wire", "net", "background", "tracing", "waiting"},
    "tiered": {"config", "wire", "tracing", "waiting"},
    "topic": {"config", "tiered", "bookkeeper", "metadata", "wire", "background", "small_map", "waiting"},
    "tool": {"topic", "tiered", "bookkeeper", "metadata", "wire", "config", "net", "collector"},
    "owner": {"config", "topic", "metadata", "wire", "net", "background", "clock", "tracing", "waiting"},
    "broker": {
        "tracing",
        "owner",
        "topic",
        "tiered",
        "bookkeeper",
        "metadata",
        "wire",
        "config",
        "net",
        "lease_guard",
        "background",
        "clock",
        "log_bounds",
        "small_map",
        "waiting",
    },
    "subscriptions": {"tool", "broker", "owner", "topic", "metadata", "wire", "config", "net"},
    "replays": {"tool", "broker", "topic", "metadata", "config", "net"},
    "doctor": {"tool", "broker", "owner", "tiered", "bookkeeper", "metadata", "wire", "config", "net"},
    "sizing": {"tool", "doctor", "broker", "owner", "topic", "metadata", "config", "net", "status"},
    "status": set(),
    "http": {"status", "broker", "owner", "topic", "bookkeeper", "metadata", "wire", "net", "background"},
    "top": {"status", "tool", "config", "net"},
    "demo": {"top", "tool", "metadata", "config"},
    "workers": {"status", "http", "config", "net", "background"},
    "wake": {"wire", "config", "net", "background", "logs"},
}
"""Arrows point down only. http/ asks the broker; nothing asks http/ but serve.py."""


def imports_of(path):
    """Full names of the modules that a file imports, also for type checking only."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            module = node.module or ""
            # `from package import module` imports the module.
            yield module
            yield from (f"{module}.{alias.name}" for alias in node.names)


def assert_imports_only(folder, allowed):
    """Of the package that a folder or module is in, it imports these parts and no others."""
    package, files = folder.parent.name, [folder] if folder.suffix else sources(folder)
    assert files
    for path in files:
        for name in imports_of(path):
            first, _, rest = name.partition(".")
            if first == package and rest:
                assert rest.partition(".")[0] in allowed, f"{path.relative_to(ROOT)} imports {name}"


def test_every_folder_of_the_engine_has_its_place():
    assert {path.name for path in ENGINE.iterdir() if (path / "__init__.py").exists()} == set(BELOW)


@pytest.mark.parametrize("layer", BELOW)
def test_a_layer_imports_what_is_below_it_only(layer):
    assert_imports_only(ENGINE / layer, BELOW[layer] | {layer, "__version__", "native"})


@pytest.mark.parametrize("path", sources(WIRE), ids=lambda path: path.name)
def test_codecs_touch_nothing_but_bytes(path):
    forbidden = {
        "socket",
        "asyncio",
        "time",
        "datetime",
        "logging",
        "os",
        "pathlib",
        "io",
        "threading",
        "ssl",
        "random",
    }
    assert {name.partition(".")[0] for name in imports_of(path)} & forbidden == set()


@pytest.mark.parametrize(
    "path",
    [
        "bookkeeper/session.py",
        "owner/session.py",
        "owner/ack_grouping.py",
        "owner/auth_refresh.py",
        "owner/consumer_events.py",
        "owner/handlers.py",
        "owner/identity.py",
        "owner/lease.py",
        "owner/probe_detector.py",
        "owner/recent_acks.py",
        "owner/responses.py",
        "owner/resume.py",
        "broker/replay/replay.py",
        "broker/split/codec.py",
        "broker/split/codecs.py",
        "broker/split/coordinator.py",
        "broker/split/key_codec.py",
        "broker/split/key_coordinator.py",
        "broker/split/key_member.py",
        "broker/split/keys.py",
        "broker/split/lease_clock.py",
        "broker/split/leases.py",
        "broker/split/machines.py",
        "broker/split/member.py",
        "broker/split/member_leases.py",
        "broker/split/session.py",
        "broker/consumer/relay_marks.py",
        "broker/consumer/route.py",
        "broker/session/handshake.py",
        "broker/pool/claims.py",
        "broker/cursors/commits.py",
        "broker/cursors/consumers.py",
        "broker/cursors/coverage.py",
        "broker/cursors/expected_consumers.py",
        "broker/cursors/guard.py",
        "broker/cursors/local_requests.py",
        "broker/cursors/partitions.py",
        "broker/cursors/topic_cursors.py",
        "metadata/lease.py",
        "topic/replay/chain.py",
        "topic/replay/clock.py",
        "topic/replay/gate.py",
        "wake/arming.py",
        "wake/connections.py",
        "wake/session.py",
    ],
)
def test_sessions_are_pure(path):
    assert {module.partition(".")[0] for module in imports_of(ENGINE / path)} & {
        "socket", "asyncio", "time", "datetime", "logging", "os"
    } == set()  # fmt: skip


@pytest.mark.parametrize("path", sources(ENGINE / "doctor" / "checks"), ids=lambda path: path.name)
def test_checks_of_the_doctor_are_pure(path):
    """They get observations, and import the other checks only."""
    names = set(imports_of(path))
    assert {name.partition(".")[0] for name in names} & {
        "socket", "asyncio", "time", "datetime", "logging", "os", "pathlib", "ssl", "aiohttp", "random"
    } == set()  # fmt: skip
    inside = {name for name in names if name.startswith("readonly_engine.")}
    assert all(f"{name}.".startswith("readonly_engine.doctor.checks.") for name in inside)


def test_options_know_of_metadata_stores_only_their_urls_and_their_security():
    used = {name for path in sources(ENGINE / "config") for name in imports_of(path) if ".metadata" in name}
    assert {".".join(name.split(".")[:3]) for name in used} == {
        "readonly_engine.metadata.errors",
        "readonly_engine.metadata.security",
        "readonly_engine.metadata.url",
    }


def test_the_modules_of_the_options_have_no_import_circle():
    """Also not for type checking only."""
    graph = {
        name: {module for module in found if module.startswith("readonly_engine.config.")}
        for name, found in imports_inside(ENGINE, types=True).items()
        if name.startswith("readonly_engine.config.")
    }
    assert sum(map(len, graph.values())) > len(graph)
    list(graphlib.TopologicalSorter(graph).static_order())


BROKER = ENGINE / "broker"

BROKERS_ROOMS = {
    "dispatch": {"config", "topic", "wire"},
    "pool": {"config", "owner", "metadata", "wire", "background", "clock", "lease_guard"},
    "fanout": {"dispatch", "topic", "net", "lease_guard"},
    "tail": {
        "fanout",
        "dispatch",
        "owner",
        "topic",
        "bookkeeper",
        "metadata",
        "wire",
        "net",
        "background",
        "lease_guard",
    },
    "cursors": {"pool", "owner", "topic", "metadata", "config", "net", "wire", "background", "waiting"},
    "subscription": {
        "cursors",
        "tail",
        "fanout",
        "dispatch",
        "owner",
        "topic",
        "tiered",
        "bookkeeper",
        "metadata",
        "config",
        "wire",
        "background",
        "clock",
        "lease_guard",
        "small_map",
    },
    "replay": {"cursors", "pool", "owner", "topic", "bookkeeper", "metadata", "wire", "background"},
    "split": {
        "subscription",
        "pool",
        "dispatch",
        "owner",
        "topic",
        "metadata",
        "wire",
        "background",
        "clock",
    },
    "passthrough": {"subscription", "dispatch", "owner", "topic", "metadata", "wire", "background", "waiting"},
    "consumer": {
        "replay",
        "cursors",
        "passthrough",
        "split",
        "subscription",
        "tail",
        "pool",
        "dispatch",
        "owner",
        "topic",
        "metadata",
        "config",
        "net",
        "wire",
        "clock",
    },
    "session": {
        "tracing",
        "replay",
        "background",
        "consumer",
        "cursors",
        "passthrough",
        "subscription",
        "fanout",
        "pool",
        "dispatch",
        "owner",
        "topic",
        "metadata",
        "config",
        "net",
        "wire",
        "clock",
        "log_bounds",
    },
    "server": {
        "replay",
        "background",
        "consumer",
        "split",
        "cursors",
        "session",
        "passthrough",
        "subscription",
        "fanout",
        "pool",
        "dispatch",
        "owner",
        "topic",
        "metadata",
        "config",
        "net",
        "wire",
        "lease_guard",
    },
}
"""The rooms of broker/, lowest first, and the rooms and parts of the engine that each may import."""


def test_every_module_of_the_broker_has_a_room():
    assert {path.name for path in BROKER.iterdir() if (path / "__init__.py").exists()} == set(BROKERS_ROOMS)
    assert [path.name for path in BROKER.glob("*.py")] == ["__init__.py"]


@pytest.mark.parametrize("room", BROKERS_ROOMS)
def test_a_room_of_the_broker_imports_lower_rooms_only(room):
    allowed = BROKERS_ROOMS[room] | {room, "native"}
    for path in sources(BROKER / room):
        for name in imports_of(path):
            if not name.startswith("readonly_engine.") or name in {
                "readonly_engine.broker",
                "readonly_engine.__version__",
            }:
                continue
            inside = name.removeprefix("readonly_engine.").removeprefix("broker.")
            assert inside.partition(".")[0] in allowed, f"{room}/{path.name} imports {name}"


def test_the_rooms_of_the_broker_have_an_order():
    """graphlib raises CycleError where they have none."""
    order = list(BROKERS_ROOMS)
    rooms = {room: allowed & set(order) for room, allowed in BROKERS_ROOMS.items()}
    assert len(list(graphlib.TopologicalSorter(rooms).static_order())) == len(order)
    assert all(order.index(lower) < order.index(room) for room, allowed in rooms.items() for lower in allowed)


def test_the_operator_knows_the_engines_configuration_and_nothing_else_of_it():
    """The forms of metadata stores are a part of it: one declaration for engine, operator and Spark."""
    files = sources(OPERATOR)
    assert files
    for path in files:
        allowed = {"config", "metadata.url", *(PLUGINS_OF_ENGINE if path.parent.name == "kubectl" else ())}
        for name in imports_of(path):
            package, _, rest = name.partition(".")
            if package == "readonly_engine":
                known = any(f"{rest}.".startswith(f"{part}.") for part in allowed)
                assert known, f"{path.relative_to(ROOT)} imports {name}"


PLUGINS_OF_ENGINE = {
    "status",
    "top.columns",
    "top.observed",
    "top.options",
    "top.showing",
    "tool.errors",
    "tool.run",
}
"""What the plugin of kubectl has of the engine: states of brokers and their screen. None of it opens a connection."""

OPERATORS_ROOMS = {
    "kube": {"metrics", "selector"},
    "api": {"kube"},
    "bindings": {"api", "kube"},
    "model": {"api", "kube", "settings"},
    "cluster": {"api", "kube", "metrics"},
    "assembly": {"cluster", "model", "bindings", "api", "kube", "metrics", "settings"},
    "runtime": {"assembly", "cluster", "model", "bindings", "api", "kube", "metrics", "settings"},
    "kubectl": {"api", "kube"},
}
OPERATORS_ROOT = {
    "__init__": set(),
    "selector": set(),
    "settings": {"selector"},
    "metrics": set(),
    "command": {"runtime", "settings"},
}
"""The operator's modules outside of a room."""


def test_every_module_of_the_operator_has_its_room():
    rooms = {path.name for path in OPERATOR.iterdir() if (path / "__init__.py").exists()}
    assert rooms == set(OPERATORS_ROOMS)
    assert {path.stem for path in OPERATOR.glob("*.py")} == set(OPERATORS_ROOT)


@pytest.mark.parametrize("room", [*OPERATORS_ROOMS, *OPERATORS_ROOT])
def test_a_room_of_the_operator_imports_lower_rooms_only(room):
    allowed = {**OPERATORS_ROOMS, **OPERATORS_ROOT}[room] | {room}
    assert_imports_only(OPERATOR / room if room in OPERATORS_ROOMS else OPERATOR / f"{room}.py", allowed)


def test_the_rooms_of_the_operator_have_an_order():
    """graphlib raises CycleError where they have none."""
    assert len(list(graphlib.TopologicalSorter({**OPERATORS_ROOMS, **OPERATORS_ROOT}).static_order())) > len(
        OPERATORS_ROOMS
    )


def test_no_modules_of_the_operator_import_each_other():
    """Also not for type checking only."""
    graph = imports_inside(OPERATOR, types=True)
    assert sum(map(len, graph.values())) > len(graph)
    list(graphlib.TopologicalSorter(graph).static_order())


def test_the_engine_does_not_import_the_operator():
    for path in sources(ENGINE):
        assert not any(name.partition(".")[0] == "readonly_operator" for name in imports_of(path)), path


def test_the_product_imports_nothing_of_the_laboratory_and_the_tests():
    others = {"bench", "devstack", "docsite", "lab", "longtests", "tests"}
    for path in (file for folder in (ENGINE, OPERATOR, SPARK) for file in sources(folder)):
        assert not {name.partition(".")[0] for name in imports_of(path)} & others, path


SPARK_BELOW = {
    "values": set(),
    "rows": {"values"},
    "read": {"rows", "values", "task", "errors", "loop_thread", "outages"},
    "plan": {"values", "rows", "task", "options", "option_values", "position_options", "errors", "outages"},
    "lag": {"plan", "options", "errors", "loop_thread", "message_ids", "closing"},
    "export": {"plan", "rows", "lag", "source", "options", "errors", "loop_thread", "message_ids", "closing"},
}
"""The packages of the data source, and what each may import of it."""

SPARK_PURE = [
    *sorted(path.relative_to(SPARK).as_posix() for room in ("rows", "values") for path in (SPARK / room).glob("*.py")),
    "lag/topic_lag.py",
    "message_ids.py",
    "offsets.py",
    "option_list.py",
    "options.py",
    "outages.py",
    "plan/admission.py",
    "plan/open_chunks.py",
    "plan/splits.py",
    "plan/topic_state.py",
    "option_values.py",
    "position_options.py",
    "read/fetch.py",
    "read/rate_limit.py",
    "task.py",
]


def test_the_data_source_has_no_import_circle():
    arrows = imports_inside(SPARK, types=True)
    assert len(arrows) > 40
    list(graphlib.TopologicalSorter(arrows).static_order())


def test_every_package_of_the_data_source_has_its_place():
    assert {path.name for path in SPARK.iterdir() if (path / "__init__.py").exists()} == set(SPARK_BELOW)


@pytest.mark.parametrize("package", SPARK_BELOW)
def test_a_package_of_the_data_source_imports_what_is_below_it_only(package):
    assert_imports_only(SPARK / package, SPARK_BELOW[package] | {package})


@pytest.mark.parametrize(
    "module",
    [
        "closing",
        "errors",
        "loop_thread",
        "message_ids",
        "offsets",
        "options",
        "option_values",
        "outages",
        "position_options",
    ],
)
def test_what_the_packages_of_the_data_source_share_imports_none_of_them(module):
    for name in imports_of(SPARK / f"{module}.py"):
        first, _, rest = name.partition(".")
        assert first != "readonly_spark" or rest.partition(".")[0] not in SPARK_BELOW, name


def test_the_data_source_uses_the_storage_floor_and_nothing_above_it():
    files = sources(SPARK)
    assert files
    allowed = {"topic", "tiered", "bookkeeper", "metadata", "config", "wire", "net", "native", "__version__"}
    of_admin_api = {"owner.admin", "owner.cursor_admin", "owner.errors"}
    for path in files:
        for name in imports_of(path):
            first, _, rest = name.partition(".")
            assert first != "readonly_operator", path
            if first == "readonly_engine" and rest:
                known = any(f"{rest}.".startswith(f"{module}.") for module in of_admin_api)
                assert rest.partition(".")[0] in allowed or known, f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("name", SPARK_PURE)
def test_the_data_source_plans_and_decodes_without_spark_and_sockets(name):
    forbidden = {"pyspark", "socket", "asyncio", "time", "logging", "os", "threading", "ssl", "random", "selectors"}
    assert {module.partition(".")[0] for module in imports_of(SPARK / name)} & forbidden == set()


def test_only_the_shell_of_the_data_source_knows_spark():
    knowing = {path.name for path in sources(SPARK) if any(name.startswith("pyspark") for name in imports_of(path))}
    assert knowing == {"source.py", "file_source.py", "session.py", "command.py", "progress.py", "listener.py"}


def test_generated_protobuf_modules_match_their_schemas(tmp_path):
    """`make proto` makes them again."""
    schemas = sorted(path.name for path in WIRE.glob("*.proto"))
    assert schemas
    subprocess.run(
        [sys.executable, "-m", "grpc_tools.protoc", f"-I{WIRE}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", *schemas],
        check=True, timeout=60,
    )  # fmt: skip
    made = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    there = {path.name: path.read_bytes() for path in WIRE.glob("*_pb2.py*")}
    changed = sorted(name for name in made.keys() | there.keys() if made.get(name) != there.get(name))
    assert changed == [], "run: make proto"


def test_no_file_is_above_700_lines():
    files = subprocess.run(
        ["git", "ls-files", "-z", "*.py", "*.sh", "*.md", "*.yaml", "*.proto", "Makefile", "Dockerfile"],
        cwd=ROOT, check=True, capture_output=True, text=True, timeout=20,
    ).stdout.split("\0")  # fmt: skip
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in files
        if name and not name.endswith("_pb2.py") and (ROOT / name).exists()
        if "crds/" not in name and "/golden/" not in name  # generated ones
    }
    assert len(lengths) > 100
    assert {name: length for name, length in lengths.items() if length > 700} == {}
