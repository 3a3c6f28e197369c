"""The store writes events and records in order and loses none, and readers skip incomplete lines."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from agentbench_core import InputError, open_run
from agentbench_core.errors import RunStoppedError
from agentbench_core.evidence import layout
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_core.values.events import AgentTurnStarted, RunStarted, Warning_


def event(number: int) -> Warning_:
    return Warning_(message=str(number))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_events_of_many_threads_are_whole_and_numbered(tmp_path: Path) -> None:
    """No line is torn or lost, and sequence numbers have no gap."""
    store = Store(tmp_path / "run", Redactor({}))

    def emit_many(number: int) -> None:
        for _ in range(100):
            store.emit(event(number), f"a{number}")

    threads = [threading.Thread(target=emit_many, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    store.close()
    found = lines(tmp_path / "run/events.jsonl")
    assert [line["seq"] for line in found] == list(range(1, 801))
    assert sorted(line["attempt_id"] for line in found) == sorted(f"a{n}" for n in range(8) for _ in range(100))


def test_an_event_that_cannot_be_written_uses_up_no_number(tmp_path: Path) -> None:
    """Sequence numbers have no gap, whatever an agent emits."""
    store = Store(tmp_path / "run", Redactor({}))
    store.emit(event(1))
    with pytest.raises(ValueError, match="digits"):
        store.emit(AgentTurnStarted(turn=10**5000))
    store.emit(event(2))
    store.close()
    assert [line["seq"] for line in lines(tmp_path / "run/events.jsonl")] == [1, 2]


def test_a_durable_event_is_on_disk_when_emit_returns(tmp_path: Path) -> None:
    """Thus a reservation is on disk before the money is spent."""
    store = Store(tmp_path / "run", Redactor({}))
    store.emit(RunStarted(run_id="r", attempts=1), durable=True)
    assert lines(tmp_path / "run/events.jsonl")[0]["run_id"] == "r"
    store.close()


def test_two_writers_of_one_directory(tmp_path: Path) -> None:
    """F15: the second is refused with a clear error until the first is closed."""
    store = Store(tmp_path / "run", Redactor({}))
    with pytest.raises(InputError, match="is in use by another agentbench process"):
        Store(tmp_path / "run", Redactor({}))
    store.close()
    Store(tmp_path / "run", Redactor({})).close()


def test_full_disk_stops_the_run(tmp_path: Path) -> None:
    """F04: nothing continues that cannot be recorded. ``/dev/full`` refuses every write, like a full disk."""
    (tmp_path / "run").mkdir()
    (tmp_path / "run/events.jsonl").symlink_to("/dev/full")
    store = Store(tmp_path / "run", Redactor({}))
    with pytest.raises(RunStoppedError, match="No space left on device"):
        store.emit(event(1), durable=True)
    with pytest.raises(RunStoppedError):
        store.emit(event(2))
    store.close()


def test_unwritable_directory_stops_the_run(tmp_path: Path) -> None:
    """The error is the same as for a full disk."""
    store = Store(tmp_path / "run", Redactor({}))
    (tmp_path / "run/tasks").write_text("in the way")
    with pytest.raises(RunStoppedError, match="cannot write to"):
        store.attempt_files("one", 1)
    store.close()


def test_redaction_covers_common_encodings() -> None:
    """Plain, hex, base64, URL-encoded and in JSON; names match a pattern or are listed; short values are kept."""
    redactor = Redactor({"A_TOKEN": 'va/l"ue', "MINE": "private", "X_SECRET": "abc", "PATH": "/usr/bin"}, ["MINE"])
    said = b'va/l"ue 76612f6c227565 dmEvbCJ1ZQ== va%2Fl%22ue va/l\\"ue private abc /usr/bin'
    assert redactor.clean(said) == (
        b"[redacted A_TOKEN] [redacted A_TOKEN] [redacted A_TOKEN]== [redacted A_TOKEN] [redacted A_TOKEN]"
        b" [redacted MINE] abc /usr/bin"
    )


@pytest.mark.parametrize("word", ["passed", "completed", "scored", "scripted", "schema"])
def test_secret_that_is_an_ordinary_word_damages_no_record(
    make_task: Any, agentbench: Any, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    """Only values are redacted, never field names or enums of records."""
    monkeypatch.setenv("DB_PASSWORD", word)
    make_task()
    assert agentbench("run", "--suite", "mini", "--agent", "scripted").code == 0
    (directory,) = Path("artifacts/runs").iterdir()
    (record,) = open_run(directory).records()
    assert record.result.passed
    assert list(open_run(directory).events())


def test_a_secret_with_odd_characters_is_found_in_json(tmp_path: Path) -> None:
    """With any escaping that JSON allows."""
    store = Store(tmp_path / "run", Redactor({"X_TOKEN": 'pä"ss\\word'}))
    store.emit(Warning_(message='it is pä"ss\\word, or p\\u00e4\\"ss\\\\word'))
    store.close()
    assert lines(tmp_path / "run/events.jsonl")[0]["message"] == "it is [redacted X_TOKEN], or [redacted X_TOKEN]"


@pytest.mark.parametrize(
    "name",
    ["AWS_SECRET_ACCESS_KEY", "GH_PAT", "OPENAI_KEY", "npm_token", "DB_PASSWORD_FILE", "PGPASSWORD", "MYSQL_PWD"],
)
def test_variable_names_that_suggest_a_secret(name: str) -> None:
    """Words such as TOKEN count anywhere in the name of a variable."""
    assert Redactor({name: "hush-hush"}).clean(b"hush-hush") == f"[redacted {name}]".encode()
    assert Redactor({"MONKEY": "hush-hush", "PWD": "hush-hush"}).clean(b"hush-hush") == b"hush-hush"


def test_a_torn_last_line_is_left_out_and_a_damaged_one_is_named(make_task: Any, agentbench: Any) -> None:
    """Only complete lines count."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "idle")
    (directory,) = Path("artifacts/runs").iterdir()
    attempts = directory / "attempts.jsonl"
    whole = attempts.read_text()
    attempts.write_text(whole + whole[:100])
    assert len(list(open_run(directory).records())) == 1
    attempts.write_text(whole + "{nonsense}\n")
    with pytest.raises(InputError, match=r"attempts\.jsonl:2 is damaged"):
        list(open_run(directory).records())


def test_a_newer_schema_is_refused(make_task: Any, agentbench: Any) -> None:
    """The error has both versions."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "idle")
    (manifest,) = Path("artifacts/runs").glob("*/run.json")
    manifest.write_text(manifest.read_text().replace('"schema": 2', '"schema": 9'))
    done = agentbench("runs", "show", str(manifest.parent))
    assert done.code == 2
    assert "schema version 9; this agentbench reads version 2" in done.err


def test_the_last_record_of_a_repeat_counts(make_task: Any, agentbench: Any) -> None:
    """Earlier ones are superseded."""
    make_task()
    agentbench("run", "--suite", "mini", "--agent", "idle")
    (attempts,) = Path("artifacts/runs").glob("*/attempts.jsonl")
    attempts.write_text(attempts.read_text() * 2)
    assert len(list(open_run(attempts.parent).every_record())) == 2
    assert len(list(open_run(attempts.parent).records())) == 1


def test_long_logs_keep_head_and_tail() -> None:
    """The number of omitted lines is shown."""
    text = "".join(f"{number}\n" for number in range(100))
    assert layout.shorten(text, 50) == text
    assert layout.shorten(text, 2) == "0\n1\n[... 96 lines left out ...]\n98\n99\n"
