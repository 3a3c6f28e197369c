"""Find keys of well-known formats, which a repository may contain.

The rules for tokens with a fixed prefix come from detect-secrets; a few cover formats that it lacks. Only tests import
that library, since importing it takes almost a third of a run's start time. No rule uses entropy, or the names in
assignments alone: such rules mostly give false positives, for example for digests.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import ahocorasick_rs

_WINDOW = 200  # bytes that a rule may examine from the start of a key: bounds the time for hostile text
_REST = re.compile(rb"[A-Za-z0-9_-]*")  # of a key that is longer than its rule expects
_OPENAI = b"T3BlbkFJ"  # in the middle of every OpenAI key, whose prefix is common and whose rule is slow
_RULES = (
    ("Azure storage key", "AccountKey=", r"AccountKey=[a-zA-Z0-9+\/=]{88}"),
    ("GitHub token", "ghp_ gho_ ghu_ ghs_ ghr_", r"(?:ghp|gho|ghu|ghs|ghr)_[A-Za-z0-9_]{36}"),
    (
        "GitLab token",
        "glpat- gldt- glft- glsoat- glrt- glcbt- glimt- glptt- glagent- gloas- GR1348941",
        r"(?:(?:glpat|gldt|glft|glsoat|glrt)-[A-Za-z0-9_\-]{20,50}|GR1348941[A-Za-z0-9_\-]{20,50}"
        r"|glcbt-(?:[0-9a-fA-F]{2}_)?[A-Za-z0-9_\-]{20,50}|glimt-[A-Za-z0-9_\-]{25}|glptt-[A-Za-z0-9_\-]{40}"
        r"|glagent-[A-Za-z0-9_\-]{50,1024}|gloas-[A-Za-z0-9_\-]{64})(?!\w)",
    ),
    ("OpenAI key", "sk-", r"sk-[A-Za-z0-9-_]*[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}"),
    ("PyPI token", "pypi-AgE", r"pypi-AgE(?:IcHlwaS5vcmc|NdGVzdC5weXBpLm9yZw)[A-Za-z0-9-_]{70,}"),
    ("SendGrid key", "SG.", r"SG\.[a-zA-Z0-9_-]{22}\.[a-zA-Z0-9_-]{43}"),
    (
        "Slack token",
        "xox https://hooks.slack.com/",
        r"(?i:xox[abpors]-(?:\d+-)+[a-z0-9]+"
        r"|https://hooks\.slack\.com/services/T[a-zA-Z0-9_]+/B[a-zA-Z0-9_]+/[a-zA-Z0-9_]+)",
    ),
    ("Square secret", "sq0csp-", r"sq0csp-[0-9A-Za-z\\\-_]{43}"),
    ("Stripe key", "rk_live_ sk_live_", r"[rs]k_live_[0-9a-zA-Z]{24}"),
    # Longer uppercase ids could contain this, so its neighbors are checked.
    ("AWS key", "A3T ABIA ACCA AKIA ASIA", r"(?<![0-9A-Z])(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"),
    ("GitHub token", "github_pat_", r"github_pat_[A-Za-z0-9]{22}_[A-Za-z0-9]{59}"),
    ("Google API key", "AIza", r"AIza[A-Za-z0-9_-]{35}"),
    ("npm token", "npm_", r"npm_[A-Za-z0-9]{36}"),
    ("Anthropic key", "sk-ant-", r"sk-ant-[a-z0-9]{2,8}-[A-Za-z0-9_-]{80,}"),
    ("OpenRouter key", "sk-or-v1-", r"sk-or-v1-[0-9a-f]{64}"),
    # The key of one attempt for the gateway of agentbench-bridge: it differs in each run, and a replay must not see it.
    ("AgentBench token", "sk-agentbench-", r"sk-agentbench-[A-Za-z0-9_-]{43}"),
    (
        "AWS secret key",
        "secret",
        r"(?i:secret_?access_?key)[\\\"']{0,4}[ \t]{0,4}[=:][ \t]{0,4}[\\\"']{0,4}"
        r"(?P<key>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+=])",
    ),
)
"""Kind, prefixes, and pattern. The first ten are from detect-secrets (Apache 2.0); a test compares them."""

_MARK = re.compile(
    rb"[-P](?:(?<=-)-{3,4} ?(?:(?P<begin>BEGIN)|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)? ?-{4,5}"
    rb"|(?P<putty>uTTY-User-Key-File-\d)|rivate-MAC: ?[0-9a-f]{8,})"
)
_BODY = re.compile(rb"[A-Za-z0-9+/]{16}")
_BODY_BYTES = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-:, \t\r\n\\\"'"
_LONGEST_BODY = 32 << 10  # bytes; a 16384-bit RSA key has 13 KB


class KeyFormats:
    """Finds keys of well-known formats."""

    def __init__(self) -> None:
        self._rules = [
            (head.lower().encode(), kind, re.compile(pattern.encode()))
            for kind, heads, pattern in _RULES
            for head in heads.split()
        ]
        self._prefixes = ahocorasick_rs.BytesAhoCorasick([head for head, _, _ in self._rules])

    def find(self, text: bytes) -> Iterator[tuple[int, int, str]]:
        """Start, end and kind of each key; spans may overlap."""
        done = 0
        for number, start, _ in self._prefixes.find_matches_as_indexes(text.lower(), overlapping=True):
            _, kind, pattern = self._rules[number]
            if start < done or (kind == "OpenAI key" and text.find(_OPENAI, start, start + _WINDOW) < 0):
                continue
            if key := pattern.match(text, start, start + _WINDOW):
                begin, end = key.span("key" if "key" in pattern.groupindex else 0)
                rest = _REST.match(text, end)
                done = rest.end() if rest else end
                yield begin, done, kind
        if any(word in text for word in (b"PRIVATE KEY", b"PuTTY", b"Private-MAC")):
            yield from _private_keys(text)


def _private_keys(text: bytes) -> Iterator[tuple[int, int, str]]:
    """Complete blocks, and truncated blocks: a first line with lines after it, or a last line with lines before it."""
    open_: re.Match[bytes] | None = None
    before = 0  # the end of the previous marker
    for mark in [*_MARK.finditer(text), None]:
        position = mark.start() if mark else len(text)
        body = text[before:position] if position - before <= _LONGEST_BODY else b""
        closes = mark is not None and not (mark["begin"] or mark["putty"])
        if mark and open_ and closes and _BODY.search(body):
            yield open_.start(), mark.end(), "private key"
        else:
            if open_:
                after = text[before : min(position, before + _LONGEST_BODY)]
                retained = after[: len(after) - len(after.lstrip(_BODY_BYTES))]
                if _BODY.search(retained):
                    yield open_.start(), before + len(retained), "private key"
            if mark and closes:
                ahead = text[max(before, position - _LONGEST_BODY) : position]
                retained = ahead[len(ahead.rstrip(_BODY_BYTES)) :]
                if _BODY.search(retained):
                    yield position - len(retained), mark.end(), "private key"
        open_ = None if closes else mark
        before = mark.end() if mark else position
