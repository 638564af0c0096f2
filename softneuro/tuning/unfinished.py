"""The measurements of a tuning that is under way: a file beside the plan to come, which is left when it is interrupted."""

from __future__ import annotations

from pathlib import Path

from softneuro.errors import InputError

__all__ = ["measuring_file", "start_measuring"]


def measuring_file(plan: Path) -> Path:
    """Where the measurements for a plan are kept until it is written."""
    return plan.with_name(f"{plan.name}.measuring")


def start_measuring(plan: Path, resume: bool, force: bool) -> Path:
    """The file for the measurements of a plan, made ready: with what is in it to go on from, or not there.

    Raises InputError when one is left over from a tuning that was interrupted, unless it is to be gone on from (resume) or
    to be begun again (force).
    """
    path = measuring_file(plan)
    if path.exists() and not resume:
        if not force:
            raise InputError(
                f"{path}: is left from a tuning that was interrupted: needed --resume to go on from it, or --force to begin again"
            )
        path.unlink()
    return path
