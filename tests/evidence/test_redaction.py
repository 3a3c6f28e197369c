"""Redaction finds secrets in common encodings and keys of well-known formats, and leaves other text alone."""

from __future__ import annotations

import base64
import json
import re
import time
import urllib.parse
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given, settings, strategies as st
from ulid import ULID

from agentbench_core import Output
from agentbench_core.evidence import layout
from agentbench_core.evidence.attempt_files import AttemptFiles
from agentbench_core.evidence.redaction import Redactor
from agentbench_core.evidence.store import Store
from agentbench_local.process import Capture

SECRET = 's3kr/t+Wört "9"\\x'
LONG = "Zt8vQ2mLk4Xw7Rb1Nc5Hy9Jd3Gf6Ps0TuAeIoBqUx"
REDACTOR = Redactor({"A_TOKEN": SECRET, "LONG_API_KEY": LONG})
RAW = SECRET.encode()


def percent(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode())


DISGUISES: dict[str, Callable[[str], str]] = {
    "plain": str,
    "json": json.dumps,
    "json with its own letters": lambda text: json.dumps(text, ensure_ascii=False),
    "json in json": lambda text: json.dumps(json.dumps(text)),
    "json in json in json": lambda text: json.dumps(json.dumps(json.dumps(text))),
    "json with escaped slashes": lambda text: json.dumps(text).replace("/", "\\/"),
    "every letter escaped": lambda text: "".join(f"\\u{ord(char):04X}" for char in text),
    "every letter escaped twice": lambda text: "".join(f"\\\\u{ord(char):04x}" for char in text),
    "repr": repr,
    "repr of bytes": lambda text: repr(text.encode()),
    "every byte escaped": lambda text: "".join(f"\\x{byte:02x}" for byte in text.encode()),
    "octal, as git quotes": lambda text: "".join(f"\\{b:03o}" if b > 127 else chr(b) for b in text.encode()),
    "url": lambda text: urllib.parse.quote(text, safe=""),
    "url path": urllib.parse.quote,
    "url, lower case": lambda text: re.sub("%..", lambda m: m[0].lower(), urllib.parse.quote(text, safe="")),
    "url form": urllib.parse.quote_plus,
    "url in url": lambda text: urllib.parse.quote(urllib.parse.quote(text, safe=""), safe=""),
    "every byte in percent": percent,
    "hex": lambda text: text.encode().hex(),
    "HEX": lambda text: text.encode().hex().upper(),
    "reversed": lambda text: text[::-1],
    "base64": lambda text: base64.b64encode(text.encode()).decode(),
    "base64 for urls": lambda text: base64.urlsafe_b64encode(text.encode()).decode(),
    "base64 in a url": lambda text: urllib.parse.quote(base64.b64encode(text.encode()).decode(), safe=""),
}


@pytest.mark.parametrize("secret", [SECRET, LONG], ids=["odd", "long"])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_common_encodings_of_secrets_are_redacted(disguise: str, secret: str) -> None:
    """H32: secrets are found at the end of a text and within it, and the surrounding text is kept."""
    hidden = DISGUISES[disguise](secret)
    name = "A_TOKEN" if secret is SECRET else "LONG_API_KEY"
    cleaned = REDACTOR.clean_text(f"before {hidden} after {hidden}")
    assert cleaned.count(f"[redacted {name}]") == 2
    assert re.fullmatch(
        rf"before .{{0,7}}\[redacted {name}\].{{0,7}} after .{{0,7}}\[redacted {name}\].{{0,7}}", cleaned
    )
    assert not any(hidden[at : at + 8] in cleaned for at in range(len(hidden) - 7))


