from io import BytesIO

from pipegram import Message, read_messages, write_messages


def recorded(messages: list[Message]) -> BytesIO:
    file = BytesIO()
    write_messages(file, messages)
    file.seek(0)
    return file


def test_temperatures() -> None:
    messages = [Message(1, f"t={number / 10}".encode()) for number in range(20)]
    assert list(read_messages(recorded(messages))) == messages


def test_blocks() -> None:
    messages = [Message(number, b"some text") for number in range(10)]
    for block in (1, 2, 7, 64):
        assert list(read_messages(recorded(messages), block=block)) == messages
