"""A directive that writes a command's arguments from its parser, so that no page falls behind: ``{command-options} tune``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from docutils import nodes
from docutils.parsers.rst import Directive
from sphinx.application import Sphinx

from softneuro.cli.main import build_parser


class CommandOptions(Directive):
    """The arguments of a command by group, and what its help says after them."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        command = build_parser()[1][self.arguments[0]]
        return [*groups(command), nodes.literal_block("", command.epilog or "", language="text")]


def groups(command: argparse.ArgumentParser) -> Iterator[nodes.Node]:
    """A heading and a list of arguments for each group of the command's arguments."""
    for group in command._action_groups:
        actions = [action for action in group._group_actions if action.help != argparse.SUPPRESS]
        if actions:
            title = (group.title or "").capitalize()
            yield nodes.rubric("", f"{title}: {group.description}" if group.description else title)
            yield nodes.definition_list("", *(_item(command, action) for action in actions))


def _item(command: argparse.ArgumentParser, action: argparse.Action) -> nodes.definition_list_item:
    values = {**vars(action), "prog": command.prog}
    term = nodes.term("", "", nodes.literal("", spelling(action)))
    return nodes.definition_list_item("", term, nodes.definition("", nodes.paragraph("", (action.help or "") % values)))


def spelling(action: argparse.Action) -> str:
    """How an argument is written: ``-o, --output PLAN``."""
    metavar = action.metavar or ("{" + ",".join(map(str, action.choices)) + "}" if action.choices else action.dest.upper())
    if not action.option_strings:
        return str(action.metavar or action.dest)
    return ", ".join(action.option_strings) + ("" if action.nargs == 0 else f" {metavar}")


def setup(app: Sphinx) -> dict[str, bool]:
    """Called by Sphinx."""
    app.add_directive("command-options", CommandOptions)
    return {"parallel_read_safe": True}
