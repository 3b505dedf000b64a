"""Every block of commands in the documentation is run by a test, or listed with the reason; no command is wrong."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from readonly_operator.api.binding import Binding
from readonly_operator.api.pool import Pool

from devstack.kube import programs
from tests.shell_blocks import offline
from tests.shell_blocks.blocks import (
    DOCS,
    GENERATED,
    ROOT,
    SHELLS,
    Block,
    candidates,
    commands,
    has_commands,
    in_text,
    indented,
    of_page,
    pages,
    program,
    spans,
)
from tests.shell_blocks.checks import OURS, problems, schema, unknown
from tests.shell_blocks.options import unknown_options
from tests.shell_blocks.pulsar_tools import ToolCommand, on_pages, tool_command
from tests.shell_blocks.registry import PAGES, Outcome
from tests.shell_blocks.running import Shell, find
from tests.support.yaml_documents import load_all_yaml

BLOCKS = candidates()
ROWS = [(page, begin, row) for page, rows in PAGES.items() for begin, row in rows.items()]
LOCAL = [(page, begin, row.note) for page, begin, row in ROWS if row.outcome is Outcome.LOCAL]
CLUSTER = [(page, begin, row.note) for page, begin, row in ROWS if row.outcome is Outcome.CLUSTER]
SHORTEST_BEGIN = 4
"""Of the text by which a test finds a block."""
TOKENS = ("pool-reader.jwt", "token")
"""Files that commands read, with something in them."""
FEWEST_WORDS = 4
"""Of a reason."""


def rows_of(block: Block) -> list[str]:
    """The begins of the rows that a block belongs to."""
    return [begin for begin in PAGES.get(block.page, {}) if block.first.startswith(begin)]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}: {block.first[:50]}")
def test_every_block_has_one_row(block):
    assert len(rows_of(block)) == 1, "give it a row in tests/shell_blocks/registry.py"


def test_no_row_is_without_its_block():
    left = [
        (page, begin)
        for page, begin, _ in ROWS
        if len([one for one in BLOCKS if begin in rows_of(one) and one.page == page]) != 1
    ]
    assert left == []
    assert set(PAGES) <= set(pages())


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}: {block.first[:50]}")
def test_what_counts_as_no_commands_has_none(block):
    (begin,) = rows_of(block)
    assert has_commands(block.text) is (PAGES[block.page][begin].outcome is not Outcome.NO_COMMANDS)


def test_blocks_of_other_languages_have_no_commands():
    """Else a language could hide them from the registry."""
    blocks = [block for page in pages() for block in of_page(page) if block.language not in SHELLS]
    assert len(blocks) > 10
    assert [block.first for block in blocks if has_commands(block.text)] == []


def test_every_reason_is_a_sentence_about_what_exists():
    for page, begin, row in ROWS:
        if row.outcome is Outcome.NOT_RUN:
            assert len(row.note.split()) >= FEWEST_WORDS, (page, begin)
            assert [name for name in row.note.replace(";", " ").replace("`", " ").split() if is_missing(name)] == []


@pytest.mark.parametrize(("page", "begin", "test"), CLUSTER, ids=lambda value: str(value)[-40:])
def test_the_named_test_runs_the_block(page, begin, test):
    path, _, name = test.partition("::")
    known = texts_of((ROOT / path).read_text(encoding="utf-8"))
    assert name in known
    (block,) = [one for one in BLOCKS if one.page == page and begin in rows_of(one)]
    assert page in known[name]
    assert [one for one in known[name] if len(one) >= SHORTEST_BEGIN and block.first.startswith(one)]


def texts_of(source: str) -> dict[str, set[str]]:
    """The texts in each test of a file, with those of its fixtures in that file."""
    functions = {one.name: one for one in ast.parse(source).body if isinstance(one, ast.FunctionDef)}

    def texts(name: str) -> set[str]:
        node = functions[name]
        own = {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and isinstance(one.value, str)}
        return own.union(*(texts(one.arg) for one in node.args.args if one.arg in functions and one.arg != name))

    return {name: texts(name) for name in functions if name.startswith("test_")}


def is_missing(name: str) -> bool:
    """Whether a word of a reason is a path in tests/ that does not exist."""
    return name.startswith("tests/") and not (ROOT / name.rstrip(".,")).exists()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: f"{block.page}: {block.first[:50]}")
def test_the_commands_have_options_paths_and_names_that_exist(block):
    if has_commands(block.text):
        found = {" ".join(words): wrong for words in commands(block.text) if (wrong := problems(words))}
        assert found == {}


@pytest.mark.parametrize("page", sorted(GENERATED))
def test_commands_on_generated_pages_are_right_too(page):
    """They need no row: programs write these pages, and most of their blocks are the help of a command."""
    blocks = [one for one in of_page(page) if one.language in SHELLS]
    shown = [
        one
        for one in blocks
        if has_commands(one.text) or re.search(r"^ *pulsar-readonly [a-z]", one.text, re.MULTILINE)
    ]
    every = [words for one in shown for words in commands(one.text)]
    assert {" ".join(words): wrong for words in every if (wrong := problems(words))} == {}


def test_every_page_is_looked_at():
    every = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert every == {page for page in pages() if not page.startswith("../")} | GENERATED
    top = {f"../{path.name}" for path in ROOT.glob("*.md")} | {"../lab/README.md"}
    assert {page for page in pages() if page.startswith("../")} == top - {"../CHANGELOG.md"}


@pytest.mark.parametrize("page", pages())
def test_no_command_is_hidden_by_its_indentation(page):
    """An indented block is no fence, so the registry would not see it."""
    assert indented((DOCS / page).read_text(encoding="utf-8")) == []


def test_an_indented_command_is_found():
    assert indented("Text:\n\n    make demo\n\n    a picture\n") == ["make demo"]
    assert indented("- item\n  ```\n      make demo\n  ```\n") == []


FORMS = re.compile(r"[A-Z]{3,}|\.\.\.|…|^pulsar-readonly [a-z]+:|^kubectl readonly$")
"""Text between backticks that shows a form or a message, and is no command to type."""

NAMES_OF_COMMANDS = re.compile(r"(?:pulsar-readonly|kubectl|helm|make|pulsar-admin)(?: [a-z-]+){1,2}")
"""Text between backticks that names a command without its arguments."""


def typed(page: str) -> list[list[str]]:
    """The commands in the prose of a page that can be typed as they are."""
    found = spans((DOCS / page).read_text(encoding="utf-8"))
    whole = [one for one in found if not FORMS.search(one) and not NAMES_OF_COMMANDS.fullmatch(one)]
    return [words for one in whole for words in commands(one)]


@pytest.mark.parametrize("page", pages())
def test_the_commands_in_the_prose_are_right(page):
    assert {" ".join(words): wrong for words in typed(page) if (wrong := problems(words))} == {}


def test_commands_in_the_prose_are_found():
    assert len([words for page in pages() for words in typed(page)]) > 30
    assert spans("Run `make demo` or `x`.\n```\n`make test`\n```\n") == ["make demo"]


def all_commands(name: str) -> list[tuple[str, list[str]]]:
    """The commands of a program in the blocks and in the prose of all pages."""
    blocks = [(one.page, words) for one in BLOCKS if has_commands(one.text) for words in commands(one.text)]
    prose = [(page, words) for page in pages() for words in typed(page)]
    return [(page, words[1:]) for page, words in blocks + prose if program(words) == name]


@pytest.mark.parametrize("name", ["kubectl", "helm"])
def test_options_of_kubectl_and_helm_exist(tools, name):
    every = all_commands(name)
    assert len(every) >= 10
    path = tools[name][-1]
    found = {" ".join([page, *words]): wrong for page, words in every if (wrong := unknown_options(name, path, words))}
    assert found == {}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kubectl get pods --al", "kubectl get has no option --al"),
        ("kubectl -n x rollout status deployment --timeot=3m", "kubectl rollout status has no option --timeot"),
        ("kubectl create secret generic x -z y", "kubectl create secret generic has no option -z"),
        ("kubectl wait --for=condition=Ready pod/x -it", "kubectl wait has no option"),
        ("helm upgrade x y --reset-then-reuse", "helm upgrade has no option --reset-then-reuse"),
    ],
)
def test_an_unknown_option_is_found(tools, line, message):
    (words,) = commands(line)
    assert message in " ".join(unknown_options(words[0], tools[words[0]][-1], words[1:]))


def test_options_behind_the_dashes_belong_to_another_program(tools):
    path = tools["kubectl"][-1]
    assert unknown_options("kubectl", path, ["exec", "-it", "x", "--", "y", "--none"]) == []
    with pytest.raises(AssertionError, match="has no command gett"):
        unknown_options("kubectl", path, ["gett", "pods"])


def test_commands_of_pulsars_tools_are_found():
    """tests/integration/tools/test_shell_blocks.py compares them with the tools' own help."""
    (words,) = commands("kubectl exec -n a b -- bin/pulsar-admin topics unsubscribe --subscription x y")
    assert tool_command(words) == ToolCommand("pulsar-admin", ("topics", "unsubscribe"), ("--subscription",))
    assert tool_command(["kubectl", "get", "pods"]) is None
    found = {(one.tool, one.command) for one in on_pages()}
    assert {("pulsar", ("tokens", "create")), ("pulsar-admin", ("namespaces", "grant-permission"))} <= found


