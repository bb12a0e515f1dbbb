"""Build the site in `out/site`, step by step."""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from . import OUT, ROOT, api, first_page, gallery, notebooks
from .check_links import broken_links, far_pages
from .formulas import typeset_formulas
from .link_names import link_names
from .offline_search import keep_search_offline
from .working_copy import make_working_copy

MAKERS = {
    "notebooks": notebooks.write,
    "gallery": gallery.write,
    "first page": first_page.write,
}
"""What runs examples, and writes pages and pictures into the working copy: all at once,
so that no core waits at the end of one of them."""


def main() -> None:
    # What JAX compiles is kept, as in the tests, for the makers and for later builds.
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(ROOT / ".jax_cache"))
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    docs, site = OUT / "docs", OUT / "site"
    _step("pages", lambda: make_working_copy(ROOT, docs))
    # First, and alone: Python compiles what it imports in a new environment.
    _step("reference", lambda: api.write(docs))
    with ThreadPoolExecutor(len(MAKERS)) as pool:
        begun = [
            pool.submit(_step, name, functools.partial(write, docs))
            for name, write in MAKERS.items()
        ]
        for each in begun:
            each.result()
    _step("site", _run_zensical)
    _step("formulas", lambda: typeset_formulas(site))
    _step("names", lambda: link_names(site))
    _step("search", lambda: keep_search_offline(site))
    _step("links", lambda: _check(site))
    print(f"Written: open {(site / 'index.html').relative_to(ROOT)} in a browser.")


def _step(name: str, work: Callable[[], object]) -> None:
    begin = time.perf_counter()
    work()
    print(f"{name}: {time.perf_counter() - begin:.1f} s", flush=True)


def _run_zensical() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--clean", "--strict"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(f"Zensical failed:\n{done.stdout}{done.stderr}")


def _check(site: Path) -> None:
    problems = broken_links(site)
    problems += [f"{page}: more than two clicks away" for page in far_pages(site)]
    if problems:
        sys.exit("\n".join(problems))


if __name__ == "__main__":
    main()
