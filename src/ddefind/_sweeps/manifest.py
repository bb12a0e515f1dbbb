"""What the records of a folder belong to: its file `sweep.json`.

It holds the digests of the model, the data and the settings, the number of tasks, how
they are cut into chunks, and the versions of what computes. A sweep goes on in a folder
only if all of these are the same."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, final

from .._util.errors import DataError, ResultError
from .._util.text_files import file_name, read_bytes, write_whole

NAME = "sweep.json"
FORMAT, VERSION = "ddefind sweep", 1
_CHOOSE, _ANOTHER = "or choose another folder", "Choose another folder."


@final
@dataclass(frozen=True)
class Manifest:
    """What the records belong to. `digests` are those of "model", "data" and
    "settings"; `width` is the number of tasks in a chunk; `versions` are those of the
    packages; `about` is the model in words."""

    tasks: int
    width: int
    digests: Mapping[str, str] = field(repr=False)
    versions: Mapping[str, str]
    about: str


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the file, whole or not at all."""
    content = {"format": FORMAT, "version": VERSION, **vars(manifest)}
    write_whole(folder / NAME, json.dumps(content, indent=1) + "\n")


def read_manifest(folder: Path) -> Manifest | None:
    """The manifest of a folder; None if there is none."""
    path = folder / NAME
    if not path.exists():
        return None
    name = file_name(path)
    try:
        content = json.loads(read_bytes(path))
    except DataError as error:
        raise ResultError(str(error)) from None
    except ValueError:
        raise ResultError(f"{name}: the file is damaged. {_ANOTHER}") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ResultError(f"{name}: this is not a file of a sweep of ddefind.")
    version = content.get("version")
    if not isinstance(version, int) or version > VERSION:
        raise ResultError(
            f"{name}: it was written by a newer ddefind, in format {version}. This one "
            f"reads formats up to {VERSION}: install the newer."
        )
    try:
        return _checked(content)
    except (KeyError, TypeError, ValueError):
        raise ResultError(f"{name}: the file was altered. {_ANOTHER}") from None


def _checked(content: dict[str, Any]) -> Manifest:
    manifest = Manifest(
        int(content["tasks"]),
        int(content["width"]),
        dict(content["digests"]),
        dict(content["versions"]),
        str(content["about"]),
    )
    if min(manifest.tasks, manifest.width) < 1 or not manifest.digests:
        raise ValueError
    return manifest


def check_same(folder: Path, found: Manifest, given: Manifest, changed: str) -> None:
    """Refuse to go on with another sweep than the one that a folder holds. `changed`
    says which data have changed, if that is known."""
    where = f"{file_name(folder)}: the sweep in this folder"
    if found.versions != given.versions:
        raise ResultError(
            f"{where} was begun with {_listed(found.versions)}, but here are "
            f"{_listed(given.versions)}, whose digits may differ. Install the former, "
            f"{_CHOOSE}."
        )
    if found.digests.get("model") != given.digests["model"]:
        raise ResultError(
            f"{where} is of another model, {found.about!r}. Give the same model to go "
            f"on with it, {_CHOOSE}."
        )
    if found.tasks != given.tasks:
        raise ResultError(
            f"{where} has {found.tasks} fits, but these are {given.tasks}. Give the "
            f"same ones to go on with it, {_CHOOSE}."
        )
    if found.digests.get("data") != given.digests["data"]:
        raise ResultError(
            f"{where} is of other data{changed}. Give the same data to go on with it, "
            f"{_CHOOSE}."
        )
    if found.digests.get("settings") != given.digests["settings"]:
        raise ResultError(
            f"{where} has other settings (method, starts, bounds, seed ...). Give the "
            f"same ones to go on with it, {_CHOOSE}."
        )


def _listed(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())
