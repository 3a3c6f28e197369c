import pytest

from logsluice import ConfigError, Pipeline, build, load


def test_load() -> None:
    pipeline = load("branches: {archive: [], errors: [{keep: {level: error}}]}")
    assert isinstance(pipeline, Pipeline)
    assert list(pipeline.branches) == ["archive", "errors"]


def test_a_step_for_two_branches() -> None:
    pipeline = load(
        """
        shared: &name {rename: {msg: message}}
        branches:
          archive: [*name]
          errors: [{keep: {level: error}}, *name]
        """
    )
    results = pipeline.run([{"level": "info", "msg": "hello"}, {"level": "error", "msg": "ouch"}])
    assert list(results["archive"]) == [{"level": "info", "message": "hello"}, {"level": "error", "message": "ouch"}]
    assert list(results["errors"]) == [{"level": "error", "message": "ouch"}]


@pytest.mark.parametrize(
    ("step", "message"),
    [
        ({"redcat": ["a"]}, "'redcat' is not a stage; did you mean 'redact'?"),
        ({"redact": "a"}, "'redact' takes a list, not 'a'"),
        ({"head": True}, "'head' takes a number, not True"),
        ({"head": 1, "when": {"a": 1}}, "'head' takes no 'when' {'a': 1}"),
        ({"when": {"a": 1}}, "expected one stage, and perhaps 'when'"),
        ({"head": 1, "unique": "a"}, "expected one stage, and perhaps 'when'"),
        ("head", "a step is a table"),
    ],
)
def test_wrong_steps(step: object, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        build({"branches": {"all": [{"head": 3}, step]}})
    assert str(caught.value) == f"branch 'all', step 2: {message}"


@pytest.mark.parametrize("document", [None, [], {}, {"branches": {}}, {"branches": {"all": {"head": 1}}}])
def test_wrong_documents(document: object) -> None:
    with pytest.raises(ConfigError):
        build(document)
