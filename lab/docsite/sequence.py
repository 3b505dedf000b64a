"""Draw a sequence diagram, written in a part of Mermaid's language, as an SVG picture that needs no script.

    sequenceDiagram
        title A lookup
        participant C as Consumer
        participant B as Read-only broker
        C->>B: LOOKUP
        B-->>C: LOOKUP_RESPONSE
        Note over B: the broker with the fewest consumers
        loop every 30 s
            B->>B: PING
        end

Arrows are `->>` (solid) and `-->>` (dashed). Frames are `loop`, `opt` and `alt` with `else`; frames may be nested.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html import escape
from typing import Final

_PARTICIPANT: Final = re.compile(r"participant (\w+) as (.+)")
_MESSAGE: Final = re.compile(r"(\w+)(--?>>)(\w+): (.+)")
_NOTE: Final = re.compile(r"Note over (\w+)(?:, ?(\w+))?: (.+)")
_FRAME: Final = re.compile(r"(loop|opt|alt) (.+)")
_ELSE: Final = re.compile(r"else (.+)")

_CHARACTER: Final = 6.6
"""Width of a character of 12 px, about; a little more than that of most fonts."""
_MARGIN: Final = 16
_HEAD: Final = 34
_STEP: Final = 40
_NOTE_STEP: Final = 38
_LEAST_GAP: Final = 130
_SELF: Final = 34
_INSET: Final = 6

_STYLE: Final = (
    "text{font:12px sans-serif;fill:#1c2733}.t{font-size:14px;font-weight:bold}.p{font-weight:bold}"
    ".b{fill:#e8ecf7;stroke:#3f51b5}.l{stroke:#9aa5b1;stroke-dasharray:3 3}.m{stroke:#1c2733;fill:none}"
    ".r{stroke-dasharray:6 4}.n{fill:#fff6d6;stroke:#d9b44a}.f{fill:none;stroke:#7a8794}.g{fill:#5b6773;font-style:italic}"
    ".h{paint-order:stroke;stroke:white;stroke-width:4px;stroke-linejoin:round}"
)


class DiagramError(ValueError):
    """A line that is not a part of a diagram: names it."""


@dataclass(frozen=True, slots=True)
class Message:
    """An arrow from one participant to another, or to itself."""

    source: int
    target: int
    text: str
    dashed: bool


@dataclass(frozen=True, slots=True)
class Note:
    """A box over one participant, or over all from the first to the last."""

    first: int
    last: int
    text: str


@dataclass(frozen=True, slots=True)
class Begin:
    """The first line of a frame."""

    text: str


@dataclass(frozen=True, slots=True)
class Otherwise:
    """The line between two parts of a frame."""

    text: str


@dataclass(frozen=True, slots=True)
class End:
    """The last line of a frame."""


Step = Message | Note | Begin | Otherwise | End


@dataclass(slots=True)
class Diagram:
    """A parsed diagram.

    Attributes:
        title: title above the picture.
        names: names of the participants, from left to right.
        steps: steps from top to bottom.
    """

    title: str = ""
    names: list[str] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def parse(text: str) -> Diagram:
    """Parse a diagram.

    Raises:
        DiagramError: a line is none of the above, names an unknown participant, or a frame has no end.
    """
    found, known, depth = Diagram(), {}, 0
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("%%")]
    if not lines or lines[0] != "sequenceDiagram":
        raise DiagramError("the first line must be sequenceDiagram")
    for line in lines[1:]:
        try:
            if line.startswith("title "):
                found.title = line.removeprefix("title ")
            elif match := _PARTICIPANT.fullmatch(line):
                known[match[1]] = len(found.names)
                found.names.append(match[2])
            elif match := _NOTE.fullmatch(line):
                ends = sorted((known[match[1]], known[match[2] or match[1]]))
                found.steps.append(Note(ends[0], ends[1], match[3]))
            elif match := _FRAME.fullmatch(line):
                found.steps.append(Begin(f"{match[1]}: {match[2]}"))
                depth += 1
            elif (match := _ELSE.fullmatch(line)) and depth:
                found.steps.append(Otherwise(f"else: {match[1]}"))
            elif line == "end" and depth:
                found.steps.append(End())
                depth -= 1
            elif match := _MESSAGE.fullmatch(line):
                found.steps.append(Message(known[match[1]], known[match[3]], match[4], match[2] == "-->>"))
            else:
                raise DiagramError(f"no step of a diagram: {line}")
        except KeyError as error:
            raise DiagramError(f"{line}: no participant {error.args[0]}") from error
    if depth:
        raise DiagramError("a frame has no end")
    return found


def _width(text: str) -> float:
    return len(text) * _CHARACTER


def _columns(diagram: Diagram) -> list[float]:
    """Return the middle of each participant's column: far enough apart for the texts between them."""
    count = len(diagram.names)
    gaps = [
        max(float(_LEAST_GAP), (_width(left) + _width(right)) / 2 + 3 * _MARGIN)
        for left, right in zip(diagram.names, diagram.names[1:], strict=False)
    ]
    for step in diagram.steps:
        if isinstance(step, Message) and step.source != step.target:
            low, high = sorted((step.source, step.target))
            lack = _width(step.text) + 2 * _MARGIN - sum(gaps[low:high])
        elif isinstance(step, Message) and step.source < count - 1:
            low, high = step.source, step.source + 1
            lack = _width(step.text) + _SELF + _MARGIN - gaps[low]
        elif isinstance(step, Note) and step.first < step.last:
            low, high = step.first, step.last
            lack = _width(step.text) - sum(gaps[low:high])
        else:
            continue
        if lack > 0:
            for index in range(low, high):
                gaps[index] += lack / (high - low)
    first = _MARGIN * 2 + max(_width(diagram.names[0]) / 2 + _MARGIN, _overhang(diagram, 0))
    found = [first]
    for gap in gaps:
        found.append(found[-1] + gap)
    return found


