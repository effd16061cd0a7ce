"""What a reader of the file gets: its elements, its text, and the data in it."""

import json
from html.parser import HTMLParser
from typing import Any


class Page(HTMLParser):
    """Elements with their attributes, text without scripts and styles, and scripts by their id."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self._open = ""
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_endtag(self, tag: str) -> None:
        self._open = ""

    def handle_data(self, data: str) -> None:
        if self._open == "script":
            attributes, before = self.scripts[-1]
            self.scripts[-1] = (attributes, before + data)
        elif self._open != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        """Attributes of the elements with this tag and these attributes."""
        return [found for name, found in self.elements if name == tag and wanted.items() <= found.items()]

    def json(self, name: str) -> Any:
        """What a script element of this id holds."""
        return json.loads(next(content for attributes, content in self.scripts if attributes.get("id") == name))


def rows(columns: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of one of the page's tables, as ``page.js`` makes them."""
    plain = {
        name: column if isinstance(column, list) else [column["words"][code] for code in column["codes"]]
        for name, column in columns.items()
    }
    return [dict(zip(plain, values, strict=True)) for values in zip(*plain.values(), strict=True)]
