"""The documentation as a site: `python -m website`, or `make docs`, writes `out/site`.

A working copy of the pages is made in `out/docs` (`working_copy.py`), into which
the report of the first page (`first_page.py`), the notebooks (`notebooks.py`), the
pictures of the gallery (`gallery.py`) and the reference of public names (`api.py`) are
written. Zensical turns it into HTML, by `mkdocs.yml`.
Then formulas become MathML (`formulas.py`), public names lead to the reference
(`link_names.py`), search works from the disk (`offline_search.py`), and every link is
followed (`check_links.py`). Nothing is fetched, neither here nor by a reader. Begin
with `__main__.py`.
"""

from pathlib import Path

ROOT = Path(__file__).parents[1]
OUT = ROOT / "out"
"""Everything that is written: `docs`, the working copy, and `site`."""
