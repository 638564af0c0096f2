"""The bound of the cache of compiled kernels."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import softneuro
from softneuro.errors import InputError
from softneuro.tuning import object_cache, tuner
from softneuro.tuning.object_cache import OBJECT, bound_cache, most_cached_bytes
from tests.cli_harness import write_model


def filled(folder: Path, count: int, nbytes: int = 10) -> list[Path]:
    """Kernels of which each was used a second after the one before."""
    paths = [folder / f"sn_conv_igemm_{number:024x}.o" for number in range(count)]
    for number, path in enumerate(paths):
        path.write_bytes(bytes(nbytes))
        os.utime(path, (1000 + number, 500))
    return paths


@pytest.mark.parametrize(("count", "most", "left"),
                         [(10, 100, 10), (11, 100, 7), (10, 99, 7), (10, 40, 3), (10, 0, 0), (0, 0, 0)])
def test_what_was_not_used_for_longest_goes(tmp_path: Path, count: int, most: int, left: int) -> None:
    paths = filled(tmp_path, count)
    assert bound_cache(tmp_path, most) == (count - left, 10 * (count - left))
    assert sorted(tmp_path.iterdir()) == paths[count - left :]


def test_reading_and_writing_are_uses(tmp_path: Path) -> None:
    read, written, old, new = filled(tmp_path, 4)
    os.utime(read, (5000, 500))
    os.utime(written, (500, 5000))
    bound_cache(tmp_path, 30)
    assert sorted(tmp_path.iterdir()) == [read, written] and not (old.exists() or new.exists())


def test_only_kernels_count_and_go(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "objects", tmp_path / "elsewhere"
    for path in (folder, elsewhere):
        path.mkdir()
    (target,) = filled(elsewhere, 1)
    others = [folder / name for name in ("notes.txt", "sn_conv_000000000000000000000001.7.8.tmp", "sn_conv_0.o")]
    for path in others:
        path.write_bytes(bytes(1000))
    link, inner = folder / f"sn_a_{1:024x}.o", folder / f"sn_a_{2:024x}.o"
    link.symlink_to(target)
    inner.mkdir()
    (kernel,) = filled(folder, 1)
    assert bound_cache(folder, 10) == (0, 0)
    assert bound_cache(folder, 9) == (1, 10)
    assert sorted(folder.iterdir()) == sorted([*others, link, inner]) and target.exists() and not kernel.exists()


def test_folders_that_are_absent_or_links_stay(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (kernel,) = filled(tmp_path / "real", 1)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert bound_cache(tmp_path / "absent", 0) == bound_cache(tmp_path / "link", 0) == (0, 0)
    assert kernel.exists()


def test_a_kernel_that_another_process_removes_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = filled(tmp_path, 4)
    remove = os.unlink

    def faster(name: str, *, dir_fd: int) -> None:
        if paths[0].exists():
            paths[0].unlink()
        remove(name, dir_fd=dir_fd)

    monkeypatch.setattr(object_cache.os, "unlink", lambda path, **more: faster(path, **more) if more else remove(path))
    assert bound_cache(tmp_path, 30) == (1, 10)
    assert sorted(tmp_path.iterdir()) == paths[2:]


def test_a_folder_that_cannot_be_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(tmp_path, 3)

    def refuse(*args: object, **more: object) -> None:
        raise PermissionError("no")

    with monkeypatch.context() as patched:
        patched.setattr(object_cache.os, "unlink", refuse)
        assert bound_cache(tmp_path, 0) == (0, 0)


def test_many_at_once(tmp_path: Path) -> None:
    paths = filled(tmp_path, 400)
    with ThreadPoolExecutor(4) as pool:
        removed = sum(count for count, _ in pool.map(lambda _: bound_cache(tmp_path, 2000), range(4)))
    assert sorted(tmp_path.iterdir()) == paths[-150:] and removed == 250


@pytest.mark.parametrize(("text", "nbytes"), [("", 1 << 30), ("0", 0), ("1000", 1000), ("500M", 500 << 20), ("1.5g", 3 << 29)])
def test_the_bound_is_an_environment_variable(monkeypatch: pytest.MonkeyPatch, text: str, nbytes: int) -> None:
    monkeypatch.setenv("SOFTNEURO_CACHE_LIMIT", text)
    assert most_cached_bytes() == nbytes


@pytest.mark.parametrize("text", ["much", "-1", "4GB", "infG"])
def test_what_is_no_bound(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("SOFTNEURO_CACHE_LIMIT", text)
    with pytest.raises(InputError, match=r"SOFTNEURO_CACHE_LIMIT: found .*, needed bytes such as 500M or 4G"):
        most_cached_bytes()


@pytest.mark.parametrize("compiled", [True, False])
def test_tuning_that_compiled_keeps_the_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiled: bool) -> None:
    monkeypatch.setattr(tuner, "precompile", lambda specs, target, report: report(1, 1, "") if compiled else None)
    monkeypatch.setattr(tuner, "cache_folder", lambda: tmp_path)
    monkeypatch.setenv("SOFTNEURO_CACHE_LIMIT", "20")
    filled(tmp_path, 3)
    softneuro.tune(write_model(tmp_path / "model.onnx", batch="n"), threads=1, effort=0)
    assert sum(OBJECT.fullmatch(path.name) is not None for path in tmp_path.iterdir()) == (1 if compiled else 3)
