"""Parsing with suggestions: what a misspelt command or option was meant to be."""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Iterable, Mapping, Sequence

__all__ = ["did_you_mean", "parse", "to_command"]


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """``, did you mean 'profile'?``, or nothing when no known word is near."""
    bare = {name.lstrip("-"): name for name in known}  # dashes alone make no two options alike
    near = difflib.get_close_matches(word.lstrip("-"), list(bare), 1)
    return f", did you mean {bare[near[0]]!r}?" if near else ""


def to_command(words: Iterable[str]) -> str:
    """The word that stands where a command does; empty when there is none."""
    return next((word for word in words if not word.startswith("-")), "")


def parse(parser: argparse.ArgumentParser, commands: Mapping[str, argparse.ArgumentParser],
          arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line. Prints usage and ends with code 2, as argparse does, for one that is not understood."""
    name = to_command(arguments)
    if not arguments:
        parser.error(f"found no command, needed one of {', '.join(commands)} (softneuro --help says more)")
    if name and name not in commands:
        parser.error(f"found command {name!r}{did_you_mean(name, commands) or ', needed one of ' + ', '.join(commands)}")
    options, rest = parser.parse_known_args(arguments)
    if rest:
        commands[options.command].error(f"found {' '.join(rest)!r}{_advice(rest[0], options.command, commands[options.command])}")
    return options


def _advice(argument: str, name: str, command: argparse.ArgumentParser) -> str:
    option = argument.partition("=")[0]
    known = [word for action in command._actions for word in action.option_strings]
    if option in known:
        return f", needed after {name!r}"
    if option.startswith("-"):
        return did_you_mean(option, known) or f", which {name!r} does not have: see softneuro {name} --help"
    return f", which is one argument too many for {name!r}"
