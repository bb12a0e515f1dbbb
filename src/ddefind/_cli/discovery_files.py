"""The files in which `ddefind discover --out` keeps what the search found."""

import json
from pathlib import Path

TEXT, JSON, FIGURE = "discovery.txt", "discovery.json", "discovery.{}"
ALL = FIGURE.format("*")


def sentences_in(folder: Path) -> list[str]:
    """What was said of the search whose fit is in a folder; nothing if there was
    none, or if its file cannot be read."""
    try:
        found = json.loads((folder / JSON).read_text("utf-8"))["sentences"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [text for text in found if isinstance(text, str)]
