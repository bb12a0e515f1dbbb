"""The versions of the format of saved fits.

When the format changes, `VERSION` is raised and a function is added that brings a file
of the version before to the new one. The schema then only knows the present version.
`tests/saved_fits` keeps files of every version."""

from typing import Any

VERSION = 2


def upgraded(content: dict[str, Any]) -> dict[str, Any]:
    """The content of a file of any version, as the present version has it."""
    if content["version"] < 2:
        content = _from_version_1(content)
    return _complete(content)


def _complete(content: dict[str, Any]) -> dict[str, Any]:
    """The fields that the first files of version 2 lack: no problem was solved on a
    mesh or with adaptive steps, the delay of modules was a number, no other history was
    chosen or looked for, no fit had process noise, all intervals were those of 95%,
    nothing was said of what a model explains, verdicts followed from the profiles,
    these ended without a reason, every bound but that of a delay or of a frequency was
    given, data had no labels of axes and no values below limits, noise had no
    models, there were no studies, and networks had no scales."""
    content = {"tolerances": None, "histories": [], "process": None, **content}
    content = {"noise_models": None, "study": None, "networks": [], **content}
    options, problem = content.get("options"), content.get("problem")
    assessment = content.get("assessment")
    if isinstance(assessment, dict):
        content["assessment"] = {
            "other_history": None,
            "verdicts": None,
            "explained": None,
            "level": 0.95,
            **assessment,
        }
    if isinstance(profiles := content.get("profiles"), list):
        content["profiles"] = [
            {"breakdown": ["", ""], **each} if isinstance(each, dict) else each
            for each in profiles
        ]
    if isinstance(free := content.get("free"), dict) and "lower" in free:
        content["free"] = {"given": _given(free), **free}
    if isinstance(data := content.get("data"), dict):
        content["data"] = {"axis_labels": None, "below": None, **data}
    if isinstance(options, dict):
        content["options"] = {"mesh": False, **options}
    if isinstance(problem, dict) and "rhs" in problem:
        content["problem"] = {"tau": None, **problem}
    return content


def _given(free: dict[str, Any]) -> Any:
    """Which bounds are taken for the user's: those of parameters whose names are not
    those of delays and frequencies."""
    names, sides = free.get("names"), [free["lower"], free.get("upper")]
    if not all(isinstance(each, list) for each in (names, *sides)):
        return None
    chosen = [str(name).startswith(("tau", "omega")) for name in names or []]
    return [
        [not is_own and not isinstance(end, str) for is_own, end in zip(chosen, side)]
        for side in sides
        if isinstance(side, list)
    ]


def _from_version_1(content: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had no assessment, and no shapes of modules that are networks."""

    def with_shapes(described: Any) -> Any:
        if not isinstance(described, dict):
            return described
        if "class" in described:
            return {"shapes": {}, **described}
        return {name: with_shapes(each) for name, each in described.items()}

    problem = with_shapes(content.get("problem"))
    return {**content, "version": 2, "problem": problem, "assessment": None}
