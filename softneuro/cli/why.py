"""What ``softneuro profile`` answers in place of its table: ``--why LAYER`` and ``--problem TEXT``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from softneuro.cli.columns import say_missing
from softneuro.cli.console import console, print_json, progress_bar
from softneuro.cli.inputs import feeds_for
from softneuro.cli.why_tables import print_explanation
from softneuro.report.explanation import Explanation, known_of
from softneuro.report.known_times import KnownTimes, read_measurements
from softneuro.report.problem_reading import read_problem
from softneuro.report.why import answer, explain_each, layer_names, matching, measure_missing
from softneuro.runtime.session import Session

__all__ = ["known_to", "layers_explained", "print_explanations", "problem_answered"]


def known_to(options: argparse.Namespace, session: Session | None) -> KnownTimes:
    """The times that a plan recorded, and those of --profile."""
    recorded = known_of(session).recorded if session is not None else {}
    return KnownTimes(recorded, read_measurements(options.profile) if options.profile is not None else None)


def problem_answered(options: argparse.Namespace) -> Explanation:
    """The problem of --problem with the times of its candidates."""
    return answer(read_problem(options.problem), known_to(options, None), not options.no_measure)


def layers_explained(options: argparse.Namespace, session: Session) -> list[Explanation]:
    """The layers that --why names, with the times of their candidates."""
    unsaid = argparse.Namespace(**{**vars(options), "quiet": True})  # only the sizes count, not what was made at random
    feeds = feeds_for(session, unsaid)
    names, known = matching(layer_names(session, feeds), options.why), known_to(options, session)
    if not options.no_measure:
        with progress_bar(options) as bar:
            task = bar.add_task("measure", total=1)

            def report(done: int, total: int, what: str) -> None:
                bar.update(task, description=f"measure {what}"[:60], completed=done, total=total)
                bar.refresh()

            known = measure_missing(session, feeds, names, known, report)
    return explain_each(session, feeds, names, known)


def print_explanations(options: argparse.Namespace, found: Sequence[Explanation]) -> int:
    """Print them as tables or JSON; returns the exit code."""
    if options.json:
        print_json({"explanations": [asdict(explanation) for explanation in found]})
        return 0
    out = console()
    missing: list[str] = []
    for index, explanation in enumerate(found):
        if index:
            out.print()
        missing += print_explanation(out, explanation)
    say_missing(options, list(dict.fromkeys(missing)))
    return 0
