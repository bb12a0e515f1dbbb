"""`ddefind profile`: how far each parameter of a saved fit can move."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import ddefind as dd

from . import options as opt
from .messages import EXIT_CODES, Messages, errors_as_messages, print_json, quick_start
from .parse_options import check_level, parse_formats, parse_names, parse_real

if TYPE_CHECKING:
    from .._inference.profile import Profile


PROFILE_EXAMPLES = f"""\
\b
Examples:
  ddefind profile result
  ddefind profile result --parameter tau --out profiles
  ddefind profile result --parameter r,K --level 0.9 --out profiles --format pdf

\b
RESULT is the folder that `ddefind fit --out` wrote. The profile of a parameter is the
lowest chi-square of the fits in which it is held at a value. The interval ends where
chi-square excludes the value with the confidence of --level, by default that of the
fit. --out DIR writes profiles.png and profiles.csv, a row for each of
these fits with all its parameters. The code of a model in a file (--model) is run.

{EXIT_CODES}
"""


def profile(
    result: opt.Result,
    parameter: Annotated[
        list[str] | None,
        opt.option(
            "--parameter",
            metavar="NAME",
            help="The parameters, as tau or r,K. By default all are profiled.",
        ),
    ] = None,
    level: Annotated[
        str | None,
        opt.option(
            "--level",
            metavar="NUMBER",
            help="The confidence level of the intervals, by default that of the fit.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        opt.option(
            "--out",
            metavar="DIR",
            help="Folder for the figure and the table of the profiles, that of the fit "
            "or another one.",
        ),
    ] = None,
    formats: opt.Formats = None,
    quiet: opt.Quiet = False,
    as_json: opt.Json = False,
) -> None:
    """Show how far each parameter can move before the fit becomes too bad."""
    with errors_as_messages():
        share = None if level is None else check_level(parse_real("--level", level))
        names = parse_names("--parameter", parameter or ())
        figures = parse_formats(formats or (), out)
        with quick_start():
            from .output_folder import check_can_be_folder, load_fit, write_profiles

            if out is not None:
                check_can_be_folder(out)
            fit = load_fit(result)
            messages = Messages(quiet)
            share = fit.level if share is None else share
            fit, profiles = _profiles(fit, names, share, messages)
            if as_json:
                print_json(_as_json(fit, profiles, share))
            else:
                typer.echo(_text(fit, profiles, share))
            if out is not None:
                written = write_profiles(out, fit, profiles, share, figures)
                messages.say(f"Written to {out}: {', '.join(written)}")


def _profiles(
    fit: "dd.Estimate", names: list[str], level: float, messages: Messages
) -> "tuple[dd.Estimate, list[Profile]]":
    """Return the profiles of the named parameters, by default of all but the weights of
    networks; and the fit, which all profiles together may improve."""
    from .._problem.network_weights import named_indices

    progress = False if messages.quiet else None
    if not names:
        # Profiles that are computed together inform each other.
        fit = fit.with_intervals(level, progress=progress)
        names = [fit.names[j] for j in named_indices(len(fit.names), fit.networks)]
    return fit, [fit.profile(name, level, progress=progress) for name in names]


def _text(fit: "dd.Estimate", profiles: "list[Profile]", level: float) -> str:
    """Return a paragraph for each profile: its interval in words, and the verdict."""
    from .._results.printed_table import interval_in_words

    paragraphs = []
    for each in profiles:
        sentences = [interval_in_words(fit, each, level)]
        if fit.assessment is not None:
            reason = fit.verdicts[each.name].reason
            sentences += [reason] if reason else []
        paragraphs.append(" ".join(sentences))
    return "\n\n".join(paragraphs)


def _as_json(
    fit: "dd.Estimate", profiles: "list[Profile]", level: float
) -> list[dict[str, Any]]:
    from .._results.printed_table import limits_of

    return [
        {
            "name": each.name,
            "estimate": each.estimate,
            "level": level,
            "low": limits_of(fit, each).low,
            "high": limits_of(fit, each).high,
            "values": each.values.tolist(),
            "chi_square_rise": (each.r**2).tolist(),
        }
        for each in profiles
    ]
