"""Tutorials: notebooks that are executed and become pages.

A notebook is kept without its outputs, so that its changes can be read, and so that no
output is older than the library. A cell with the tag `check` tests what the text says;
it is in the notebook of the repository, but neither on the page nor in the copy for
download. The field `alt` in a cell's metadata describes its picture."""

import asyncio
import base64
import os
import re
import sys
import tempfile
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, final

import nbformat
from jupyter_client.kernelspec import KernelSpec, KernelSpecManager
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from . import ROOT

# Programs that JAX has compiled, as in the tests.
_CACHE = ROOT / ".jax_cache"
_SECONDS = 300
_FENCE = "```"
# Longer lines of an output are wrapped.
_WIDTH = 86
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
# Links to other notebooks lead to their pages.
_TO_NOTEBOOK = re.compile(r"(\]\([\w./-]+)\.ipynb(#[\w-]+)?\)")


@final
class _ThisPython(KernelSpecManager):
    """Kernels run with the Python that runs this."""

    def get_kernel_spec(self, kernel_name: str) -> KernelSpec:
        # The level of errors: it warns of connections that stay on this machine.
        launcher = [sys.executable, "-m", "ipykernel_launcher", "--log-level=40"]
        return KernelSpec(
            argv=[*launcher, "-f", "{connection_file}"],
            display_name="Python",
            language="python",
        )


class NotebookError(Exception):
    """A cell of a notebook failed."""


def write(docs: Path) -> None:
    """Execute all notebooks in a working copy of the pages, two at a time, and write a
    page, its pictures and a notebook with outputs for each."""
    paths = sorted((docs / "tutorials").glob("*.ipynb"))
    with ThreadPoolExecutor(2) as pool:
        for path, notebook in zip(paths, pool.map(execute, paths)):
            notebook.cells = [each for each in notebook.cells if not _is_check(each)]
            for name, content in page(notebook, path.stem).items():
                (path.parent / name).write_bytes(content)
            nbformat.write(notebook, path)


def execute(path: Path) -> Any:
    """The notebook of a file with its outputs. It runs in a folder of its own."""
    notebook: Any = nbformat.read(path, as_version=4)
    settings = {
        "JAX_COMPILATION_CACHE_DIR": str(_CACHE),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        **os.environ,
    }
    with tempfile.TemporaryDirectory() as folder:
        manager = AsyncKernelManager(kernel_spec_manager=_ThisPython())
        settings["IPYTHONDIR"] = f"{folder}/.ipython"  # without the user's settings
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=_SECONDS,
            coalesce_streams=True,
            record_timing=False,
            resources={"metadata": {"path": folder}},
        )
        try:
            asyncio.run(client.async_execute(env=settings, cleanup_kc=True))
        except CellExecutionError as error:
            source, message = _failed_cell(notebook), _COLOURS.sub("", str(error))
            raise NotebookError(f"{path.name}: {source}\n{message}") from None
    return notebook


def _failed_cell(notebook: Any) -> str:
    """The number of the cell that failed."""
    for number, cell in enumerate(notebook.cells, start=1):
        outputs = cell.get("outputs", [])
        if any(output.output_type == "error" for output in outputs):
            return f"cell {number} of {len(notebook.cells)} failed"
    return "a cell failed"


def _is_check(cell: Any) -> bool:
    return "check" in cell.metadata.get("tags", [])


def page(notebook: Any, name: str) -> dict[str, bytes]:
    """The page of an executed notebook, and its pictures, by the names of files."""
    parts: list[str] = []
    files: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(_TO_NOTEBOOK.sub(r"\1.md\2)", cell.source))
            continue
        parts.append(f"{_FENCE}python\n{cell.source}\n{_FENCE}")
        for output in cell.outputs:
            picture = output.get("data", {}).get("image/png")
            if picture is None:
                parts.append(_text_output(output))
                continue
            file = f"{name}-{len(files) + 1}.png"
            files[file] = base64.b64decode(picture)
            parts.append(f"![{cell.metadata.get('alt', '')}]({file})")
    download = f"[Download this tutorial as a notebook]({name}.ipynb)"
    first, *others = filter(None, parts)
    text = "\n\n".join([first, *others, f"{download}.\n"])
    return {f"{name}.md": text.encode(), **files}


def _text_output(output: Any) -> str:
    """An output as a block of text. Warnings are left to the notebook."""
    if output.output_type == "stream":
        text = output.text if output.name == "stdout" else ""
    else:
        text = output.get("data", {}).get("text/plain", "")
    lines = [_wrapped(line) for line in _COLOURS.sub("", text).rstrip().splitlines()]
    text = "\n".join(lines)
    return f"{_FENCE} {{ .text .output }}\n{text}\n{_FENCE}" if text else ""


def _wrapped(line: str) -> str:
    """A line of sentences in several lines, if it is long. Rows of tables, which have
    columns of blanks, stay as they are."""
    is_table = "  " in line.strip()
    return line if is_table else textwrap.fill(line, _WIDTH, break_long_words=False)
