"""What a page of the console may consist of, whatever the values in it are."""

from __future__ import annotations

from html.parser import HTMLParser

_TAGS = (
    "html head header meta title link script body a div img nav ul li kbd footer span main dialog h1 h2 dl dt dd "
    "form button p small table thead tbody tr th td caption label input select option textarea code pre section "
    "figure figcaption details summary ol time meter em strong"
)
TAGS = frozenset(_TAGS.split())
_ATTRIBUTES = (
    "lang charset name content rel href src defer class id tabindex aria-label aria-current aria-labelledby "
    "aria-hidden aria-sort aria-invalid aria-pressed role alt data-key method action type value placeholder "
    "autocomplete spellcheck checked selected required scope download title min max high optimum data-series "
    "data-row data-new data-most hx-get hx-trigger hx-include hx-select hx-target hx-swap hx-push-url hx-ext "
    "sse-connect sse-swap"
)
ATTRIBUTES = frozenset(_ATTRIBUTES.split())
# Characters that hide others, or change the direction of what follows.
HIDDEN = "\u202e\u2066\u200b\u00ad\x1b\x07"


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.faults: list[str] = []
        self.scripts = 0
        self._in_script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.faults += [tag] * (tag not in TAGS)
        for name, value in attrs:
            self.faults += [f"{tag} {name}={value}"] * (name not in ATTRIBUTES)
            if name in ("href", "src", "action", "hx-get", "sse-connect", "data-series") and value:
                # Pages lead to pages and files of the console alone.
                self.faults += [f"{tag} {name}={value}"] * (not value.startswith(("/", "?", "#")) or value[:2] == "//")
        self._in_script = tag == "script"

    def handle_data(self, data: str) -> None:
        if self._in_script and data.strip():
            self.faults.append(f"a script in the page: {data}")

    def handle_endtag(self, tag: str) -> None:
        self._in_script = False


def faults(text: str) -> list[str]:
    """Return what is in a page and may not be."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader.faults + [f"a hidden character {each!r}" for each in HIDDEN if each in text]