@pytest.mark.parametrize("alphabet", [b"+/", b"-_"])
@pytest.mark.parametrize("offset", range(6))
def test_base64_of_a_longer_text(offset: int, alphabet: bytes) -> None:
    """No byte of the secret is left, at any offset."""
    longer = b"x" * (30 + offset) + RAW + b"y" * 30
    cleaned = REDACTOR.clean(b"=" + base64.b64encode(longer, alphabet) + b"=")
    assert b"[redacted A_TOKEN]" in cleaned
    first, last = cleaned[1:-1].split(b"[redacted A_TOKEN]")
    left = base64.b64decode(first[: len(first) // 4 * 4], alphabet)
    assert set(left) == {ord("x")}
    assert set(base64.b64decode(last[len(last) % 4 :], alphabet)) == {ord("y")}


BREAKS = [
    "\n",
    "\r\n",
    "\\n",
    "\\r\\n",
    "\\\\n",
    "\n+",
    "\n-",
    "\n ",
    "\n    ",
    "\\n+",
    "\r\n-",
    "\\\n",
    "\n+\t",
    "\n++",
    "\n+-",
    "\n +",
]


@pytest.mark.parametrize("line_break", BREAKS, ids=repr)
@pytest.mark.parametrize("disguise", ["plain", "hex", "HEX", "reversed", "base64", "base64 for urls", "url"])
@pytest.mark.parametrize("width", [5, 16, 31])
def test_broken_lines(disguise: str, width: int, line_break: str) -> None:
    """H32: line breaks as in base64 and diffs do not hide a secret."""
    hidden = DISGUISES[disguise](LONG).rstrip("=")
    lines = [hidden[at : at + width] for at in range(0, len(hidden), width)]
    assert REDACTOR.clean_text(f"k: {line_break.join(lines)}!") == "k: [redacted LONG_API_KEY]!"


def test_sign_after_a_line_break_may_belong_to_the_secret() -> None:
    """It cannot be distinguished from a sign added by a diff."""
    redactor = Redactor({"A_TOKEN": "Zt8vQ2mL+k4Xw7Rb-1Nc5Hy"})
    for text in ("Zt8vQ2mL\n+k4Xw7Rb\n-1Nc5Hy", "Zt8vQ2mL\n++k4Xw7Rb\n+-1Nc5Hy", "npm\\nZt8vQ2mL+k4Xw7Rb-1Nc5Hy"):
        assert redactor.clean_text(text).removeprefix("npm\\n") == "[redacted A_TOKEN]"
    assert Redactor({"B_TOKEN": "npm-Zt8vQ2mL+k4"}).clean(rb"C:\npm-Zt8vQ2mL+k4") == b"C:\\[redacted B_TOKEN]"


def test_ordinary_text_is_not_redacted() -> None:
    """Line breaks in short secrets are ignored, values that are too short are no secrets, and names are kept."""
    redactor = Redactor({"A_TOKEN": "passport", "B_TOKEN": "abcde", "C_TOKEN": "baseline-8hK2", "D_TOKEN": "      "})
    for text in ("pass\nport", "pass\n+port", "abcde 6162636465", "baseline", "8hK2", "", "\n", "a" + " " * 20):
        assert redactor.clean_text(text) == text
    assert redactor.clean_text("passport") == "[redacted A_TOKEN]"


def test_a_secret_of_many_lines_is_found_line_by_line() -> None:
    """With or without line breaks, and with spaces around it."""
    redactor = Redactor({"A_KEY": "  first-line-of-it-4711\nsecond-line-of-it-4712\n"})
    assert redactor.clean(b"x second-line-of-it-4712 first-line-of-it-4711") == b"x [redacted A_KEY] [redacted A_KEY]"
    assert redactor.clean(rb"first-line-of-it-4711\nsecond-line-of-it-4712") == b"[redacted A_KEY]"


TEXTS = st.text(st.characters(codec="utf-8"), max_size=40)
SECRETS = st.text(st.characters(codec="utf-8", exclude_categories=["Zs", "Cc"]), min_size=6, max_size=60)
WAYS = ["json", "json in json", "json with its own letters", "repr", "url", "url in url", "every byte in percent"]


@given(SECRETS, TEXTS, TEXTS, st.sampled_from(["plain", "hex", "base64", *WAYS]))
@example("\\u0041bcdef", "", "", "json")
@example("%41bcdefgh", "%", "", "url")
@example("nnnnnnn", "\\", "", "plain")
@example("012345\\", "", "n", "json")
@example("\U0001f511\U0001f511keys", "", "", "json in json")
def test_any_secret_in_any_text(secret: str, before: str, after: str, way: str) -> None:
    """The secret is gone and the rest is valid text. Encodings of a secret of only escapes are not searched for."""
    hidden = DISGUISES[way](secret)
    cleaned = Redactor({"A_TOKEN": secret}).clean_text(before + hidden + after)
    assert "[redacted A_TOKEN]" in cleaned
    if hidden not in before + after:
        assert hidden not in cleaned


@given(st.recursive(st.none() | st.booleans() | st.integers() | TEXTS, st.lists))
def test_values_without_secrets_are_unchanged(value: object) -> None:
    """The value is unchanged."""
    assert REDACTOR.clean_value(value) == value


def test_keys_of_objects_are_cleaned_and_fields_stay() -> None:
    """Agents choose the keys of their arguments, but field names of records are kept, even if a secret equals one."""
    redactor = Redactor({"A_TOKEN": "failure_reason", "B_TOKEN": LONG, "C_TOKEN": "passed"})
    value = {"failure_reason": "passed", LONG: 1, "said": {f"x{LONG}": "failure_reason"}, 7: 123456}
    assert redactor.clean_value(value) == {
        "failure_reason": "[redacted C_TOKEN]",
        "[redacted B_TOKEN]": 1,
        "said": {"x[redacted B_TOKEN]": "[redacted A_TOKEN]"},
        "7": 123456,
    }


# Truncated text


def left_of(secret: str, text: str, length: int = 6) -> list[str]:
    return [secret[at : at + length] for at in range(len(secret) - length + 1) if secret[at : at + length] in text]


@pytest.mark.parametrize("disguise", ["plain", "hex", "base64", "reversed", "url"])
@pytest.mark.parametrize("secret", [SECRET, LONG], ids=["odd", "long"])
def test_no_part_of_a_secret_remains_at_a_cut(disguise: str, secret: str) -> None:
    """H32: wherever a stream is cut, neither the end of its head nor the start of its tail has a part of the secret."""
    hidden = DISGUISES[disguise](secret).rstrip("=")
    raw = hidden.encode()
    for at in range(len(raw) + 1):
        output = Output(head=b"log " + raw[:at], tail=raw[at:] + b" log", omitted=9)
        for cleaned in (REDACTOR.clean(output.data).decode(errors="replace"), REDACTOR.clean_text(output.text)):
            if disguise == "url":
                assert not left_of(secret, urllib.parse.unquote(cleaned), 7)
            else:
                assert not left_of(hidden, cleaned)
            assert cleaned.startswith("log ")
            assert cleaned.endswith(" log")
            assert "[... 9 bytes left out ...]" in cleaned


@pytest.mark.parametrize("cut", ["\n[... 7 characters left out ...]\n", "\n[...]\n", "..."])
def test_every_truncation_mark_counts_as_a_cut(cut: str) -> None:
    """The tool run, instructions and messages mark cuts differently; also inside JSON."""
    for text in (f"a {LONG[:20]}{cut}{LONG[20:]} b", json.dumps(f"a {LONG[:20]}{cut}{LONG[20:]} b")):
        cleaned = REDACTOR.clean_text(text)
        assert not left_of(LONG, cleaned)
        assert cleaned.count("[redacted LONG_API_KEY]") == 2


def test_the_ends_of_a_long_text_count_as_cuts() -> None:
    """A tool may keep only the first characters, and a command may be killed while it writes."""
    filler = "quite ordinary " * 20
    assert REDACTOR.clean_text(filler + LONG[:15]) == filler + "[redacted LONG_API_KEY]"
    assert REDACTOR.clean_text(LONG[15:] + filler) == "[redacted LONG_API_KEY]" + filler
    assert REDACTOR.clean_text(LONG[15:]) == LONG[15:], "short text is not truncated text"


def test_a_log_is_cut_between_lines_of_a_secret(tmp_path: Path) -> None:
    """A log is shortened within wrapped base64, and a stream written in pieces is redacted as one text."""
    secret = LONG * 4
    lines = re.findall(".{1,12}", base64.b64encode(secret.encode()).decode().rstrip("="))
    log = ["ordinary\n"] * 995 + [f"{line}\n" for line in lines] + ["ordinary\n"] * 995
    capture = Capture()
    for at in range(0, len("".join(log)), 3):
        capture.add("".join(log)[at : at + 3].encode())
    files = AttemptFiles(tmp_path / "task", Redactor({"A_TOKEN": secret}))
    files.log(
        "setup", capture.output(), Output(head=secret[:9].encode(), tail=secret[-9:].encode(), omitted=1), full=True
    )
    written = (tmp_path / "task" / layout.log_path("setup", "stdout")).read_text()
    assert written.count("ordinary\n") == 1990
    assert "lines left out" in written
    assert not [line for line in lines if line in written]
    assert written.count("[redacted A_TOKEN]") == 2
    full = (tmp_path / "task" / layout.log_path("setup", "stdout_full")).read_text()
    assert full == "ordinary\n" * 995 + "[redacted A_TOKEN]\n" + "ordinary\n" * 995
    cut = (tmp_path / "task" / layout.log_path("setup", "stderr_full")).read_text()
    assert cut == "[redacted A_TOKEN]\n[... 1 bytes left out ...]\n[redacted A_TOKEN]"


# Keys of well-known formats

ANY = "Zt8vQ2mLk4Xw7Rb1Nc5Hy9Jd3Gf6Ps0TuAeIoBqUxZt8vQ2mLk4Xw7Rb1Nc5Hy9Jd3Gf6Ps0TuAeIoBqUx" * 2
KEYS = {
    "AgentBench token": ["sk-agentbench-" + ANY[:43]],
    "AWS key": ["AKIA" + "Z7QX" * 4, "ASIA" + "Z7QX" * 4],
    "AWS secret key": [],
    "Azure storage key": ["AccountKey=" + ANY[:86] + "=="],
    "Anthropic key": ["sk-ant-api03-" + ANY[:93] + "AA"],
    "GitHub token": ["ghp_" + ANY[:36], "ghs_" + ANY[:36], "github_pat_" + ANY[:22] + "_" + ANY[:59]],
    "GitLab token": ["glpat-" + ANY[:20], "glrt-" + ANY[:20], "gloas-" + ANY[:64]],
    "Google API key": ["AIza" + ANY[:35]],
    "npm token": ["npm_" + ANY[:36]],
    "OpenAI key": ["sk-" + ANY[:20] + "T3BlbkFJ" + ANY[:20], "sk-proj-" + ANY[:74] + "T3BlbkFJ" + ANY[:74]],
    "OpenRouter key": ["sk-or-v1-" + "0123456789abcdef" * 4],
    "PyPI token": ["pypi-AgEIcHlwaS5vcmc" + ANY[:140]],
    "SendGrid key": ["SG." + ANY[:22] + "." + ANY[:43]],
    "Slack token": ["xoxb-1234567890-" + "abc123" * 4, "https://hooks.slack.com/services/T0A1/B0A1/" + ANY[:24]],
    "Square secret": ["sq0csp-" + ANY[:43]],
    "Stripe key": ["sk_live_" + ANY[:24], "rk_live_" + ANY[:99]],
}
PLAIN = Redactor({})


@pytest.mark.parametrize(("kind", "key"), [(kind, key) for kind, keys in KEYS.items() for key in keys])
def test_keys_of_well_known_formats(kind: str, key: str) -> None:
    """The whole key is redacted, whatever surrounds it."""
    for before, after in (
        ("", ""),
        ("TOKEN=", "\n"),
        ('"', '"'),
        (r"log\n", r"\n"),
        ("\x1b[31m", "\x1b[0m"),
        ("a@", " "),
    ):
        assert PLAIN.clean_text(f"{before}{key}{after}") == f"{before}[redacted {kind}]{after}"


@pytest.mark.parametrize(
    "line",
    [
        "aws_secret_access_key = {}",
        '"SecretAccessKey": "{}",',
        "AWS_SECRET_ACCESS_KEY='{}'",
        r"\"secretAccessKey\":\"{}\"",
    ],
)
def test_secret_access_keys_are_recognized_by_the_preceding_name(line: str) -> None:
    """They have no distinctive format, and the preceding name is kept."""
    key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzT3St9K3yQ"
    assert PLAIN.clean_text(line.format(key)) == line.format("[redacted AWS secret key]")


@pytest.mark.long
def test_every_named_rule_of_the_library_is_applied() -> None:
    """Prefixes are searched for first, so a library rule with a new prefix would never be tried."""
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        github_token,
        gitlab_token,
        openai,
        pypi_token,
        sendgrid,
        slack,
        square_oauth,
        stripe,
    )

    detectors = (
        azure_storage_key.AzureStorageKeyDetector,
        github_token.GitHubTokenDetector,
        gitlab_token.GitLabTokenDetector,
        openai.OpenAIDetector,
        pypi_token.PypiTokenDetector,
        sendgrid.SendGridDetector,
        slack.SlackDetector,
        square_oauth.SquareOAuthDetector,
        stripe.StripeDetector,
    )
    # The second rule for AWS needs quotes around a value; ours does not.
    rules = [aws.AWSKeyDetector.denylist[0], *(rule for detector in detectors for rule in detector.denylist)]
    assert len(rules) == 18
    for rule in rules:

        @settings(max_examples=20)
        @given(st.from_regex(rule, fullmatch=True, alphabet=st.characters(codec="ascii")))
        def holds(key: str) -> None:
            assert "[redacted " in PLAIN.clean_text(key)

        holds()


HEX = "0123456789abcdef"


@given(
    st.integers(0, 2**128 - 1).map(lambda number: str(ULID.from_int(number)))
    | st.from_regex(r"[0-7][0-9A-HJKMNP-TV-Z]{2}A3T[0-9A-HJKMNP-TV-Z]{20}", fullmatch=True)
    | st.from_regex(r"0[0-9A-HJKMNP-TV-Z]{3}ACCA[0-9A-HJKMNP-TV-Z]{18}", fullmatch=True)
    | st.text(HEX, min_size=8, max_size=64)
    | st.text(HEX.upper(), min_size=8, max_size=64)
    | st.uuids().map(str)
    | st.binary(min_size=64, max_size=64).map(lambda data: "sha512-" + base64.b64encode(data).decode()),
    st.sampled_from(["{}", "sha256:{}", '{{"run_id":"{}"}}', "index {}..{} 100644", "{}/{}", "secret {}"]),
)
def test_ids_and_digests_stay(identifier: str, line: str) -> None:
    """Even if they contain the prefix of a key: ULIDs, commits, digests, UUIDs and package checksums."""
    text = line.format(identifier, identifier)
    assert REDACTOR.clean_text(text) == text


BODY = "\n".join(re.findall(".{64}", ANY * 6)) + "\nQ8kd\n"
BLOCKS = {
    "PKCS 8": f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----",
    "RSA": f"-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\n{BODY}-----END RSA PRIVATE KEY-----",
    "OpenSSH": f"-----BEGIN OPENSSH PRIVATE KEY-----\n{BODY}-----END OPENSSH PRIVATE KEY-----",
    "encrypted": f"-----BEGIN ENCRYPTED PRIVATE KEY-----\n{BODY}-----END ENCRYPTED PRIVATE KEY-----",
    "PGP": f"-----BEGIN PGP PRIVATE KEY BLOCK-----\nVersion: 2\n\n{BODY}=aB3d\n-----END PGP PRIVATE KEY BLOCK-----",
    "PuTTY": f"PuTTY-User-Key-File-3: ssh-rsa\nPrivate-Lines: 12\n{BODY}Private-MAC: {HEX * 2}",
    "CRLF": f"-----BEGIN EC PRIVATE KEY-----\n{BODY}-----END EC PRIVATE KEY-----".replace("\n", "\r\n"),
    "JSON": json.dumps(f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----\n")[1:-1].removesuffix(r"\n"),
    "diff": f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----".replace("\n", "\n+"),
    "source": f"-----BEGIN PRIVATE KEY-----\n{BODY}-----END PRIVATE KEY-----".replace("\n", '\\n" +\n  "'),
}


@pytest.mark.parametrize("block", BLOCKS)
def test_private_keys_are_redacted_as_a_whole(block: str) -> None:
    """The text between two keys is kept."""
    key = BLOCKS[block]
    assert PLAIN.clean_text(f"one: {key}\ntwo: {key}.") == "one: [redacted private key]\ntwo: [redacted private key]."


def test_truncated_private_keys_are_redacted() -> None:
    """A key is recognized by its first or last line; a middle part looks like any other base64."""
    key, cut = BLOCKS["RSA"], "\n[... 12345 bytes left out ...]\n"
    gone = "[redacted private key]"
    assert PLAIN.clean_text(f"$ cat key\n{key[:300]}") == f"$ cat key\n{gone}"
    assert PLAIN.clean_text(f"(tail key)\n{key[-300:]}\nend") == f"(tail key){gone}\nend"
    assert PLAIN.clean_text(f"a.\n{key[:300]}{cut}{key[-300:]}\nb") == f"a.\n{gone}\nb"
    far = "some other text, and more of it. " * 2000
    cleaned = PLAIN.clean_text(f"a.\n{key[:300]}{cut}{far}{cut}{key[-300:]}\nb")
    assert cleaned.count(gone) == 2
    assert far in cleaned


def test_mentions_of_private_keys_are_not_redacted() -> None:
    """Code that searches for them, placeholders, public keys and certificates are kept."""
    for text in (
        'if "-----BEGIN PRIVATE KEY-----" in text and "-----END PRIVATE KEY-----" in text:\n    return',
        "-----BEGIN RSA PRIVATE KEY-----\n...\n-----END RSA PRIVATE KEY-----",
        f"-----BEGIN PUBLIC KEY-----\n{BODY}-----END PUBLIC KEY-----",
        f"-----BEGIN CERTIFICATE-----\n{BODY}-----END CERTIFICATE-----",
    ):
        assert PLAIN.clean_text(text) == text


HOSTILE = [
    "A", "-", "-----BEGIN ", "-----BEGIN RSA PRIVATE KEY-----", f"-----BEGIN PRIVATE KEY-----{ANY}",
    "-----END PRIVATE KEY-----", "sk-", "sk-T3BlbkFJ", "ghp_", "glagent-", "xoxb-1-", "https://hooks.slack.com/services/T",
    "secret_access_key ", "SG." + "a" * 22, "\\", "\\u0041", "%25", "\n +", "[...]", "\r", LONG[:20], LONG[-20:],
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE, ids=lambda piece: piece[:30])
def test_time_is_linear_in_the_text(piece: str) -> None:
    """For a megabyte of hostile output, time is about linear in the length of the text."""

    def seconds(size: int) -> float:
        text = (piece * (size // len(piece) + 1))[:size].encode()
        started = time.thread_time()  # other tests may have left threads
        REDACTOR.clean(text)
        return time.thread_time() - started

    assert seconds(1_000_000) < 12 * seconds(250_000) + 0.5


# Files written by reporters and agents


def test_a_file_of_a_reporter_is_cleaned_in_place(tmp_path: Path) -> None:
    """JSON stays valid and modes are kept; clean, sealed and outside files are not touched."""
    store = Store(tmp_path / "run", Redactor({"A_TOKEN": LONG, "B_TOKEN": "123456", "C_TOKEN": "passed"}))
    place = tmp_path / "run" / "report"
    place.mkdir()
    files = {
        "report.html": f"<p>{LONG}</p>",
        "report.json": json.dumps({"passed": 123456, "said": LONG}),
        "torn.json": f'{{"said": "{LONG}',
        "fine.json": '{"passed":   123456}',
        "attempts.jsonl": LONG,
    }
    for name, text in files.items():
        (place / name).write_text(text)
        (place / name).chmod(0o750)
    outside = tmp_path / "outside.txt"
    outside.write_text(LONG)
    (place / "link.txt").symlink_to(outside)
    before = {name: (place / name).stat().st_ino for name in files}
    for path in [*place.iterdir(), outside, place]:
        store.clean_file(path)
    store.close()
    assert (place / "report.html").read_text() == "<p>[redacted A_TOKEN]</p>"
    assert json.loads((place / "report.json").read_text()) == {"passed": 123456, "said": "[redacted A_TOKEN]"}
    assert (place / "torn.json").read_text() == '{"said": "[redacted A_TOKEN]'
    assert outside.read_text() == LONG
    for name in ("fine.json", "attempts.jsonl"):
        assert (place / name).read_text() == files[name]
        assert (place / name).stat().st_ino == before[name], "it was rewritten"
    assert {path.stat().st_mode & 0o777 for path in place.iterdir() if not path.is_symlink()} == {0o750}


def test_only_file_names_in_repo_are_redacted(tmp_path: Path) -> None:
    """Only names in repo/ are cleaned."""
    files = AttemptFiles(tmp_path / "task", Redactor({"A_TOKEN": LONG, "B_TOKEN": "setup_stdout"}))
    files.write(f"repo/{LONG}/{LONG[:4]}.txt", "x")
    files.log("setup", Output(), Output())
    found = sorted(str(path.relative_to(tmp_path / "task")) for path in (tmp_path / "task").rglob("*.txt"))
    assert found == ["logs/setup_stderr.txt", "logs/setup_stdout.txt", f"repo/[redacted A_TOKEN]/{LONG[:4]}.txt"]
