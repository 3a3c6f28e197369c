from propfile import Document

TEXT = """\
# Where to listen
host = example.org
port : 8080

fruits = apple, \\
         pear
"""


def test_unchanged() -> None:
    assert str(Document(TEXT)) == TEXT


def test_mapping() -> None:
    document = Document(TEXT)
    assert dict(document) == {"host": "example.org", "port": "8080", "fruits": "apple, pear"}
    assert len(document) == 3


def test_only_what_changes_is_rewritten() -> None:
    document = Document(TEXT)
    document["port"] = "9090"
    document["host"] = "example.org"
    document["new"] = "1"
    del document["fruits"]
    assert str(document) == "# Where to listen\nhost = example.org\nport=9090\n\nnew=1\n"