@pytest.fixture(scope="module")
def tools() -> dict[str, tuple[str, ...]]:
    """kubectl and helm that need no cluster."""
    kubectl, helm = programs.find("kubectl", programs.KUBE), programs.find("helm", programs.HELM)
    own = (sys.executable, "-m", "tests.shell_blocks.offline")
    return {"kubectl": (*own, "kubectl", str(kubectl)), "helm": (*own, "helm", str(helm))}


@pytest.fixture
def shell(tools, tmp_path) -> Shell:
    for name in TOKENS:
        (tmp_path / name).write_text("token\n")
    return Shell(tmp_path, tools, {}, {"KUBECONFIG": str(tmp_path / "none")})


@pytest.mark.parametrize(("page", "begin", "expected"), LOCAL, ids=lambda value: str(value)[:40])
def test_the_block_runs_without_a_server(shell, page, begin, expected):
    assert expected in shell.run(find(page, begin))


def test_a_block_that_needs_a_cluster_fails_without_one(shell):
    for text in ("kubectl get pods", "helm uninstall x", "kubectl create role x --verb=get --resource=pods"):
        with pytest.raises(AssertionError, match=f"status {offline.NEEDS_A_CLUSTER}"):
            shell.run(Block("x.md", "", text))
    with pytest.raises(AssertionError, match="status 2"):
        shell.run(Block("x.md", "", "pulsar-readonly plan --reader"))


