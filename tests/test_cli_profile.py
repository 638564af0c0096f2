"""``softneuro profile``."""

from __future__ import annotations

import softneuro
from softneuro.cli.main import main
from tests.cli_harness import Bench, Capture


def test_profile_names_every_layer(bench: Bench, capsys: Capture) -> None:
    assert main(["profile", str(bench.plan), "--repeat", "2"]) == 0
    printed = capsys.readouterr().out
    layers = [layer.name for layer in softneuro.Plan.load(bench.plan).graph.layers]
    assert all(any(line.startswith(name) for line in printed.splitlines()) for name in layers)
    assert "conv." in printed and "matmul." in printed
    assert "…" not in printed, "columns must be whole when piped"
    assert printed.splitlines()[-1].startswith("total ")


def test_profile_shows_the_slowest_rows(bench: Bench, capsys: Capture) -> None:
    assert main(["profile", str(bench.plan), "--repeat", "1", "--top", "1"]) == 0
    head, row, total = capsys.readouterr().out.splitlines()
    assert head.startswith("layer") and total.startswith("total ")
    assert row.strip()
