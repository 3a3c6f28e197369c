"""A plugin with a scripted model, and agents that use it."""

MODELS = '''
    import json, pathlib, threading, time, attrs
    from agentbench_core import (AgentResult, BudgetExceeded, Completion, FailedExchange, LLMError, Message, ModelFacts,
        Request, SubAgentRequest, ToolCall, Usage, hookimpl, option)

    @attrs.frozen(kw_only=True)
    class Options:
        price: float = option(3.0, help="USD per million tokens, in and out; negative: unknown")
        cost: float = option(0.01, help="USD that each exchange is billed; negative: it does not tell")
        tokens: int = option(100, help="tokens that an exchange reads")
        plan: str = option("", help="what each exchange does, in order: ok fail unknown again stop refuse; then ok")
        wait: float = option(0.0, help="seconds until an answer")

    def note(line):
        with pathlib.Path("server.log").open("a") as file:
            file.write(line + "\\n")

    class Model:
        """Writes a line to server.log for each exchange, as a server would see it."""
        def __init__(self, options):
            self.options, self.plan, self.lock = options, options.plan.split(), threading.Lock()
        def preflight(self, expected):
            assert not expected.forwards
            price = None if self.options.price < 0 else self.options.price
            return ModelFacts(context_tokens=100_000, usd_per_million_input=price, usd_per_million_output=price,
                              known={"tools": str(len(expected.request.tools)), "workers": str(expected.workers)},
                              warnings=("it is slow on Sundays",))
        def close(self):
            note("closed")
        def complete(self, request, call):
            while True:
                with self.lock:
                    what = self.plan.pop(0) if self.plan else "ok"
                call.deadline.check()
                note(f"exchange {call.task_id} {call.repeat} {what}")
                time.sleep(self.options.wait)
                cost = None if self.options.cost < 0 else self.options.cost
                usage = Usage(prompt_tokens=self.options.tokens, completion_tokens=10, cost_usd=cost)
                if what == "ok":
                    command = "echo fixed > app.txt"
                    calls = (ToolCall(tool="run", arguments={"command": command}, id=f"c{len(request.messages)}"),)
                    return Completion(message=Message(role="assistant", content="so", tool_calls=calls), usage=usage,
                                      finish="tool_calls", model="served-1", served_by="somebody", response_id="gen-1")
                if what == "refuse":
                    return Completion(message=Message(role="assistant", content="no"), finish="refusal", usage=usage)
                nothing = Usage(cost_usd=0.0)
                billed = {"fail": nothing, "again": usage, "unknown": None, "stop": nothing}[what]
                call.failed(FailedExchange(error="transient", message="down", status=502, usage=billed))
                if what == "stop":
                    raise LLMError("the key is refused", remedy="Set another.", stops_run=True)
                if what != "again":
                    raise LLMError("the provider is down")
                call.add_wait(0.5)
                call.start_exchange()

    def say(context, text=""):
        word = pathlib.Path("word")
        text = text or (word.read_text() if word.exists() else "hi")
        return context.llm.complete(Request(messages=(Message(role="user", content=text),), tools=context.tools.specs))

    class Asks:
        """Asks so often as a word in the task says, and does what it is told."""
        def solve(self, context):
            for _ in range(int(pathlib.Path("times").read_text()) if pathlib.Path("times").exists() else 1):
                for call in say(context).message.tool_calls:
                    context.tools.call(call)
            return AgentResult(prompt_version="v1")

    class Delegates:
        """Asks a helper with a share too small for more than one answer, and then goes on itself."""
        def solve(self, context):
            helper = context.delegate(SubAgentRequest(role="helper", tools=["run"], max_steps=1))
            assert [spec.name for spec in helper.tools.specs] == ["run"]
            refused = helper.tools.call(ToolCall(tool="read_file", arguments={"path": "app.txt"}))
            assert refused.error_type == "unknown_tool", refused
            try:
                helper.tools.call(ToolCall(tool="run", arguments={"command": "true"}))
            except BudgetExceeded:
                context.budget.check()
            else:
                raise AssertionError("a share of one step had two")
            say(helper, "from below")
            inner = helper.delegate(SubAgentRequest(role="helper", tools=[]))
            assert inner.tools.specs == ()
            poor = context.delegate(SubAgentRequest(role="poor", max_tokens=1))
            try:
                say(poor, "too much for it")
            except BudgetExceeded:
                context.budget.check()
            for call in say(context, "from above").message.tool_calls:
                context.tools.call(call)
            return AgentResult()

    class Looks:
        """Looks at its budget itself, and lets what that raises pass."""
        def solve(self, context):
            while True:
                context.budget.check()
                context.tools.call(ToolCall(tool="run", arguments={"command": "true"}))

    class Malformed:
        def solve(self, context):
            deep = {}
            for _ in range(330):
                deep = {"a": deep}
            result = context.tools.call(ToolCall(tool="run", arguments=deep))
            assert result.error_type == "malformed_call", result
            result = context.tools.call(ToolCall(tool="run", arguments={}, problem="line 1 is not valid JSON"))
            assert (result.error_type, result.error_message) == ("malformed_call", "line 1 is not valid JSON"), result
            return AgentResult()

    @attrs.frozen
    class NoOptions:
        pass

    @hookimpl
    def agentbench_register_agents(register):
        for cls in (Asks, Delegates, Looks, Malformed):
            register(cls.__name__.lower(), lambda options, cls=cls: cls(), NoOptions, summary="",
                     capabilities={"needs_llm"})

    @hookimpl
    def agentbench_register_llms(register):
        register("told", Model, Options, summary="")
'''
"""The source of the plugin."""
