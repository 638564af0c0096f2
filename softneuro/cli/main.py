"""The parser, and errors turned into exit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from softneuro._version import __version__
from softneuro.cli import compare, demo, profile, run, tune
from softneuro.cli.console import error_console
from softneuro.errors import CompileError, SoftneuroError

__all__ = ["main"]

_BAD_INPUT, _CANNOT_RUN = 3, 4
COMMANDS = (demo, tune, run, compare, profile)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="softneuro", description="Tune ONNX models for this CPU, and run them.", epilog=_epilog(),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"softneuro {__version__}")
    parser.add_argument("--debug", action="store_true", help="show the stack trace of an error")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add_parser(commands)
    return parser


def _epilog() -> str:
    examples = "\n".join(f"  {command.EXAMPLE}" for command in COMMANDS)
    return f"examples:\n{examples}\n\nexit codes: 0 right, 1 difference found, 2 usage, 3 bad input, 4 cannot run here"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.function(options))
    except KeyboardInterrupt:
        error_console().print("interrupted: what was measured is kept when --profile names a file; run the same command to go on")
        return 130
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except (SoftneuroError, OSError, MemoryError) as error:
        if options.debug:
            raise
        error_console().print(f"softneuro {options.command}: {_sentence(error)}", style="red")
        return _CANNOT_RUN if isinstance(error, (CompileError, MemoryError)) else _BAD_INPUT


def _sentence(error: BaseException) -> str:
    """What went wrong, on one line."""
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return " ".join(str(error).split()) or type(error).__name__
