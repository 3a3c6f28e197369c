from pathlib import Path

import pytest

from sealcheck.cli import main


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two manifests, with two files each."""
    monkeypatch.chdir(tmp_path)
    for name in ("config", "data"):
        Path(name).mkdir()
        Path(name, "one.txt").write_text("one", encoding="utf-8")
        Path(name, "two.json").write_text("{}", encoding="utf-8")
        assert main(["seal", f"{name}/one.txt", f"{name}/two.json", "--to", f"{name}.seal"]) == 0
    return tmp_path


def test_all_as_sealed(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "config.seal", "data.seal"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "config.seal: ok config/one.txt",
        "config.seal: ok config/two.json",
        "data.seal: ok data/one.txt",
        "data.seal: ok data/two.json",
        "4 files: 4 ok, 0 changed, 0 missing",
    ]


def test_changed(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "config/one.txt").write_text("other", encoding="utf-8")
    assert main(["check", "config.seal", "--quiet"]) == 1
    assert capsys.readouterr().out == "config.seal: changed config/one.txt\n2 files: 1 ok, 1 changed, 0 missing\n"


def test_missing(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "config/one.txt").unlink()
    (site / "config/two.json").write_text("[]", encoding="utf-8")
    assert main(["check", "config.seal"]) == 2
    assert capsys.readouterr().out.splitlines()[-1] == "2 files: 0 ok, 1 changed, 1 missing"


def test_changed_in_the_first_of_two(site: Path) -> None:
    (site / "config/one.txt").write_text("other", encoding="utf-8")
    assert main(["check", "config.seal", "data.seal"]) == 1


def test_changed_in_the_last_of_two(site: Path) -> None:
    (site / "data/one.txt").write_text("other", encoding="utf-8")
    assert main(["check", "config.seal", "data.seal"]) == 1


def test_only(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (site / "config/one.txt").write_text("other", encoding="utf-8")
    assert main(["check", "config.seal", "--only", "*.json"]) == 0
    assert capsys.readouterr().out == "config.seal: ok config/two.json\n1 file: 1 ok, 0 changed, 0 missing\n"


def test_no_manifest(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "nowhere.seal"]) == 2
    printed = capsys.readouterr()
    assert printed.err == "sealcheck: nowhere.seal: FileNotFoundError\n"
    assert printed.out == "0 files: 0 ok, 0 changed, 0 missing\n"


def test_nothing_to_seal(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["seal", "nowhere.txt", "--to", "new.seal"]) == 2
    assert "nowhere.txt" in capsys.readouterr().err
