"""Classifies failed exchanges: retry, give up, stop the run, or treat as a response."""

from __future__ import annotations

import enum
import re
from typing import Any

import attrs

from agentbench_core import Completion, FailedExchange, LLMError, Message, UnavailableError, Usage
from agentbench_openrouter.exchange import ExchangeError
from agentbench_openrouter.hints import hint_of
from agentbench_openrouter.server_errors import ServerError


class Retry(enum.Enum):
    """How to handle a failure."""

    NEVER = "never"
    RATE_LIMIT = "rate_limit"
    """Too many parallel requests: retry later, with fewer at once."""
    TRANSIENT = "transient"
    UNREACHABLE = "unreachable"
    """Nothing was sent, so a retry only costs time: retry until the call's time limit."""
    ONCE = "once"
    POLICY = "policy"
    """Looks like an outage, but may be a refusal."""
    EMPTY = "empty"
    """A response without text or readable tool calls, because of a cold start or the model."""
    SHORTER = "shorter"
    """Too little room for the response: retry with a smaller output limit."""


class Blame(enum.Enum):
    """Consequences of a failure for later calls."""

    NOTHING = "nothing"
    REFUSED = "refused"
    """The server rejected the call; several rejections without a success in between stop the run."""
    STOPS_RUN = "stops_run"
    """No other call can succeed."""


@attrs.frozen(kw_only=True)
class Failure:
    """One failed exchange."""

    error: str
    """One of the codes of ``FailedExchange``."""
    message: str
    """The server's message, sanitized and without the key."""
    status: int | None = None
    retry: Retry = Retry.NEVER
    hint: float | None = None
    """Seconds to wait, as requested by the server."""
    blame: Blame = Blame.NOTHING
    usage: Usage | None = None
    served_by: str = ""
    response_id: str = ""
    outcome: Completion | None = None
    """The result of the call if it is not retried, because the failure also counts as a response."""
    stale: bool = False
    """Whether the server had closed the persistent connection."""
    remedy: str = ""

    @property
    def outage(self) -> bool:
        """Whether the server seems to be unhealthy."""
        return self.error in ("transient", "overloaded", "timeout")

    @property
    def exchange(self) -> FailedExchange:
        """The failed exchange, as reported to the harness."""
        return FailedExchange(
            error=self.error,
            message=self.message,
            status=self.status,
            usage=self.usage,
            served_by=self.served_by,
            response_id=self.response_id,
        )


def classify(error: ServerError, *, usage: Usage | None, wall: float) -> Completion | Failure:
    """Classify an error. Refusals and errors about requests that are too long count as responses, unless the server
    marks them as retryable.

    Args:
        error: the parsed error.
        usage: as reported. If ``None``, most errors with an HTTP error status cost nothing: they precede generation.
        wall: seconds since 1970, for retry hints that are dates.
    """
    if usage is None and error.http_status >= 400 and error.code not in _MAY_HAVE_COST:
        usage = Usage(cost_usd=0.0)
    failure = Failure(error="invalid_request", message=error.text, status=error.code, usage=usage)
    retryable = error.availability.get("retryable")
    answer = _answer_in(error, usage)
    if answer is not None and retryable is not True:
        if retryable is None and answer.finish == "context_overflow" and _is_for_the_cap(error):
            return attrs.evolve(failure, retry=Retry.SHORTER, outcome=answer)
        return answer
    word, retry, blame, remedy = _meaning(error)
    if isinstance(retryable, bool):
        again = Retry.RATE_LIMIT if retry is Retry.RATE_LIMIT else Retry.TRANSIENT
        retry = again if retryable else Retry.NEVER
    patience = retry in (Retry.RATE_LIMIT, Retry.TRANSIENT)
    return attrs.evolve(
        failure,
        error=word,
        retry=retry,
        blame=blame if retry is Retry.NEVER else Blame.NOTHING,
        remedy=remedy,
        hint=hint_of(error.headers, error.metadata, error.availability, wall=wall, limited=retry is Retry.RATE_LIMIT)
        if patience
        else None,
        outcome=outcome("refusal", error.text, usage) if retry is Retry.POLICY else answer,
    )