def test_the_overlay_of_the_page_builds_with_its_images(tools, tmp_path: Path):
    text = find("how-to/install.md", "resources:").text
    folder = os.path.relpath(ROOT / "manifests" / "cluster-wide", tmp_path)
    local, replaced = re.subn(r"\[https://[^]]+//manifests/cluster-wide\?ref=[^]]+\]", f"[{folder}]", text)
    assert replaced == 1
    (tmp_path / "kustomization.yaml").write_text(local)
    command = [tools["kubectl"][-1], "kustomize", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    (deployment,) = [one for one in load_all_yaml(done.stdout) if one["kind"] == "Deployment"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert container["image"] == "images.example.org/pulsar-readonly/operator:0.1.0"
    assert container["args"][-1] == "--engine-image=images.example.org/pulsar-readonly/engine:0.1.0"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a b \\\n  --c d   # a remark", [["a", "b", "--c", "d"]]),
        ("X=1 a 'b c' | d && e > f", [["a", "b c"], ["d"], ["e"]]),
        ("sudo -u me a b\nsudo c", [["a", "b"], ["c"]]),
        ("# nothing", []),
    ],
)
def test_commands_are_found(line, expected):
    assert commands(line) == expected


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("pulsar-readonly plan --reader 5", "--reader is unknown; the nearest is --readers"),
        ("pulsar-readonly subscriptions seek a b --upto x", "--to"),
        ("pulsar-readonly doctor --tail none --topic x", "invalid choice: 'none'"),
        ("pulsar-readonly look", "no command look"),
        ("kubectl exec P -- pulsar-readonly doctor --none", "--none is unknown"),
        ("kubectl run d --image=x/pulsar-readonly/engine:1 -- doctor --none", "--none is unknown"),
        ("docker run --rm pulsar-readonly-engine doctor --none", "--none is unknown"),
        ("docker compose exec r pulsar-readonly top --none", "--none is unknown"),
        ("docker compose exec -T r pulsar-readonly top --none", "--none is unknown"),
        ("kubectl exec -i P -- python3 - pulsar://a pulsar://b", "required: TOPIC"),
        ("kubectl run d --image=x/pulsar-readonly/engine:1 --command -- pulsar-readonly look", "no command look"),
        ("python examples/canary/compare.py a b c --none", "unrecognized arguments: --none"),
        ("python examples/none.py", "there is no examples/none.py"),
        ("make demos", "no target demos"),
        ("python -m devstack.none", "no module devstack.none"),
        ("helm install x charts/pulsar-readonly --set engineImages=1", "no value engineImages"),
        ("helm install x charts/none", "no chart charts/none"),
        ("kubectl apply -k manifests/none", "there is no manifests/none"),
        ("kubectl apply -f examples/none.yaml", "there is no examples/none.yaml"),
        ("kubectl patch cm x --patch-file examples/none.yaml", "there is no examples/none.yaml"),
        ("kubectl readonly status --none", "--none is unknown"),
        ("kubectl readonly doctor x -- --none", "--none is unknown"),
        ("""kubectl patch robp x -p '{"spec":{"replica":1}}'""", "no field spec.replica"),
        ("kubectl patch robp x -p '{'", "no JSON"),
        ("kubectl wait --for=condition=Redy robp/x", "no condition Redy"),
    ],
)
def test_a_wrong_command_is_found(line, message):
    (words,) = commands(line)
    assert message in " ".join(problems(words))


