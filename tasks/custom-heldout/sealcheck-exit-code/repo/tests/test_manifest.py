from pathlib import Path

import pytest

from sealcheck import Entry, Finding, ManifestError, State, read_manifest, verify, write_manifest

DIGEST = "0" * 64


def test_write_and_read(tmp_path: Path) -> None:
    (tmp_path / "a b.txt").write_text("text", encoding="utf-8")
    write_manifest(tmp_path / "m.seal", [tmp_path / "a b.txt"])
    (entry,) = read_manifest(tmp_path / "m.seal")
    assert entry.name == "a b.txt"
    assert list(verify([entry], tmp_path)) == [Finding("a b.txt", State.OK)]


def test_comments_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "m.seal").write_text(f"# mine\n\n{DIGEST}  x\n", encoding="utf-8")
    assert read_manifest(tmp_path / "m.seal") == [Entry(DIGEST, "x")]


def test_broken_line(tmp_path: Path) -> None:
    (tmp_path / "m.seal").write_text(f"{DIGEST}  x\n{DIGEST} y\n", encoding="utf-8")
    with pytest.raises(ManifestError, match="line 2: expected a SHA-256"):
        read_manifest(tmp_path / "m.seal")
