"""Pictures for the documentation: the drawn terminal, the size of screenshots, and the options."""

import io
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from PIL import Image

from devstack.errors import DevstackError
from devstack.screenshots import run, terminal
from devstack.screenshots.command import texts
from devstack.screenshots.picture import smaller

SVG = "{http://www.w3.org/2000/svg}"
DOCS = Path(__file__).parents[3] / "docs"


def test_a_terminal_keeps_its_columns_and_its_text():
    made = ET.fromstring(terminal.draw("top --once", ["BROKER  CONS", "a<b>&     3", "", ""]))
    lines = made.findall(f".//{SVG}text")
    assert [line.text for line in lines] == ["$ top --once", "BROKER  CONS", "a<b>&     3"]
    assert [float(line.get("textLength")) / len(line.text) for line in lines] == [
        pytest.approx(terminal.CELL, abs=0.01)
    ] * 3
    right = max(float(line.get("x")) + float(line.get("textLength")) for line in lines)
    assert right <= float(made.get("width")) - terminal.MARGIN + 1
    assert max(float(line.get("y")) for line in lines) < float(made.get("height"))


@pytest.mark.parametrize(
    ("lines", "named"),
    [
        ([], "empty"),
        (["", " "], "empty"),
        (["x"] * terminal.MAX_LINES, "81 lines"),
        (["x" * (terminal.MAX_COLUMNS + 1)], "201 characters"),
        (["a\x1b[2Jb"], "control character"),
    ],
)
def test_an_output_that_is_no_picture_is_refused(lines, named):
    with pytest.raises(DevstackError, match=named):
        terminal.draw("top", lines)


def test_an_output_at_the_bounds_is_drawn():
    lines = ["x" * terminal.MAX_COLUMNS] * (terminal.MAX_LINES - 1)
    assert terminal.draw("top", lines).count("<text") == terminal.MAX_LINES


def png(picture):
    out = io.BytesIO()
    picture.save(out, "PNG")
    return out.getvalue()


def test_a_screenshot_gets_few_colours_and_keeps_its_size():
    noisy = png(Image.effect_noise((200, 100), 80).convert("RGB"))
    made = smaller(noisy)
    assert len(made) < len(noisy)
    with Image.open(io.BytesIO(made)) as picture:
        assert picture.size == (200, 100)
        assert len(picture.convert("RGB").getcolors()) <= 32
    with pytest.raises(DevstackError, match="200 x 100 px"):
        smaller(noisy, len(made) - 1)


@pytest.mark.parametrize("option", ["status.txt", "=status.txt", " =x", "kubectl readonly status="])
def test_a_text_needs_command_and_file(option):
    with pytest.raises(DevstackError, match="expected COMMAND=FILE"):
        texts([option])


def test_a_text_has_the_name_of_its_command(tmp_path):
    assert texts(["kubectl readonly status --prefix=a=b.txt"]) == {"kubectl readonly status --prefix=a": Path("b.txt")}
    assert run.slug("kubectl readonly status -n shop") == "kubectl-readonly-status"
    for command in ("../status", "-n", "a/b c"):
        with pytest.raises(DevstackError, match="no command line"):
            run.slug(command)


def test_every_picture_of_the_documentation_is_small_and_shown():
    pictures = [path for path in (DOCS / "pictures" / "screens").iterdir() if path.suffix in {".png", ".svg"}]
    pages = "".join(path.read_text(encoding="utf-8") for path in DOCS.rglob("*.md"))
    assert pictures
    for path in pictures:
        assert path.stat().st_size <= 80_000
        assert f"pictures/screens/{path.name})" in pages
        if path.suffix == ".png":
            with Image.open(path) as picture:
                assert picture.width == run.WIDTH
