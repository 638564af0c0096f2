"""Completion by the Tab key, through argcomplete (extra ``completion``).

argcomplete runs the program itself with the line so far in its environment; see docs/commands.md for how a shell is told.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["complete", "words_to_complete"]

Completer = Callable[..., Iterator[str]]


def words_to_complete() -> list[str] | None:
    """The whole words after the program's name when a shell asks for completions, else None."""
    start = os.environ.get("_ARGCOMPLETE", "")
    if not start.isdecimal():
        return None
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    return line.split()[int(start) : None if line[-1:].isspace() else -1]


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer the shell that asks for completions and end the process; nothing when argcomplete is not installed."""
    try:
        import argcomplete
    except ImportError:
        return
    for command in _with_subparsers(parser):
        for action in command._actions:
            if action.choices is None and action.nargs != 0:
                action.completer = _completer(action)  # type: ignore[attr-defined]
    argcomplete.autocomplete(parser)


def _with_subparsers(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.values()


def _completer(action: argparse.Action) -> Completer:
    for option in action.option_strings:
        if option in _BY_OPTION:
            return _BY_OPTION[option]
    return _files if action.type is Path else _nothing


def _nothing(**_: Any) -> Iterator[str]:
    return iter(())


def _files(prefix: str, **_: Any) -> Iterator[str]:
    """Files and folders that begin with the prefix; hidden ones only when asked for."""
    folder, start = os.path.split(prefix)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(start) and (start or not entry.name.startswith(".")):
            yield os.path.join(folder, entry.name) + ("/" if entry.is_dir() else "")


def _named_files(prefix: str, **_: Any) -> Iterator[str]:
    """``name=file``, or a file alone."""
    name, equals, start = prefix.rpartition("=")
    return (f"{name}{equals}{path}" for path in _files(start))


def _engines(prefix: str, action: argparse.Action, **_: Any) -> Iterator[str]:
    """Engines, by commas where several may be named; where one is, also a plan to compare with."""
    listed, comma, start = prefix.rpartition(",")
    for engine in ("onnxruntime", "openvino", "ncnn"):
        if engine.startswith(start) and engine not in listed.split(","):
            yield f"{listed}{comma}{engine}"
    if "," not in str(action.metavar):
        yield from _files(prefix)


def _limits(prefix: str, **_: Any) -> Iterator[str]:
    """Names of limits, before the amount."""
    from softneuro.limits import ResourceLimits

    return (f"{field.name}=" for field in dataclasses.fields(ResourceLimits) if field.name.startswith(prefix))


_BY_OPTION: Mapping[str, Completer] = {"--input": _named_files, "--against": _engines, "--limit": _limits}
"""What completes the values that are neither listed choices nor simply paths."""
