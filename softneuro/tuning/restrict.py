"""Which routines layers may run with: rules such as ``f32:chl/winograd@conv1..conv5`` or ``!igemm``.

    rule        [!]descriptor[@layers]   only what the descriptor matches is allowed, or with ! it is forbidden
    descriptor  [dtype][:layout][/algorithm], or a routine's full name such as conv.igemm.f32.chl
    layers      names, names with wildcards, and ranges first..last in the graph's order, separated by commas

Every word may hold wildcards (``*``, ``?``). A word alone is a data type, a layout or an algorithm, whichever knows it. A
candidate has the data types and layouts of all that it reads and writes. The number that ends an algorithm's name may be
left out: ``winograd`` is ``winograd23`` and ``winograd43``. Conversions are not layers, so no rule holds for them.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from softneuro.errors import InputError
from softneuro.plan.plan import Choice
from softneuro.routines.table import ROUTINES
from softneuro.types import DType, Layout

__all__ = ["Rule", "parse_rule", "restrict"]

_WILDCARDS = frozenset("*?[")
_DIGITS = "0123456789"
_SHOWN, _NEAR = 6, 3
_NAMES = tuple(routine.name for routines in ROUTINES.values() for routine in routines)
_ALGORITHMS = {name.split(".")[1] for name in _NAMES} | {"reference", "empty"}
_KNOWN: Mapping[str, Collection[str]] = {
    "data type": {str(dtype) for dtype in DType} - {str(DType.OTHER)} | {"qint8"},
    "layout": {str(layout) for layout in Layout},
    "algorithm": _ALGORITHMS | {name.rstrip(_DIGITS) for name in _ALGORITHMS},
    "routine": set(_NAMES),
}
"""The words of each kind."""


@dataclass(frozen=True)
class _Word:
    """A pattern that must match a trait of one of these kinds."""

    kinds: tuple[str, ...]
    pattern: str


@dataclass(frozen=True)
class Rule:
    """A rule as it was written, and what it says. layers: None for all."""

    text: str
    forbids: bool
    words: tuple[_Word, ...]
    layers: str | None

    def matches(self, choice: Choice) -> bool:
        """Whether the descriptor fits a candidate."""
        traits = _traits(choice)
        return all(any(fnmatchcase(t, word.pattern) for kind in word.kinds for t in traits[kind]) for word in self.words)


def _traits(choice: Choice) -> dict[str, Collection[str]]:
    """What a candidate is, by kinds of words."""
    formats = [f for f in (*choice.signature.inputs, *choice.signature.outputs) if f is not None]
    algorithm = choice.routine.split(".")[1]
    return {
        "data type": {str(f.dtype) for f in formats},
        "layout": {str(f.layout) for f in formats},
        "algorithm": {algorithm, algorithm.rstrip(_DIGITS)},
        "routine": {choice.routine},
    }


def parse_rule(text: str) -> Rule:
    """Read a rule. Raises InputError when it is not of that form or has a word that nothing is called."""
    body = text.strip()
    forbids = body.startswith("!")
    descriptor, at, layers = body.removeprefix("!").partition("@")
    if not descriptor or (at and not layers.strip()):
        raise InputError(f"routine {text!r}: needed [!][dtype][:layout][/algorithm][@layers], such as f32:chl/winograd@conv1")
    words = tuple(_words(descriptor.strip(), text))
    for word in words:
        _check(word, text)
    return Rule(text, forbids, words, layers.strip() if at else None)


def _words(descriptor: str, text: str) -> Iterable[_Word]:
    """The descriptor's words; what is left out or ``*`` says nothing."""
    if "." in descriptor:
        return [_Word(("routine",), descriptor)]
    format_, slash, algorithm = descriptor.partition("/")
    dtype, colon, layout = format_.partition(":")
    if "/" in algorithm or ":" in layout or ":" in algorithm:
        raise InputError(f"routine {text!r}: found more than dtype:layout/algorithm")
    kinds: tuple[str, ...] = ("data type",) if colon else ("data type", "layout")
    if not colon and not slash:
        kinds = ("data type", "layout", "algorithm")
    found = (_Word(kinds, dtype), _Word(("layout",), layout), _Word(("algorithm",), algorithm))
    return [word for word in found if word.pattern.strip("*")]


def _check(word: _Word, text: str) -> None:
    known = sorted({name for kind in word.kinds for name in _KNOWN[kind]})
    if not any(fnmatchcase(name, word.pattern) for name in known):
        what = " or ".join(word.kinds)
        raise InputError(f"routine {text!r}: {word.pattern!r} is no {what}{_suggestion(word.pattern, known)}")


