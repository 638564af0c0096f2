"""``--limit``: what the files that a command reads may ask for."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path

import pytest

from softneuro.cli.arguments import add_limit
from softneuro.cli.main import main
from softneuro.errors import ResourceLimitError
from softneuro.limits import ResourceLimits, in_force
from tests.cli_harness import Bench, Capture, refused


def read(*texts: str) -> dict[str, int]:
    parser = argparse.ArgumentParser()
    add_limit(parser)
    return dict(parser.parse_args([word for text in texts for word in ("--limit", text)]).limit)


@pytest.mark.parametrize(("text", "amount"), [
    ("memory=8G", 8 << 30), ("memory=8g", 8 << 30), ("tensor_bytes=1.5K", 1536), ("nodes=100000", 100_000), ("nodes=10K", 10_000),
    ("iterations=2M", 2_000_000), ("weight_bytes=1T", 1 << 40), ("rank=0", 0),
])  # fmt: skip
def test_amounts(text: str, amount: int) -> None:
    assert read(text) == {text.partition("=")[0]: amount}


def test_the_last_of_a_name_counts() -> None:
    assert read("nodes=5", "rank=3", "nodes=7") == {"nodes": 7, "rank": 3}


@pytest.mark.parametrize(("text", "message"), [
    ("memroy=8G", "found 'memroy', did you mean 'memory'?, needed one of nodes, nesting, rank, "),
    ("zzz=1", "found 'zzz', needed one of nodes, nesting, rank, "),
    ("8G", "found '8G', needed one of nodes, "),
    ("memory", "found 'memory', needed memory=AMOUNT"),
    ("memory=", "needed memory=AMOUNT with a number of 0 or more, and K, M, G or T"),
    ("memory=8X", "found 'memory=8X', needed memory=AMOUNT"),
    ("memory=-1", "found 'memory=-1', needed memory=AMOUNT"),
    ("memory=nanG", "found 'memory=nanG', needed memory=AMOUNT"),
    ("memory=infG", "found 'memory=infG', needed memory=AMOUNT"),
    ("nodes=1.5", "found 'nodes=1.5', needed nodes=AMOUNT"),
])  # fmt: skip
def test_what_is_no_limit_is_a_usage_error(text: str, message: str, capsys: Capture) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["run", "a.plan", "--limit", text])
    assert caught.value.code == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("command", ["run", "bench", "profile", "compare", "inspect", "tune"])
def test_every_command_that_reads_files_heeds_it(command: str, bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    read_by = {"tune": [bench.model, "-o", tmp_path / "a.plan", "--effort", "0"],
               "compare": [bench.plan, "--against", "reference"]}  # fmt: skip
    arguments = [command, *read_by.get(command, [bench.plan]), "--limit", "nodes=2"]
    refused(capsys, arguments, "2 are allowed (limit 'nodes': --limit nodes=")


def test_a_run_heeds_it(bench: Bench, capsys: Capture) -> None:
    refused(capsys, ["run", bench.plan, "--limit", "memory=1K"], "bytes, 1024 are allowed (limit 'memory': --limit memory=")
    assert main(["run", str(bench.plan), "--limit", "memory=1M"]) == 0


def test_engines_of_bench_heed_it(bench: Bench, capsys: Capture) -> None:
    refused(capsys, ["bench", bench.plan, "--seconds", "0", "--limit", "memory=1K"], "1024 are allowed (limit 'memory'")


def test_an_interrupted_measuring_file_is_a_profile(bench: Bench, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "times.jsonl").write_text("x" * 200)
    arguments = ["tune", bench.model, "-o", tmp_path / "a.plan", "--profile", tmp_path / "times.jsonl", "--limit",
                 "line_bytes=100"]
    refused(capsys, arguments, "a line has at least 101 bytes, 100 are allowed (limit 'line_bytes': --limit line_bytes=202")


def test_the_former_limits_are_back_afterwards(bench: Bench) -> None:
    before = in_force()
    assert main(["inspect", str(bench.model), "--limit", "nodes=100"]) == 0
    assert in_force() is before


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ResourceLimits)])
@pytest.mark.parametrize("found", [1, 65, 999_999, 1_000_000, 17_179_869_185, 10**15 + 1, 10**25])
def test_the_option_that_an_error_names_lets_it_pass(name: str, found: int) -> None:
    strict = dataclasses.replace(ResourceLimits(), **{name: 0})
    with pytest.raises(ResourceLimitError) as caught:
        strict.check(name, found, "it has")
    option = str(caught.value).split("--limit ")[1].split()[0]
    raised = dataclasses.replace(strict, **read(option))
    raised.check(name, found, "it has")
    assert getattr(raised, name) <= 1.11 * found
