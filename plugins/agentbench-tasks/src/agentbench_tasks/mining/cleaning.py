"""Remove text from a commit message or an issue that is not about the problem, or that reveals the solution.

References to issues and commits are removed, since models may know the project's history. Anyone can write an issue,
so every pattern takes time proportional to the length of the text.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence

LONGEST = 8000
"""Maximum number of characters of a cleaned text."""

_MOST = 64_000  # characters that are read
_REFERENCE = "[reference]"
"""Replaces a reference inside a sentence, so that the sentence can still be read."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")
_INLINE = re.compile(r"(?<!`)`[^`\n]{1,500}`(?!`)")
_CODE_LINE = re.compile(r" {4}|\t|>>> |\.\.\. |[+-](?! )")
_HELD = re.compile("\ue000([0-9]+)\ue001")

_TERMINAL = re.compile(r"\x1b\[[0-9;:?]{0,50}[ -/]?[@-~]")  # such as a color
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_TAG = re.compile(r"</?(?:details|summary|img|p|div|span|br|sub|sup|a|b|i|em|strong|center|h[1-6]|kbd)\b[^<>]{0,2000}>")
_IMAGE = re.compile(r"!\[[^\[\]\n]{0,500}\](?:\([^()\n]{0,2000}\)|\[[^\[\]\n]{0,200}\])")
_EMPTY_LINK = re.compile(r"\[\s{0,9}\]\([^()\n]{0,2000}\)")
_CHECK_BOX = re.compile(r"^[ \t]*[-*+] \[[ xX]?\].*$", re.MULTILINE)
_NO_ANSWER = re.compile(r"^[ \t]*[_*]?(?:no response|n/a|none)[_*]?[ \t]*$", re.IGNORECASE | re.MULTILINE)
_EMPTY_HEADING = re.compile(r"^#{1,6} [^\n]*\n\s*(?=^#{1,6} |\Z)", re.MULTILINE)
_MERGE = re.compile(
    r"^[ \t]*Merged? (?:pull request|merge request|PR|branch(?:es)?|remote-tracking branch(?:es)?|tags?|commits?)\b.*$"
    r"|^[ \t]*Merge [\w./-]{1,99} into [\w./-]{1,99}$"
    r"|^[ \t]*See merge request .*$"
    r"|^[-* \t]{0,9}\[pre-commit\.ci\] .*$|^[ \t]*for more information, see https://pre-commit\.ci$"
    r"|^[ \t]*#? ?Conflicts:[ \t]*\n(?:[#\t ].*\n?)*"
    r"|^[ \t]*\(?cherry[- ]picked from commit .*$"
    r"|^[ \t]*\(?backport(?:ed)? (?:of|from) .*$"
    r"|^[ \t]*backport(?:ed)? (?:PR |pull request )?#[0-9]{1,9}(?: (?:from|to|into|on) \S{1,200}){0,3}(?: branch)?"
    r"(?: \(#[0-9]{1,9}\))?[ \t.]{0,9}$",
    re.IGNORECASE | re.MULTILINE,
)
_TRAILER = re.compile(
    r"^[ \t]*(?P<name>(?:[a-z]+-){1,4}(?:by|to|on|id|url|from|with|for|at|request|issues?|bug)|cc|git-svn-id|bug"
    r"|issues?|refs?|references|close[sd]?|fix(?:e[sd])?|resolve[sd]?|links?|see|pr|ticket|jira|differential revision"
    r"|reviewers?)[ \t]*:(?P<value>.*)$",
    re.IGNORECASE | re.MULTILINE,
)
_ALWAYS_TRAILER = re.compile(r".*-(?:by|id|url|to|on)|cc|differential revision|reviewers?", re.IGNORECASE)