def _suggestion(word: str, known: Sequence[str]) -> str:
    near = [name for name in known if word.lower() in name.lower()][:_NEAR] or difflib.get_close_matches(word, known, _NEAR)
    if near:
        return f", did you mean {' or '.join(map(repr, near))}?"
    return f", needed {_listed(known)}" if known else ""


def _listed(names: Sequence[str]) -> str:
    more = f" … ({len(names)} in all)" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


def restrict(rules: Sequence[Rule], offers: Mapping[str, Sequence[Choice]],
             layers: Sequence[str]) -> dict[str, tuple[Choice, ...]]:
    """The candidates that the rules leave to every layer.

    offers: the candidates of the layers that have a choice; layers: the names of all layers in the graph's order. Where
    several rules pin a layer, it may use what any of them matches; what is forbidden is taken away afterwards. A pin
    without layers, or with wildcards or a range, leaves alone the layers where it matches nothing.

    Raises InputError, which names the layer and what it offers, when a layer does not exist or has no choice, when a pin
    finds nothing (in a layer that it names, or at all), and when nothing is left to a layer.
    """
    pinned: dict[str, list[Choice]] = {}
    for rule in rules:
        if not rule.forbids:
            for name in _pinned_layers(rule, offers, layers):
                pinned.setdefault(name, []).extend(choice for choice in offers[name] if rule.matches(choice))
    allowed = {
        name: tuple(choice for choice in choices if name not in pinned or choice in pinned[name])
        for name, choices in offers.items()
    }
    for rule in rules:
        if rule.forbids:
            for name in _named(rule, offers, layers):
                allowed[name] = tuple(choice for choice in allowed[name] if not rule.matches(choice))
                if not allowed[name]:
                    offer = _offer(offers[name])
                    raise InputError(f"routine {rule.text!r}: nothing is left to layer {name!r}, which offers {offer}")
    return allowed


def _pinned_layers(rule: Rule, offers: Mapping[str, Sequence[Choice]], layers: Sequence[str]) -> list[str]:
    """The layers that a pin holds for: those it names, and of the others those where it matches something."""
    found = []
    for names, exact in _scopes(rule, offers, layers):
        matched = [name for name in names if any(map(rule.matches, offers[name]))]
        if not matched and exact:
            offer = _offer(offers[names[0]])
            raise InputError(f"routine {rule.text!r}: layer {names[0]!r} has no such routine, it offers {offer}")
        if not matched:
            offer = _offer(choice for name in names for choice in offers[name])
            raise InputError(f"routine {rule.text!r}: none of {len(names)} layers has such a routine, they offer {offer}")
        found += matched
    return list(dict.fromkeys(found))


def _named(rule: Rule, offers: Mapping[str, Sequence[Choice]], layers: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(name for names, _ in _scopes(rule, offers, layers) for name in names))


def _offer(choices: Iterable[Choice]) -> str:
    return _listed(sorted({choice.routine for choice in choices}))


def _scopes(rule: Rule, offers: Mapping[str, Sequence[Choice]], layers: Sequence[str]) -> list[tuple[list[str], bool]]:
    """For each item of the rule's layers: those it means that have a choice, and whether it is the name of one."""
    if rule.layers is None:
        return [(list(offers), False)]
    if rule.layers in layers:  # names may hold commas
        return [_scope(rule.layers, rule, offers, layers)]
    return [_scope(item.strip(), rule, offers, layers) for item in rule.layers.split(",") if item.strip()]


def _scope(item: str, rule: Rule, offers: Mapping[str, Sequence[Choice]], layers: Sequence[str]) -> tuple[list[str], bool]:
    if item in layers:
        if item not in offers:
            raise InputError(f"routine {rule.text!r}: layer {item!r} runs on the host, whatever the routines")
        return [item], True
    first, dots, last = item.partition("..")
    if dots:
        begin, end = layers.index(_end(first, rule, layers)), layers.index(_end(last, rule, layers))
        if begin > end:
            raise InputError(f"routine {rule.text!r}: layer {last!r} comes before {first!r}, needed first..last")
        means = list(layers[begin : end + 1])
    else:
        means = [name for name in layers if fnmatchcase(name, item)] if _WILDCARDS & set(item) else []
        if not means:
            raise InputError(f"routine {rule.text!r}: no layer is called {item!r}{_suggestion(item, layers)}")
    return [name for name in means if name in offers], False


def _end(name: str, rule: Rule, layers: Sequence[str]) -> str:
    """An end of a range. Raises InputError when no layer is called so."""
    if name not in layers:
        raise InputError(f"routine {rule.text!r}: no layer is called {name!r}{_suggestion(name, layers)}")
    return name
