"""`ddefind report`: the report of a saved fit, made again."""

from pathlib import Path
from typing import Annotated

from . import options as opt
from .messages import EXIT_CODES, Messages, errors_as_messages
from .parse_options import OptionError
from .startup import quick_start

REPORT_EXAMPLES = f"""\
\b
Examples:
  ddefind report result
  ddefind report result --until 30 --out for-my-colleague.html

\b
RESULT is the folder that `ddefind fit --out` wrote, or a saved fit. The report is one
page of HTML that needs nothing else, to be opened in a browser, sent or printed: the
equation, the estimates in words, charts, tests of the residuals, profiles, prediction,
and how to repeat the fit. By default it goes into that folder, or beside that file. The
code of a model in a file (--model) is run.

{EXIT_CODES}
"""
_Until = Annotated[
    str | None,
    opt.option(
        "--until",
        metavar="TIME",
        help="The last time of the prediction, a number or a date as in the data. By "
        "default it goes on for a quarter of the record.",
    ),
]
_File = Annotated[
    Path | None,
    opt.option(
        "--out",
        metavar="FILE.html",
        help="The file to write. By default it is report.html in the folder of the "
        "fit.",
    ),
]


def report(
    result: opt.Result,
    until: _Until = None,
    out: _File = None,
    quiet: opt.Quiet = False,
) -> None:
    """Write the report of a fit that was written earlier: a page to open or to send."""
    with errors_as_messages(), quick_start():
        from .._results.html_report import html_report
        from .._util.text_files import write_whole
        from .output_folder import CONFIG
        from .predict_command import last_time
        from .saved_fits import load_any_fit

        place = _place(result, out)
        fit = load_any_fit(result)
        last = None
        if until is not None:
            if not hasattr(fit, "predict"):
                raise OptionError("`--until`: a fit by gradient descent has no bands.")
            views = getattr(fit, "experiments", {})
            last = last_time(next(iter(views.values()), fit), until)
        config = result / CONFIG
        settings = config.read_text(encoding="utf-8") if config.is_file() else None
        write_whole(place, html_report(fit, last, settings))
        Messages(quiet).say(f"Written to {place}. Open it in a browser.")


def _place(result: Path, out: Path | None) -> Path:
    """The file to write."""
    from .._results.html_report import check_page
    from .output_folder import REPORT

    if out is None:
        return (result if result.is_dir() else result.parent) / REPORT
    if out.is_dir():
        raise OptionError(
            f"`--out`: {out} is a folder. Give the name of a file, as {out / REPORT}."
        )
    check_page("`--out`", out)
    return out