_IN_ADDRESS = r"[^\s<>()\[\]\"'`]{1,300}"
_ADDRESS = rf"https?://{_IN_ADDRESS}/(?:issues?|pulls?|merge_requests|commits?|compare|discussions)/{_IN_ADDRESS}"
_NUMBER = r"(?:\b(?:[\w.-]{1,99}/){1,5}[\w.-]{1,99}|(?<![&\w]))[#!][1-9][0-9]{0,6}\b|\b(?:GH|bpo)-[1-9][0-9]{0,6}\b"
_HASH = (
    r"(?:\b[\w.-]{1,99}/[\w.-]{1,99}@)?(?<![\w./#=+:-])"
    r"(?=[a-f]{0,39}[0-9])(?=[0-9]{0,39}[a-f])[0-9a-f]{7,40}(?![\w/-])"
)
_ANY = rf"(?:{_ADDRESS}|{_NUMBER}|{_HASH})"
_NOUN = (
    r"(?:(?:the )?(?:github |gitlab )?(?:issues?|bugs?|tickets?|pull requests?|merge requests?|prs?|mrs?|commits?) )?"
)
_LIST = rf"{_NOUN}{_ANY}(?:(?:, and |, | and | & |,){_NOUN}{_ANY}){{0,20}}"
_VERB = (
    r"(?:close[sd]?|closing|fix(?:e[sd])?|fixing|resolve[sd]?|resolving|addresses|refs?|references|see(?: also)?|via"
    r"|cf\.?|part of|related to|relates to|follow-?up (?:to|of)|backport of|reported in|discussed in)[ :]{1,3}"
)
_LINK = re.compile(rf"\[([^\[\]\n]{{0,500}})\]\({_ADDRESS}[^()\n]{{0,200}}\)")
_ROLE = re.compile(  # of reStructuredText and MyST
    r"(?::(?:issue|pr|pull|gh|bug):|\{(?:issue|pr|pull|gh|bug)\})`#?([1-9][0-9]{0,6})`"
    r"|`(#[1-9][0-9]{0,6}) <[^<>`\n]{1,300}>`_{1,2}"
)
_LIST_ITEM = re.compile(rf"^([ \t]*[-*+] ){_LIST}:?[ \t]+(?=[A-Z\ue000])", re.MULTILINE)
_PARENTHESIS = re.compile(rf"[ \t]{{0,3}}[(\[](?:{_VERB})?{_LIST}[)\]]", re.IGNORECASE)
_PHRASE = re.compile(
    rf"(?:^(?P<item>[ \t]*(?:[-*+] )?)|(?<=[.;!?])[ \t]{{1,3}}|[ \t]{{0,3}}[,;-][ \t]{{1,3}})"
    rf"(?:{_VERB})?{_LIST}[ \t]*(?:$|--?[ \t]|:|\.(?=\s|$))[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_AT_END = re.compile(rf"[ \t]{{1,3}}{_LIST}(?P<stop>\.?)[ \t]*$", re.IGNORECASE | re.MULTILINE)
_INSIDE = re.compile(_LIST, re.IGNORECASE)
_NEEDS_OBJECT = re.compile(
    r"\b(?:in|of|to|by|on|for|from|with|since|after|before|as|like|than|and|or|is|was|see|via|at|the|this|that|an?|"
    r"fix(?:e[sd])?|close[sd]?|resolve[sd]?|address(?:es)?|revert(?:s|ed)?|issue|commit)$",
    re.IGNORECASE,
)
_MENTION = re.compile(r"(?<![\w@/.`])@[A-Za-z0-9][A-Za-z0-9-]{0,38}(?![\w(/-]|\.\w)")
_COPIES = re.compile(r"[ \t,(]{0,3}\bcc:?(?:[ ,]{1,3}@[\w-]{1,39}){1,20}\)?", re.IGNORECASE)
_ONLY_THANKS = re.compile(
    r"[ \t]*(?:/?cc:?|(?:with )?thanks(?: to)?|thank you|ping|(?:reported|patch|fix)(?: by)?:?|by)?[ \t,.!]*",
    re.IGNORECASE,
)
_EMPTY_PARENTHESES = re.compile(r"(?<=\s)\([\s,;]{0,9}\)")
_LAST_RULE = re.compile(r"\n[ \t]*(?:-{3,99}|\*{3,99}|_{3,99})\s*\Z")
_EMPTY_ITEM = re.compile(r"^[ \t]*[-*+][ \t]*$", re.MULTILINE)


def clean(text: str, *, ids: Sequence[str] = ()) -> str:
    """The text without references, trailers, templates, mentions and control characters, and of bounded length.

    Code blocks and inline code are kept, without the ``ids`` of commits, since data in them may look like references.
    """
    held: list[str] = []

    def hold(code: str) -> str:
        if re.fullmatch(rf"`(?:{_ANY})`", code):
            return _REFERENCE
        held.append(_without_ids(code, ids))
        return f"\ue000{len(held) - 1}\ue001"

    text = _COMMENT.sub("", _plain(text[:_MOST]))
    text = "\n".join(hold(part) if is_code else _ROLE.sub(_number, part) for is_code, part in _parts(text))
    text = _prose(_INLINE.sub(lambda match: hold(match[0]), text))
    text = _HELD.sub(lambda match: held[int(match[1])], text)
    text = "\n".join(line.rstrip() for line in text.split("\n"))
    return _shortened(re.sub(r"\n{3,}", "\n\n", text).strip())


def without_code(text: str) -> str:
    """The text without code blocks; each inline code is replaced with the word ``code``."""
    return _INLINE.sub(" code ", "\n".join(part for is_code, part in _parts(text) if not is_code))


def code_lines(text: str) -> list[str]:
    """Lines of code blocks, indented lines, lines of diffs and prompts, and each inline code."""
    lines = []
    for is_code, part in _parts(text):
        if is_code:
            lines += part.split("\n")[1:]
        else:
            lines += [line for line in part.split("\n") if _CODE_LINE.match(line)]
            lines += [match[0].strip("`") for match in _INLINE.finditer(part)]
    return lines


def _parts(text: str) -> Iterator[tuple[bool, str]]:
    """Code blocks between fences, as in CommonMark, and the text between them, with whether each is a code block."""
    part: list[str] = []
    fence = ""
    for line in text.split("\n"):
        match = _FENCE.match(line)
        if fence:
            part.append(line)
            if match and match[1].startswith(fence) and not match[2].strip():
                yield True, "\n".join(part)
                part, fence = [], ""
        elif match and "`" not in match[2]:
            yield False, "\n".join(part)
            part, fence = [line], match[1]
        else:
            part.append(line)
    if part:
        yield bool(fence), "\n".join(part)


def _plain(text: str) -> str:
    """The text with uniform line ends, and without characters that are invisible or control something."""
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\u2028", "\n").replace("\u2029", "\n")
    unseen = ("Cc", "Cf", "Cs", "Co", "Cn")
    text = _TERMINAL.sub("", text)
    return "".join(letter for letter in text if letter in "\n\t" or unicodedata.category(letter) not in unseen)


def _prose(text: str) -> str:
    """Prose without the parts to remove; placeholders stand for code."""
    for pattern in (_IMAGE, _EMPTY_LINK, _TAG, _CHECK_BOX, _NO_ANSWER, _MERGE):
        text = pattern.sub("", text)
    text = _TRAILER.sub(_trailer, _LINK.sub(_linked, text))
    text = _LIST_ITEM.sub(r"\1", _PARENTHESIS.sub("", text))
    text = _PHRASE.sub(lambda match: match["item"] or " " * (match["item"] is None), text)
    text = _AT_END.sub(_at_end, text)
    text = _INSIDE.sub(_REFERENCE, text)
    text = "\n".join(map(_without_mentions, text.split("\n")))
    text = _EMPTY_ITEM.sub("", _EMPTY_PARENTHESES.sub("", text))
    return _LAST_RULE.sub("", _EMPTY_HEADING.sub("", f"{text.rstrip()}\n"))


def _number(match: re.Match[str]) -> str:
    return match[2] or f"#{match[1]}"


def _linked(match: re.Match[str]) -> str:
    """The text of a link, as a reference if it is only a number."""
    return f"#{match[1]}" if match[1].isdecimal() else match[1]


def _trailer(match: re.Match[str]) -> str:
    """Nothing for trailers such as ``Reviewed-by``, and for others, such as ``Fixes: ...``, that contain references."""
    value = match["value"].strip()
    only_references = re.fullmatch(rf"{_LIST}\.?", value, re.IGNORECASE)
    return "" if not value or only_references or _ALWAYS_TRAILER.fullmatch(match["name"]) else match[0]


def _at_end(match: re.Match[str]) -> str:
    """Nothing for a reference after a complete sentence or title."""
    before = match.string[max(0, match.start() - 20) : match.start()]
    return f" {_REFERENCE}{match['stop']}" if _NEEDS_OBJECT.search(before) else match["stop"]


def _without_mentions(line: str) -> str:
    if "@" not in line or line.startswith(("    ", "\t")):  # probably code
        return line
    rest = _MENTION.sub("", _COPIES.sub("", line))
    if rest == line:
        return line
    return "" if _ONLY_THANKS.fullmatch(rest) else re.sub(r"(?<=\S)[ \t]{2,}(?=\S)", " ", rest).strip(" \t")


def _without_ids(code: str, ids: Sequence[str]) -> str:
    """Code without the ids of these commits and their abbreviations."""

    def shown(word: re.Match[str]) -> str:
        return "" if any(each.startswith(word[0]) for each in ids) else word[0]

    return re.sub(r"\b[0-9a-f]{7,40}\b", shown, code)


def _shortened(text: str) -> str:
    """The text, cut after a paragraph, or else after a line, if it is too long; a truncated code block is closed."""
    if len(text) <= LONGEST:
        return text
    part = text[: LONGEST - 100]
    end = next((end for stop in ("\n\n", "\n") if (end := part.rfind(stop)) > LONGEST // 2), len(part))
    part = part[:end].rstrip()
    *_, (is_code, last) = _parts(part)
    fence = _FENCE.match(last)
    closed = is_code and fence is not None and "\n" in last and last.rpartition("\n")[2].strip() == fence[1]
    return f"{part}\n{fence[1]}\n\n[...]" if is_code and fence and not closed else f"{part}\n\n[...]"
