import pytest

from pipegram import Message, encode
from pipegram.stuffing import stuff


def test_frame() -> None:
    assert encode(Message(7, b"on|off")) == b"|\x07on\\<off\xb3\x14|"


def test_kind_and_payload_are_escaped() -> None:
    assert encode(Message(0x7C, b"\\"))[:5] == b"|\\<\\\x1c"


def test_kind_is_a_byte() -> None:
    with pytest.raises(ValueError, match="256"):
        Message(256)


def test_stuffing() -> None:
    assert stuff(b"a|b\\") == b"a\\<b\\\x1c"
