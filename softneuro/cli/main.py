"""The parser, and errors turned into exit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import logging
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from types import ModuleType

from softneuro._version import __version__
from softneuro.cli.completion import complete, words_to_complete
from softneuro.cli.console import error_console
from softneuro.cli.spelling import parse, to_command
from softneuro.errors import CompileError, NotInstalled, SoftneuroError

__all__ = ["COMMANDS", "build_parser", "main"]

_BAD_INPUT, _CANNOT_RUN, _INTERRUPTED = 3, 4, 130
COMMANDS = ("demo", "tune", "run", "bench", "profile", "compare", "inspect", "doctor")
"""Names of the commands, and of their modules beside this one."""


def build_parser(needed: Collection[str] = COMMANDS) -> tuple[argparse.ArgumentParser, dict[str, argparse.ArgumentParser]]:
    """The parser of the whole command line, and each command's own by its name.

    Only the commands that are needed are imported, as importing all takes longer than running most plans; the parsers of
    the others know nothing but their names.
    """
    modules = {name: importlib.import_module(f"softneuro.cli.{name}") for name in COMMANDS if name in needed}
    parser = argparse.ArgumentParser(
        prog="softneuro", description="Tune ONNX models for this CPU, and run them.", epilog=_epilog(modules.values()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"softneuro {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for name in COMMANDS:
        if name in modules:
            _add_common(modules[name].add_parser(commands))
        else:
            commands.add_parser(name)
    return parser, dict(commands.choices)


def _add_common(parser: argparse.ArgumentParser) -> None:
    """``-q``, ``-v`` and ``--debug``, which every command has."""
    amount = parser.add_mutually_exclusive_group()
    amount.add_argument("-q", "--quiet", action="store_true", help="print results and errors only: no progress, no remarks")
    amount.add_argument("-v", "--verbose", action="count", default=0, help="say more of what is done (-vv: everything)")
    parser.add_argument("--debug", action="store_true", help="show the stack trace of an error")


def _epilog(commands: Iterable[ModuleType]) -> str:
    examples = "\n".join(f"  {command.EXAMPLE}" for command in commands)
    return (f"examples:\n{examples}\n\nResults go to standard output, remarks, progress and errors to standard error.\n"
            "exit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here, 130 interrupted")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    try:
        try:
            return _run(sys.argv[1:] if arguments is None else arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:  # whoever read the output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _run(arguments: Sequence[str]) -> int:
    words = words_to_complete()
    if words is not None:
        complete(build_parser([to_command(words)])[0])
    for_help = not to_command(arguments) and any(word.startswith(("-h", "--h")) for word in arguments)
    parser, commands = build_parser(COMMANDS if for_help else [to_command(arguments)])
    options = parse(parser, commands, arguments)
    options.arguments = list(arguments)  # for messages and plans that repeat the command
    try:
        with _logging(options), _limits(options):
            return int(options.function(options))
    except KeyboardInterrupt as interruption:
        error_console().print(f"softneuro {options.command}: interrupted{_sentence(interruption, ': ')}")
        return _INTERRUPTED
    except BrokenPipeError:  # an OSError, but no bad input
        raise
    except (SoftneuroError, OSError, MemoryError) as error:
        if options.debug:
            raise
        error_console().print(f"softneuro {options.command}: {_sentence(error) or type(error).__name__}", style="red")
        return _CANNOT_RUN if isinstance(error, (CompileError, NotInstalled, MemoryError)) else _BAD_INPUT


@contextlib.contextmanager
def _logging(options: argparse.Namespace) -> Iterator[None]:
    """Let the library's log messages through to standard error: warnings, with ``-v`` information, with ``-vv`` all."""
    level = logging.ERROR if options.quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(options.verbose, 2)]
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logger = logging.getLogger("softneuro")
    before = logger.level
    logger.addHandler(handler)
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)


def _limits(options: argparse.Namespace) -> contextlib.AbstractContextManager[None]:
    """What --limit allows the files that the command reads, as long as it runs."""
    from softneuro.limits import ResourceLimits, enforced  # imports numpy, which not every command line needs

    return enforced(ResourceLimits(**dict(getattr(options, "limit", ()))))


def _sentence(error: BaseException, before: str = "") -> str:
    """What went wrong, on one line; empty when the error says nothing."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{before}{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return f"{before}{text}" if text else ""