def failure_of(error: ExchangeError) -> Failure:
    """Classify an exchange without a usable response. If the request was not sent, it cost nothing; otherwise, the cost
    is unknown. Raises LLMError if the client was closed."""
    if error.kind == "closed":
        raise LLMError(str(error))
    words = {"timeout": "timeout", "too_long": "protocol", "odd": "protocol"}
    # A timeout is likely to happen again, and each one may cost money.
    retries = {"timeout": Retry.ONCE, "too_long": Retry.NEVER, "connect": Retry.UNREACHABLE}
    return Failure(
        error=words.get(error.kind, "transient"),
        message=str(error),
        retry=retries.get(error.kind, Retry.TRANSIENT),
        usage=Usage(cost_usd=0.0) if error.kind == "connect" else None,
        stale=error.kind == "stale",
        remedy="Check the base URL, the network and HTTPS_PROXY." if error.kind == "connect" else "",
    )


def not_sent(error: UnavailableError) -> Failure:
    """The failure if a setting prevents all requests."""
    return Failure(
        error="not_sent",
        message=error.message,
        usage=Usage(cost_usd=0.0),
        remedy=error.remedy,
        blame=Blame.STOPS_RUN,
    )


def _answer_in(error: ServerError, usage: Usage | None) -> Completion | None:
    if _is_too_long(error):  # detected before generation
        return outcome("context_overflow", error.text, usage or Usage(cost_usd=0.0))
    return outcome("refusal", error.text, usage) if _is_refusal(error) else None


def outcome(finish: Any, note: str, usage: Usage | None) -> Completion:
    """A response that only consists of its finish reason; ``opaque["note"]`` explains it."""
    opaque = {"note": note} if note else {}
    return Completion(message=Message(role="assistant", opaque=opaque), finish=finish, usage=usage)


_MAY_HAVE_COST = (408, 500, 502, 504, 524)

_LONG_WORDS = {
    "context_length_exceeded",
    "max_tokens_exceeded",
    "token_limit_exceeded",
    "string_too_long",
    "payload_too_large",
    "exceed_context_size_error",
    "request_too_large",
}
_LONG = re.compile(
    r"maximum context length|context[ _]length|context window|exceeds? (?:the )?(?:available )?context|"
    r"reduce the length of either one|input length and .?max_tokens|too many tokens|prompt is too long|"
    r"maximum number of tokens allowed",
    re.IGNORECASE,
)
_CAP = re.compile(r"max_(?:completion_)?tokens|in the (?:completion|output)\b", re.IGNORECASE)
_POLICY = re.compile(r"flagged|polic(?:y|ies)|moderation", re.IGNORECASE)
_POLICY_WORDS = {"content_policy_violation", "refusal", "content_filter", "moderation", "moderation_blocked"}
_NO_CREDIT = re.compile(r"can only afford|insufficient (?:credits|balance|funds)", re.IGNORECASE)
_NO_CREDIT_WORDS = {"payment_required", "insufficient_quota", "billing_hard_limit_reached", "billing_error"}
_BUSY_WORDS = {
    "rate_limit_exceeded",
    "rate_limit_error",
    "provider_overloaded",
    "capacity_exhausted",
    "overloaded_error",
}
_BROKEN_WORDS = {
    "server",
    "server_error",
    "internal_server_error",
    "provider_unavailable",
    "temporarily_unavailable",
    "timeout",
    "api_error",
    "timeout_error",
}
_KEY_WORDS = {"authentication", "authentication_error", "invalid_api_key"}
_REFUSED_WORDS = {"permission_denied", "permission_error", "not_found", "not_found_error", "region_restricted"}


