"""stub"""
import attrs
from agentbench_tasks.mining.values import *
@attrs.frozen
class Discussion: number: int
def read_discussions(path): return {}
def describe_commit(commit, discussions, *, patch, hidden, base_names):
    text = commit.subject + "\n\n" + commit.body
    if len(text.split()) < 3: raise RejectedError(Code.NO_DESCRIPTION, "too short")
    return Description(text=text, source="commit_message")
def instruction(described, *, public_command, new_names): return described.text + "\n\nHidden tests decide. " + public_command
def new_names(*a, **k): return []