def _overhang(diagram: Diagram, index: int) -> float:
    """Return how far notes reach beside the middle of an outer column."""
    return max(
        (_width(one.text) / 2 for one in diagram.steps if isinstance(one, Note) and one.first == one.last == index),
        default=0.0,
    )


def draw(diagram: Diagram) -> str:
    """Return the picture, SVG."""
    columns = _columns(diagram)
    last = len(columns) - 1
    own = [
        _width(one.text) + _SELF + _INSET
        for one in diagram.steps
        if isinstance(one, Message) and one.source == one.target == last
    ]
    right = columns[-1] + max([_width(diagram.names[-1]) / 2 + _MARGIN, _overhang(diagram, last), *own]) + 2 * _MARGIN
    right = max(right, _width(diagram.title) * 1.3 + 2 * _MARGIN)
    notes = [_note_width(one, columns) for one in diagram.steps if isinstance(one, Note)]
    right = max([right, *(wide + 2 * _MARGIN for wide in notes)])
    top = 2 * _MARGIN + 14
    y = float(top + _HEAD + _MARGIN)
    body: list[str] = []
    frames: list[tuple[float, int]] = []
    for step in diagram.steps:
        if isinstance(step, Begin):
            frames.append((y, len(frames)))
            body.append(
                f'<text class="g h" x="{_edge(len(frames) - 1) + 8:g}" y="{y + 16:g}">{escape(step.text)}</text>'
            )
            y += 30
        elif isinstance(step, Otherwise):
            left = _edge(len(frames) - 1)
            body.append(f'<path class="f r" d="M{left:g} {y:g}H{right - left:g}"/>')
            body.append(f'<text class="g h" x="{left + 8:g}" y="{y + 16:g}">{escape(step.text)}</text>')
            y += 30
        elif isinstance(step, End):
            begun, depth = frames.pop()
            left = _edge(depth)
            size = f'width="{right - 2 * left:g}" height="{y - begun:g}"'
            body.append(f'<rect class="f" x="{left:g}" y="{begun:g}" {size} rx="3"/>')
            y += 12
        elif isinstance(step, Note):
            body += _note(step, columns, right, y)
            y += _NOTE_STEP
        else:
            body += _arrow(step, columns, y)
            y += _STEP
    height = y + _MARGIN
    return "\n".join([*_frame(diagram, columns, top, right, height), *body, "</svg>", ""])


def _edge(depth: int) -> float:
    return _MARGIN / 2 + depth * _INSET


def _frame(diagram: Diagram, columns: list[float], top: float, right: float, height: float) -> list[str]:
    """Return everything but the steps."""
    view = f'viewBox="0 0 {right:g} {height:g}" width="{right:g}" height="{height:g}"'
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {view} role="img">',
        f"<title>{escape(diagram.title)}</title>",
        f"<style>{_STYLE}</style>",
        (
            '<defs><marker id="a" markerWidth="9" markerHeight="8" refX="8" refY="4" orient="auto">'
            '<path d="M0 0L9 4L0 8z" fill="#1c2733"/></marker></defs>'
        ),
        f'<rect width="{right:g}" height="{height:g}" rx="4" fill="white"/>',
        f'<text class="t" x="{_MARGIN}" y="{_MARGIN + 10}">{escape(diagram.title)}</text>',
    ]
    for name, x in zip(diagram.names, columns, strict=True):
        wide = _width(name) + 2 * _MARGIN
        out += [
            f'<path class="l" d="M{x:g} {top + _HEAD:g}V{height - _MARGIN / 2:g}"/>',
            f'<rect class="b" x="{x - wide / 2:g}" y="{top:g}" width="{wide:g}" height="{_HEAD}" rx="4"/>',
            f'<text class="p" x="{x:g}" y="{top + 21:g}" text-anchor="middle">{escape(name)}</text>',
        ]
    return out


def _note(note: Note, columns: list[float], right: float, y: float) -> list[str]:
    """Return a note: in the middle of its columns, or as near as the borders allow."""
    wide = _note_width(note, columns)
    middle = (columns[note.first] + columns[note.last]) / 2
    middle = min(max(middle, wide / 2 + _MARGIN), right - wide / 2 - _MARGIN)
    return [
        f'<rect class="n" x="{middle - wide / 2:g}" y="{y:g}" width="{wide:g}" height="26" rx="2"/>',
        f'<text x="{middle:g}" y="{y + 17:g}" text-anchor="middle">{escape(note.text)}</text>',
    ]


def _note_width(note: Note, columns: list[float]) -> float:
    return max(_width(note.text) + _MARGIN, columns[note.last] - columns[note.first] + 2 * _MARGIN)


def _arrow(message: Message, columns: list[float], y: float) -> list[str]:
    source, target = columns[message.source], columns[message.target]
    kind = "m r" if message.dashed else "m"
    if message.source == message.target:
        path = f"M{source:g} {y + 8:g}h{_SELF - 10}v18h-{_SELF - 12}"
        text = f'<text class="h" x="{source + _SELF - 4:g}" y="{y + 21:g}">{escape(message.text)}</text>'
    else:
        inward = 1 if target > source else -1
        path = f"M{source:g} {y + 24:g}H{target - inward:g}"
        middle = (source + target) / 2
        text = f'<text class="h" x="{middle:g}" y="{y + 18:g}" text-anchor="middle">{escape(message.text)}</text>'
    return [f'<path class="{kind}" d="{path}" marker-end="url(#a)"/>', text]
