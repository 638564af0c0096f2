"""Sphinx configuration. Build with ``sphinx-build -W --keep-going -n docs site``; nothing is fetched."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]

from softneuro import __version__  # noqa: E402

project = "softneuro"
release = version = __version__
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "command_options"]
exclude_patterns = ["site"]
html_theme = "alabaster"
html_theme_options = {
    "description": "An auto-tuning inference compiler for CPUs", "fixed_sidebar": True,
    "page_width": "76rem", "body_max_width": "auto",
}
html_show_copyright = False
html_copy_source = False
smartquotes = False  # --dry-run is no dash

myst_heading_anchors = 3
default_role = "autolink"  # `name` in a docstring links to what the reference documents
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autosummary_generate = False

nitpick_ignore_regex = [
    ("py:.*", r"(collections\.abc|pathlib|typing|numpy|onnx)\..*"),  # other packages' own
    ("py:.*", r"[A-Z]\w*"),  # aliases, and what is imported for type checkers, by their bare names
    # what lies behind the public names
    ("py:.*", r"softneuro\.(codegen|graph|plan|quantisation|routines|runtime|tuning|types)\..*"),
]


def _with_parameters(app: Any, what: str, name: str, thing: object, options: object, lines: list[str]) -> None:
    """Paragraphs whose every line is ``name: text`` or the indented rest of one are lists of parameters."""
    lines[:] = [line for paragraph in _paragraphs(lines) for line in _as_fields(paragraph)]


def _paragraphs(lines: list[str]) -> Iterator[list[str]]:
    paragraph: list[str] = []
    for line in lines:
        if not line.strip():
            yield [*paragraph, ""]
            paragraph = []
        else:
            paragraph.append(line)
    yield paragraph


def _as_fields(paragraph: list[str]) -> list[str]:
    if not all(re.match(r"\w+: |    |$", line) for line in paragraph) or not re.match(r"\w+: ", "".join(paragraph)):
        return paragraph
    return [re.sub(r"^(\w+): ", r":param \1: ", line) for line in paragraph]


def _readable(app: Any, what: str, name: str, thing: object, options: object, signature: str | None,
              returned: str | None) -> tuple[str | None, str | None]:
    """Signatures without ``<factory>``, which is no Python, so that their types are linked."""
    return signature and signature.replace("<factory>", "..."), returned


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", _readable)
    app.connect("autodoc-process-docstring", _with_parameters)
