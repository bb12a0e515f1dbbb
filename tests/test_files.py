"""Files are written whole or not at all."""

import os

import pytest

from ddefind._util.files import write_whole


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    file = tmp_path / "results.json"
    write_whole(file, "old")

    def fail(*_):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_whole(file, "new")
    assert file.read_text() == "old"
    assert os.listdir(tmp_path) == ["results.json"]
