CAPTURE="python -m pip freeze"
def classify(m):
    from agentbench_tasks.mining.values import Rejection, Code
    return Rejection(code=Code.ENVIRONMENT_FAILED, reason=m[:200])
def pins(*a): return ()
def setup_commands(*a): return ()
