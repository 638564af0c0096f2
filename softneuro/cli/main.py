"""The parser, and errors turned into exit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here."""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
from collections.abc import Iterator, Sequence

from softneuro._version import __version__
from softneuro.cli import compare, demo, profile, run, tune
from softneuro.cli.arguments import add_common
from softneuro.cli.console import error_console
from softneuro.errors import CompileError, SoftneuroError

__all__ = ["COMMANDS", "main"]

_BAD_INPUT, _CANNOT_RUN, _INTERRUPTED = 3, 4, 130
COMMANDS = (demo, tune, run, compare, profile)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="softneuro", description="Tune ONNX models for this CPU, and run them.", epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"softneuro {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        add_common(command.add_parser(commands))
    return parser


def _epilog() -> str:
    examples = "\n".join(f"  {command.EXAMPLE}" for command in COMMANDS)
    return (f"examples:\n{examples}\n\nResults go to standard output, remarks, progress and errors to standard error.\n"
            "exit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here, 130 interrupted")  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        with _logging(options):
            return int(options.function(options))
    except KeyboardInterrupt as interruption:
        error_console().print(f"softneuro {options.command}: interrupted{_sentence(interruption, ': ')}")
        return _INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (SoftneuroError, OSError, MemoryError) as error:
        if options.debug:
            raise
        error_console().print(f"softneuro {options.command}: {_sentence(error) or type(error).__name__}", style="red")
        return _CANNOT_RUN if isinstance(error, (CompileError, MemoryError)) else _BAD_INPUT


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


def _sentence(error: BaseException, before: str = "") -> str:
    """What went wrong, on one line; empty when the error says nothing."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{before}{error.filename}: {error.strerror}"
    text = " ".join(str(error).split())
    return f"{before}{text}" if text else ""
