"""What a browser tells about a page's accessibility. Each function returns the defects as texts, none for a good page."""

from typing import Final

from devstack.browser.webdriver import Session

MIN_CONTRAST: Final = 4.5
"""Of text (WCAG 2.2, 1.4.3)."""

MIN_FOCUS_CONTRAST: Final = 3.0
"""Of the mark of the focus (WCAG 2.2, 1.4.11)."""

MIN_FOCUS_PX: Final = 2
MAX_TABS: Final = 400

_NAME: Final = """
const nameOf = one => `<${one.tagName.toLowerCase()}> “${(one.textContent || one.id || '').trim().slice(0, 40)}”`;
"""

_COLOURS: Final = (
    _NAME
    + """
const parse = text => {
  const found = text.match(/[0-9.]+/g).map(Number);
  return found.length < 4 ? [...found, 1] : found;
};
const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3]));
const backgroundOf = one => {
  const layers = [];
  for (; one; one = one.parentElement) layers.push(parse(getComputedStyle(one).backgroundColor));
  const canvas = matchMedia('(prefers-color-scheme: dark)').matches ? [0, 0, 0] : [255, 255, 255];
  return layers.reverse().reduce((below, top) => over(top, below), canvas);
};
const luminance = colour => {
  const [r, g, b] = colour.map(one => one / 255).map(one => one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const contrast = (first, second) => {
  const [high, low] = [luminance(first), luminance(second)].sort((a, b) => b - a);
  return (high + 0.05) / (low + 0.05);
};
"""
)

_TEXT_CONTRAST: Final = (
    _COLOURS
    + """
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
const elements = new Set(document.querySelectorAll('input:not([type=hidden]), select'));
while (walker.nextNode()) {
  const one = walker.currentNode.parentElement;
  if (walker.currentNode.data.trim() && one.getClientRects().length) elements.add(one);
}
const found = [];
for (const one of elements) {
  const background = backgroundOf(one);
  const ratio = contrast(over(parse(getComputedStyle(one).color), background), background);
  if (ratio < arguments[0]) found.push(`${nameOf(one)}: contrast ${ratio.toFixed(2)}`);
}
return {found, checked: elements.size};
"""
)

_FOCUS: Final = (
    _COLOURS
    + """
const one = document.activeElement;
if (one === document.body || one === document.documentElement) return {path: '', found: []};
const style = getComputedStyle(one), found = [], box = one.getBoundingClientRect();
const around = backgroundOf(one.parentElement);
if (style.outlineStyle === 'none' || parseFloat(style.outlineWidth) < arguments[1])
  found.push(`${nameOf(one)}: no visible focus`);
else if (contrast(parse(style.outlineColor).slice(0, 3), around) < arguments[0])
  found.push(`${nameOf(one)}: the mark of the focus has too little contrast`);
if (!box.width || !box.height || box.right < 0 || box.bottom < 0) found.push(`${nameOf(one)}: focus is out of sight`);
return {path: [...document.querySelectorAll('*')].indexOf(one), found};
"""
)

_STRUCTURE: Final = (
    _NAME
    + """
const found = [], all = css => [...document.querySelectorAll(css)];
if (!document.documentElement.lang) found.push('no lang');
if (!document.title.trim()) found.push('no title');
if (all('main').length !== 1) found.push(`${all('main').length} elements <main>`);
for (const one of all('table')) {
  const name = one.caption && one.caption.textContent.trim() || one.getAttribute('aria-label');
  if (!name) found.push(`${nameOf(one)}: a table without caption`);
  if (!one.querySelector('thead th')) found.push(`${nameOf(one)}: a table without heads of columns`);
}
for (const one of all('th')) if (!['row', 'col'].includes(one.scope)) found.push(`${nameOf(one)}: no scope`);
for (const one of all('input:not([type=hidden]), select, textarea'))
  if (![...one.labels].some(label => label.textContent.trim())) found.push(`${nameOf(one)}: a field without label`);
for (const one of all('a, button'))
  if (!one.textContent.trim()) found.push(`${nameOf(one)}: no text`);
let level = 0;
for (const one of all('h1, h2, h3, h4, h5, h6')) {
  const next = Number(one.tagName[1]);
  if (next > level + 1) found.push(`${nameOf(one)}: after a heading of level ${level}`);
  level = next;
}
if (all('h1').length !== 1) found.push(`${all('h1').length} elements <h1>`);
const ids = all('[id]').map(one => one.id);
for (const id of new Set(ids)) if (ids.filter(one => one === id).length > 1) found.push(`the id ${id} stands twice`);
for (const one of all('[aria-labelledby]'))
  if (!document.getElementById(one.getAttribute('aria-labelledby'))) found.push(`${nameOf(one)}: its label is missing`);
for (const one of all('a[href^="#"]'))
  if (!document.getElementById(one.hash.slice(1))) found.push(`${nameOf(one)}: its target is missing`);
return found;
"""
)