def _is_too_long(error: ServerError) -> bool:
    if error.code == 413 or error.words & _LONG_WORDS:
        return True
    likely = error.code in (None, 400, 422, 500, 502) and not error.words & _BUSY_WORDS
    return likely and bool(_LONG.search(error.text))


def _is_for_the_cap(error: ServerError) -> bool:
    """Whether the output limit contributes to the excess."""
    return "max_tokens_exceeded" in error.words or bool(_CAP.search(error.text))


def _is_refusal(error: ServerError) -> bool:
    """Whether the request was refused. The message alone is not enough, since accounts have policies too."""
    if error.words & _POLICY_WORDS:
        return True
    flagged = any(error.metadata.get(name) for name in ("reasons", "flagged_input", "patterns"))
    return error.code == 403 and flagged and not _is_spent(error)


def _is_spent(error: ServerError) -> bool:
    """Whether a budget of the account or the key is used up."""
    return error.code == 403 and any(name in error.metadata for name in ("limit_usd", "spend_usd"))


def _meaning(error: ServerError) -> tuple[str, Retry, Blame, str]:
    code, words = error.code, error.words
    if code == 401 or words & _KEY_WORDS:
        return "auth", Retry.NEVER, Blame.STOPS_RUN, "Set a valid key."
    if _is_spent(error):
        return "credits", Retry.NEVER, Blame.STOPS_RUN, "Raise the budget, or wait until it is reset."
    if code == 402 or words & _NO_CREDIT_WORDS:
        if _is_own_doing(error):
            return "rate_limited", Retry.RATE_LIMIT, Blame.NOTHING, ""
        return "credits", Retry.NEVER, Blame.STOPS_RUN, "Add credit, or raise the key's limit."
    if code in (429, 529) or words & _BUSY_WORDS:
        if "free-models-per-day" in error.text:
            return "rate_limited", Retry.NEVER, Blame.STOPS_RUN, "Try again tomorrow, or use a model that is not free."
        full = code == 529 or words & {"provider_overloaded", "capacity_exhausted", "overloaded_error"}
        return "overloaded" if full else "rate_limited", Retry.RATE_LIMIT, Blame.NOTHING, _BUSY
    if code == 502 and _POLICY.search(error.text):
        return "transient", Retry.POLICY, Blame.NOTHING, ""
    if code in (408, 504, 524):
        return "timeout", Retry.TRANSIENT, Blame.NOTHING, LATER
    if code == 503:
        return "overloaded", Retry.TRANSIENT, Blame.NOTHING, LATER
    if code is not None and code >= 500 and code not in (501, 505):
        return "transient", Retry.TRANSIENT, Blame.NOTHING, LATER
    if code in (403, 404) or words & _REFUSED_WORDS:
        word = "auth" if code == 403 else "invalid_request"
        return word, Retry.NEVER, Blame.REFUSED, "Check the base URL, model, provider settings and key."
    if code == 400 and error.message.strip() == "Provider returned error" and not error.metadata:
        return "invalid_request", Retry.ONCE, Blame.NOTHING, ""
    if code is None and (words & _BROKEN_WORDS or not words):
        return "transient", Retry.TRANSIENT, Blame.NOTHING, LATER
    return "invalid_request", Retry.NEVER, Blame.NOTHING, "Check the model's settings."


_BUSY = "Use fewer --workers, or resume the run later with --resume."
LATER = "Resume the run later with --resume."


def _is_own_doing(error: ServerError) -> bool:
    """Whether credit is only reserved for the client's own calls in progress, and will be available again."""
    source = error.metadata.get("limit_source")
    if isinstance(source, str) and source:  # more reliable than the message
        return source == "openrouter_in_flight_budget"
    if _NO_CREDIT.search(error.text) or error.words & (_NO_CREDIT_WORDS - {"payment_required"}):
        return False
    return "retry-after" in error.headers
