"""The state of a file name whose creation failed, by the kind of failure."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from sarameya_handlers.landing.errors import UnansweredError
from sarameya_handlers.landing.files import is_there, make_directory, put_if_absent, put_over


def failing(call: Callable[..., object], code: int, *, before: bool = False) -> Callable[..., None]:
    def fail(*args: object, **kwargs: object) -> None:
        if before:
            call(*args, **kwargs)
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.ENOENT])
def test_refused_name_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    monkeypatch.setattr(os, "link", failing(os.link, code))
    with pytest.raises(OSError, match=os.strerror(code)) as refused:
        put_if_absent(tmp_path / "7", b"mine")
    assert not isinstance(refused.value, UnansweredError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("code", [errno.EIO, errno.ETIMEDOUT, errno.ESTALE])
@pytest.mark.parametrize("is_put", [False, True])
def test_name_with_an_unknown_outcome_raises_unanswered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_put: bool
) -> None:
    monkeypatch.setattr(os, "link", failing(os.link, code, before=is_put))
    with pytest.raises(UnansweredError, match=os.strerror(code)):
        put_if_absent(tmp_path / "7", b"mine")
    assert [path.name for path in tmp_path.iterdir()] == ["7"] * is_put


def test_possibly_existing_name_is_not_reported_as_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sarameya_handlers.landing.files.sync", failing(lambda path: None, errno.ENOSPC))
    with pytest.raises(UnansweredError, match="No space left"):
        put_if_absent(tmp_path / "7", b"mine")
    assert (tmp_path / "7").read_bytes() == b"mine"


def test_leftover_temporary_name_does_not_change_the_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as failure:
        failure.setattr(os, "unlink", failing(os.unlink, errno.EIO))
        assert put_if_absent(tmp_path / "7", b"mine")
        assert not put_if_absent(tmp_path / "7", b"theirs")
    assert (tmp_path / "7").read_bytes() == b"mine"
    assert len(list(tmp_path.glob(".put-*"))) == 2


@pytest.mark.parametrize("put", [put_if_absent, put_over])
def test_files_have_the_permissions_of_the_umask(tmp_path: Path, put: Callable[[Path, bytes], object]) -> None:
    before = os.umask(0o022)
    try:
        put(tmp_path / "file", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o644


def test_name_created_by_a_resent_call_is_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server executed the first call, but the client received only the response to the second."""

    def twice(source: str, name: str) -> None:
        link(source, name)
        link(source, name)

    link, synced = os.link, list[Path]()
    monkeypatch.setattr(os, "link", twice)
    monkeypatch.setattr("sarameya_handlers.landing.files.sync", synced.append)
    assert put_if_absent(tmp_path / "7", b"mine")
    assert synced[-1] == tmp_path, "the name must be durable, too"
    assert not put_if_absent(tmp_path / "7", b"mine")


def test_existing_name_that_is_not_found_is_unanswered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "link", failing(os.link, errno.EEXIST))
    with pytest.raises(UnansweredError):
        put_if_absent(tmp_path / "7", b"mine")


def test_directory_whose_sync_failed_is_created_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the next caller assumes that the name is durable."""
    with monkeypatch.context() as broken:
        broken.setattr("sarameya_handlers.landing.files.sync", failing(lambda path: None, errno.EIO))
        with pytest.raises(OSError, match="Input/output error"):
            make_directory(tmp_path / "a" / "b")
    assert not list(tmp_path.iterdir())
    make_directory(tmp_path / "a" / "b")
    assert (tmp_path / "a" / "b").is_dir()


def test_file_on_a_failing_disk_raises_instead_of_absent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    assert is_there(tmp_path / "file")
    assert not is_there(tmp_path / "other")
    assert not is_there(tmp_path / "file" / "below")
    monkeypatch.setattr(os, "stat", failing(os.stat, errno.EIO))
    with pytest.raises(OSError, match="Input/output error"):
        is_there(tmp_path / "file")
