"""Files are written whole, and are on the disk before they take the place of what was there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from skipring._writing import whole_file, write_file


def test_what_was_there_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    place = tmp_path / "result.json"
    write_file(place, "old")
    with whole_file(place) as file:
        file.write(b"ne")
        assert place.read_text() == "old"
        file.write(b"w")
    assert place.read_text() == "new"
    with pytest.raises(TypeError), whole_file(place) as file:
        file.writelines([b"half", None])  # type: ignore[list-item] # what goes wrong in between
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"result.json": "new"}


def test_where_nothing_can_be_written_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "taken").mkdir()
    with pytest.raises(OSError, match="directory"):
        write_file(tmp_path / "taken", b"content")
    assert [path.name for path in tmp_path.iterdir()] == ["taken"]
    with pytest.raises(FileNotFoundError):
        write_file(tmp_path / "nowhere" / "file", b"content")


def test_nobody_else_may_read_a_secret_at_any_moment(tmp_path: Path) -> None:
    with whole_file(tmp_path / "key", mode=0o600):
        (draft,) = tmp_path.iterdir()
        assert stat.S_IMODE(draft.stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "key").stat().st_mode) == 0o600


def test_a_file_is_on_the_disk_before_it_takes_its_place_and_its_name_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    real = os.fsync

    def synced(place: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{place}"))
        there = (tmp_path / "a").exists()
        order.append(f"{'folder' if name == tmp_path else 'content'} {'after' if there else 'before'}")
        real(place)

    monkeypatch.setattr(os, "fsync", synced)
    write_file(tmp_path / "a", b"content")
    assert order == ["content before", "folder after"]


def test_a_new_file_takes_the_place_of_none(tmp_path: Path) -> None:
    write_file(tmp_path / "a", "first", new=True)
    with pytest.raises(FileExistsError):
        write_file(tmp_path / "a", "second", new=True)
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a": "first"}


def test_what_is_no_file_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        write_file(pipe, "content")
        assert os.read(end, 100) == b"content"
        assert stat.S_ISFIFO(pipe.stat().st_mode)
    finally:
        os.close(end)
