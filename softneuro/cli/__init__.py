"""The command line: one file a command, no logic of its own."""

from softneuro.cli.main import main

__all__ = ["main"]
