"""The README for a package index: relative links lead nowhere there, so their words stay and pictures go."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


def for_index(text: str) -> str:
    """The same text without relative links and pictures; absolute ones and anchors stay."""
    relative = r"\((?!https?://|#)[^)]*\)"
    without = re.sub(r"^!\[[^\]]*\]" + relative + r"\n+", "", text, flags=re.MULTILINE)
    return re.sub(r"(?<!!)\[([^\]]+)\]" + relative, r"\1", without)


class IndexReadme(MetadataHookInterface):
    """Puts it among the metadata."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called by hatchling when it builds."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": for_index(text)}