MANIFESTS = [
    (block.page, document)
    for path in sorted(DOCS.rglob("*.md"))
    for block in in_text(str(path.relative_to(DOCS)), path.read_text(encoding="utf-8"))
    if block.language in {*SHELLS, "yaml"} and "kind: ReadOnly" in block.text
    for document in load_all_yaml(block.text)
    if str(document.get("kind", "")).startswith("ReadOnly")
]


@pytest.mark.parametrize(
    ("page", "body"), MANIFESTS, ids=lambda value: value if isinstance(value, str) else value["kind"]
)
def test_a_manifest_of_a_page_has_fields_that_exist(page, body):
    plural = {"ReadOnlyBrokerPool": OURS["robp"], "ReadOnlyTopicBinding": OURS["rotb"], "ReadOnlySource": OURS["ros"]}
    assert unknown(body["spec"], schema(plural[body["kind"]]), "spec") == []
    known = {"uid": "u", "namespace": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}
    whole = {**body, "metadata": {**known, **body["metadata"]}}
    if body["kind"] == "ReadOnlyTopicBinding":
        assert Binding.load(whole).topics
    elif body["kind"] == "ReadOnlyBrokerPool" and "source" in body["spec"]:
        assert Pool.load(whole).key.name == body["metadata"]["name"]