_OVERFLOW: Final = (
    _NAME
    + """
const found = [], width = document.documentElement.clientWidth;
const inner = document.documentElement.scrollWidth;
if (inner > width) found.push(`the page is ${inner} px wide in a window of ${width} px`);
for (const one of document.body.querySelectorAll('*')) {
  const box = one.getBoundingClientRect();
  if (box.right > width + 0.5 && !one.closest('.scroll') && !one.matches('.scroll *'))
    found.push(`${nameOf(one)}: ends at ${box.right.toFixed(0)} px`);
}
return found;
"""
)

_MOTION: Final = (
    _NAME
    + """
const found = document.getAnimations().map(one => `an animation runs: ${one.constructor.name}`);
for (const one of document.querySelectorAll('*')) {
  const style = getComputedStyle(one);
  const moves = style.transitionDuration.split(',').some(part => parseFloat(part) > 0) || style.animationName !== 'none';
  if (moves || style.scrollBehavior === 'smooth') found.push(`${nameOf(one)}: moves`);
}
return found;
"""
)

_FOREIGN: Final = """
const found = [...document.querySelectorAll('script, iframe, object, embed, img, video, audio, svg, link:not([href^="data:"])')]
  .map(one => `an element <${one.tagName.toLowerCase()}>`);
for (const one of document.querySelectorAll('*'))
  for (const attribute of one.attributes)
    if (attribute.name.startsWith('on') || /^\\s*javascript:/i.test(attribute.value))
      found.push(`<${one.tagName.toLowerCase()}> has ${attribute.name}`);
return found.concat(performance.getEntriesByType('resource').map(one => `loaded ${one.name}`));
"""


def structure(page: Session) -> list[str]:
    """Return missing captions, scopes, labels, targets, and headings out of order."""
    return list(page.run(_STRUCTURE))


def text_contrast(page: Session) -> list[str]:
    """Return texts whose contrast with what is behind them is below MIN_CONTRAST."""
    made = page.run(_TEXT_CONTRAST, MIN_CONTRAST)
    assert made["checked"]
    return list(made["found"])


def overflow(page: Session) -> list[str]:
    """Return what makes the page wider than the window. A table may scroll in its own frame."""
    return list(page.run(_OVERFLOW))


def motion(page: Session) -> list[str]:
    """Return what moves."""
    return list(page.run(_MOTION))


def foreign(page: Session) -> list[str]:
    """Return what runs or loads something: elements, attributes, and what the browser has loaded besides the page."""
    return list(page.run(_FOREIGN))


def tab_stops(page: Session) -> tuple[int, list[str]]:
    """Press Tab from the beginning of the page to its end; return the number of stops, and those where no focus is visible."""
    page.run("document.activeElement.blur(); getSelection().removeAllRanges()")
    found: list[str] = []
    stops: list[int] = []
    while len(stops) < MAX_TABS:
        page.press("Tab")
        here = page.run(_FOCUS, MIN_FOCUS_CONTRAST, MIN_FOCUS_PX)
        if here["path"] == "" or here["path"] in stops:
            return len(stops), found
        stops.append(here["path"])
        found += here["found"]
    raise AssertionError(f"more than {MAX_TABS} stops")


def unnamed(page: Session) -> list[str]:
    """Return what the keyboard reaches and assistive software has no name for, by the browser's accessibility tree."""
    page.devtools("Accessibility.enable")
    nodes = page.devtools("Accessibility.getFullAXTree")["nodes"]
    assert nodes
    focusable = [
        one
        for one in nodes
        if any(found["name"] == "focusable" and found["value"].get("value") for found in one.get("properties", ()))
        and one["role"]["value"] != "RootWebArea"
    ]
    assert focusable
    return [f"a {one['role']['value']} without name" for one in focusable if not one.get("name", {}).get("value")]
