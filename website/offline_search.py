"""Search in pages that are opened from the disk.

The theme searches in a web worker. Browsers do not load the file of a worker for a page
that was opened from the disk, and the theme would fetch a remedy from another server.
Here the worker's program is kept in a script of the site instead, which makes a worker
of this text."""

import json
import os
import re
from pathlib import Path

_REMEDY = re.compile(r'<script src="https://[^"]*iframe-worker[^"]*"[^>]*></script>')
_SCRIPT = """\
if (location.protocol === "file:") {{
  const program = {program};
  const file = new Blob([program], {{ type: "text/javascript" }});
  const address = URL.createObjectURL(file);
  window.Worker = class extends Worker {{
    constructor() {{
      super(address);
    }}
  }};
}}
"""


def keep_search_offline(site: Path) -> None:
    """Let all pages of a site search without a server and without a network."""
    (worker,) = (site / "assets" / "javascripts" / "workers").glob("search.*.js")
    script = site / "assets" / "javascripts" / "search-from-disk.js"
    script.write_text(_SCRIPT.format(program=json.dumps(worker.read_text())))
    found = 0
    for page in site.rglob("*.html"):
        address = os.path.relpath(script, page.parent)
        tag = f'<script src="{address}"></script>'
        text, count = _REMEDY.subn(tag, page.read_text())
        page.write_text(text)
        found += count
    if not found:
        raise ValueError("The theme's remedy was not found: does it need one?")
