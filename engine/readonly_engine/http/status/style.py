"""Style of the status page, for light and dark screens, and the headers of its answers. Pure."""

from __future__ import annotations

import base64
import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

CSS: Final = """
:root{color-scheme:light dark;--text:#1b1b1f;--back:#fff;--soft:#55555c;--line:#c9c9d1;--link:#0b4fb3;--bad:#a31515}
@media(prefers-color-scheme:dark){:root{--text:#e9e9ee;--back:#131316;--soft:#b4b4be;--line:#46464f;--link:#a8c7fa;--bad:#ff9c94}}
body{margin:0 auto;max-width:90rem;padding:1rem;font:1rem/1.5 system-ui,sans-serif;color:var(--text);background:var(--back);
overflow-wrap:break-word}
h1{font-size:1.4rem;overflow-wrap:anywhere}
h2{font-size:1.15rem;margin-top:2rem}
h3{font-size:1rem}
a{color:var(--link)}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
.skip{position:absolute;left:-99rem}
.skip:focus{position:static}
.note,caption{color:var(--soft)}
.bad{color:var(--bad);font-weight:bold}
caption{text-align:left;padding:.3rem 0}
dl{display:grid;grid-template-columns:repeat(auto-fill,minmax(17rem,1fr));gap:.6rem 1.5rem;margin:0}
dt{color:var(--soft);font-size:.9rem}
dd{margin:0;overflow-wrap:anywhere}
.scroll{overflow-x:auto}
table{border-collapse:collapse;width:100%;font-size:.85rem}
th,td{border-bottom:1px solid var(--line);padding:.3rem .4rem;text-align:left;vertical-align:top;font-weight:normal}
thead th{font-weight:bold;vertical-align:bottom}
th[scope=row]{overflow-wrap:anywhere;min-width:11rem}
td .note{min-width:16rem}
.number{text-align:right;font-variant-numeric:tabular-nums}
td.number{white-space:nowrap}
form,nav ul{display:flex;flex-wrap:wrap;gap:.8rem;align-items:end;list-style:none;padding:0}
footer{margin-top:1.5rem}
form{margin:1rem 0 .5rem}
nav[aria-label=Path] li+li{border-left:2px solid var(--line);padding-left:.8rem}
p.note{margin:.3rem 0}
nav li,form div{min-width:0;max-width:100%;overflow-wrap:anywhere}
label{display:block}
input,select,button{box-sizing:border-box;height:2.25rem;max-width:100%;
font:inherit;padding:.3rem .5rem;color:inherit;background:var(--back);border:1px solid var(--soft)}
@media print{form,.skip{display:none}}
"""

_HASH: Final = base64.b64encode(hashlib.sha256(CSS.encode()).digest()).decode()

HEADERS: Final[Mapping[str, str]] = {
    # The page has no script at all. Nothing may be loaded, and no other page may have it in a frame.
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_HASH}'; img-src data:; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
"""Headers of each answer with a status page, errors included. Addresses of topics go to no other server (Referrer-Policy)."""
