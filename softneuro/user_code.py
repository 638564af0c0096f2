"""Functions of the user's own modules, named on the command line as ``module:function``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from softneuro.errors import InputError

__all__ = ["in_words", "is_named", "named_function"]


def is_named(text: str) -> bool:
    """Whether a text has the form ``module:function``."""
    module, colon, function = text.rpartition(":")
    return bool(colon and module) and function.isidentifier() and all(part.isidentifier() for part in module.split("."))


def named_function(text: str) -> Callable[..., Any]:
    """The function ``module:function``; the module is looked for in the current folder too.

    Raises InputError when the text has another form, or there is no such function; importing runs the module's code.
    """
    if not is_named(text):
        raise InputError(f"{text}: needed module:function")
    module, _, function = text.rpartition(":")
    if str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # it stays: the function may import more when it is called
    try:
        found = getattr(importlib.import_module(module), function)
    except Exception as error:  # a user's code raises anything
        raise InputError(f"{text}: {in_words(error)}") from error
    if not callable(found):
        raise InputError(f"{text}: found {type(found).__name__}, needed a function")
    return found  # type: ignore[no-any-return]


def in_words(error: Exception) -> str:
    """An error of a user's code as one line."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"
