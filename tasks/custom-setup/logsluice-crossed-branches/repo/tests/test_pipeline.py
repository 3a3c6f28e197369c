import pytest

from logsluice import build


def records() -> list[dict]:
    return [
        {"level": "info", "user": {"name": "ada", "email": "ada@example.org"}, "tags": ["web"]},
        {"level": "error", "user": {"name": "bob", "email": "bob@example.org"}},
        {"level": "info", "user": {"name": "ada"}, "path": "/"},
    ]


def run(*steps: dict) -> list[dict]:
    return list(build({"branches": {"all": list(steps)}}).run(records())["all"])


@pytest.mark.parametrize(
    ("step", "indexes"),
    [
        ({"keep": {"level": "info"}}, [0, 2]),
        ({"keep": {"level": ["error", "info"], "user.name": "ada"}}, [0, 2]),
        ({"drop": {"user.email": "ada@example.org"}}, [1, 2]),
        ({"unique": "user.name"}, [0, 1]),
        ({"unique": "path"}, [0, 2]),
        ({"head": 2}, [0, 1]),
        ({"head": 0}, []),
    ],
)
def test_which_records(step: dict, indexes: list[int]) -> None:
    assert run(step) == [records()[index] for index in indexes]


def test_set_append_rename() -> None:
    first, second, third = run(
        {"set": {"http.status": 200}, "when": {"path": "/"}},
        {"append": {"tags": "new"}},
        {"rename": {"path": "http.path"}},
    )
    assert first["tags"] == ["web", "new"]
    assert second == {**records()[1], "tags": ["new"]}
    assert third == {
        "level": "info",
        "user": {"name": "ada"},
        "http": {"status": 200, "path": "/"},
        "tags": ["new"],
    }


def test_redact() -> None:
    assert [record["user"].get("email") for record in run({"redact": ["user.email"]})] == ["***", "***", None]


def test_branches() -> None:
    branches = {"support": [{"redact": ["user.email"]}], "archive": []}
    results = build({"steps": [{"set": {"seen": True}}], "branches": branches}).run(records()[:2])
    assert [record["user"]["email"] for record in results["support"]] == ["***", "***"]
    assert [record["user"]["email"] for record in results["archive"]] == ["ada@example.org", "bob@example.org"]


def test_reads_no_more_than_needed() -> None:
    numbers = iter(range(100))
    pipeline = build({"branches": {"few": [{"head": 2}], "more": [{"head": 3}]}})
    results = pipeline.run({"number": number} for number in numbers)
    assert list(results["few"]) == [{"number": 0}, {"number": 1}]
    assert next(numbers) == 2
    assert list(results["more"]) == [{"number": 0}, {"number": 1}, {"number": 3}]
