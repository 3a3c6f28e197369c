"""The SDKs of OpenAI and Anthropic understand what the gateway itself sends, from a server on loopback."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import anthropic
import openai
import pytest

from agentbench_bridge.protocols import Limits, ModelMap, admit, error_body, error_event, models_body

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    404: "invalid_request_error",
    413: "invalid_request_error",
    429: "rate_limit_error",
    500: "api_error",
}
TEXT = 'the model "x" is not mapped: \u00fc\n--set agent.models=...'


class Server:
    """Sends the same response to every request, and keeps the last request."""

    def __init__(self) -> None:
        self.status, self.kind, self.body = 200, "application/json", b"{}"
        self.path, self.headers, self.sent = "", {"": ""}, b""
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                outer.sent = self.rfile.read(int(self.headers["content-length"] or 0))
                self.do_GET()

            def do_GET(self) -> None:
                outer.path, outer.headers = self.path, dict(self.headers)
                self.send_response(outer.status)
                self.send_header("content-type", outer.kind)
                self.send_header("content-length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def sends(self, body: bytes, *, status: int = 200, kind: str = "application/json") -> None:
        self.body, self.status, self.kind = body, status, kind

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def gpt(server: Server) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="secret", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(server: Server) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.url, api_key="secret", max_retries=0) as client:
        yield client


MESSAGE: Any = {"role": "user", "content": "hi"}


def ask(protocol: str, gpt: openai.OpenAI, claude: anthropic.Anthropic, *, stream: bool = False) -> Any:
    """Send a request, and read the stream to its end."""
    answer: Any
    if protocol == "chat":
        answer = gpt.chat.completions.create(model="m", messages=[MESSAGE], stream=stream)
    elif protocol == "responses":
        answer = gpt.responses.create(model="m", input=[MESSAGE], stream=stream)
    else:
        answer = claude.messages.create(model="m", max_tokens=5, messages=[MESSAGE], stream=stream)
    return list(answer) if stream else answer


EACH = pytest.mark.parametrize("protocol", ["chat", "responses", "messages"])


@EACH
@pytest.mark.parametrize("status", KINDS)
def test_errors(protocol: str, status: int, server: Server, gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    server.sends(error_body(protocol, status, KINDS[status], TEXT), status=status)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as raised:
        ask(protocol, gpt, claude)
    error: Any = raised.value
    assert error.status_code == status
    expected = {400: "BadRequestError", 401: "AuthenticationError", 404: "NotFoundError", 429: "RateLimitError"}
    assert type(error).__name__ == expected.get(status, type(error).__name__)
    if isinstance(error, openai.APIStatusError):
        assert (error.type, error.param) == (KINDS[status], None)
        assert isinstance(error.body, dict)
        assert error.body["message"] == TEXT
    else:
        parsed = anthropic.types.ErrorResponse.model_validate(error.body)
        assert parsed.error.message == TEXT
        assert parsed.error.type == ("not_found_error" if status == 404 else KINDS[status])


@EACH
@pytest.mark.parametrize("kind", sorted(set(KINDS.values())))
def test_events(protocol: str, kind: str, server: Server, gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    server.sends(error_event(protocol, kind, TEXT), kind="text/event-stream")
    if protocol == "responses":
        (event,) = ask(protocol, gpt, claude, stream=True)
        assert event.type == "response.failed"
        strict = openai.types.responses.ResponseFailedEvent.model_validate(event.to_dict())
        assert strict.response.error is not None
        assert strict.response.error.message == TEXT
        return
    with pytest.raises((openai.APIError, anthropic.APIError)) as raised:
        ask(protocol, gpt, claude, stream=True)
    error: Any = raised.value
    assert TEXT in json.dumps(error.body, ensure_ascii=False).replace('\\"', '"').replace("\\n", "\n")


@pytest.mark.parametrize("names", [[], ["one"], ["maker/a", "maker/b:free", "c"]])
def test_models(names: list[str], server: Server, gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    server.sends(models_body("chat", names))
    assert [model.id for model in gpt.models.list()] == names
    for model in gpt.models.list():
        openai.types.Model.model_validate(model.to_dict())
    server.sends(models_body("messages", names))
    assert [model.id for model in claude.models.list()] == names
    for entry in json.loads(server.body)["data"]:
        anthropic.types.ModelInfo.model_validate(entry)


@EACH
@pytest.mark.parametrize("stream", [False, True])
def test_requests_of_the_sdks_are_forwarded(
    protocol: str, stream: bool, server: Server, gpt: openai.OpenAI, claude: anthropic.Anthropic
) -> None:
    server.sends(error_body(protocol, 400, "invalid_request_error", "x"), status=400)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)):
        ask(protocol, gpt, claude, stream=stream)
    models = ModelMap(names={"m": "maker/model"})
    admitted = admit(server.path, server.headers, server.sent, models=models, limits=Limits())
    assert (admitted.protocol, admitted.stream, admitted.stripped) == (protocol, stream, ())
    assert not {"authorization", "x-api-key", "user-agent"} & admitted.headers.keys()
    assert [message.content for message in admitted.request.messages] == ["hi"]


def test_beta_requests_of_the_sdk(server: Server, claude: anthropic.Anthropic) -> None:
    server.sends(b'{"input_tokens": 3}')
    tools: Any = [{"type": "bash_20250124", "name": "bash"}, {"type": "web_search_20250305", "name": "web_search"}]
    counted = claude.beta.messages.count_tokens(
        model="m", messages=[MESSAGE], tools=tools, betas=["effort-2025-11-24", "mcp-client-2025-11-20"]
    )
    assert counted.input_tokens == 3
    admitted = admit(server.path, server.headers, server.sent, models=ModelMap(names={"*": "x"}), limits=Limits())
    assert admitted.path == "messages/count_tokens"
    assert admitted.headers["anthropic-beta"].split(",")[0] == "effort-2025-11-24"
    assert "mcp-client" not in admitted.headers["anthropic-beta"]
    assert [tool.name for tool in admitted.request.tools] == ["bash"]
