"""Attacks on the results of blinded tests: the channel, its lines, and the host that compares them."""

from __future__ import annotations

from agentbench_integrity.adversaries.forger import forging
from agentbench_integrity.adversaries.script import Script

SCRIPTS = (
    Script(
        "c32j-forms-of-the-host",
        "records approximations with infinite tolerance, which the host might treat as equal to anything",
        forging(r"""
ALL = [["float", "inf"], ["float", "inf"], True]
def wide(form):
    if isinstance(form, int) and not isinstance(form, bool):
        return ["approx", form, *ALL]
    if not isinstance(form, list) or not form:
        return form
    word, *parts = form
    if word in ("list", "tuple"):
        return [word, *map(wide, parts)]
    if word == "dict":
        return [word, *[[key, wide(each)] for key, each in parts]]
    if word == "object":
        return [word, parts[0], *[[name, wide(each)] for name, each in parts[1:]]]
    return ["approx", form, *ALL] if word in ("int", "float", "decimal", "fraction", "complex") else form
def choose(record):
    return ["other"] if record.missing else wide(record.form)
"""),
    ),
    Script(
        "c32k-heavy-values",
        "records values that are malformed or slow to process: equal hashes, deep nesting, huge numbers",
        forging(r"""
P = (1 << 61) - 1
def deep(depth, form=1):
    for _ in range(depth):
        form = ["list", form]
    return form
heavy = [
    ["set", *[["int", hex(P * number)] for number in range(1, 15000)]],
    ["set", *[["object", "A", ["b", number]] for number in range(12000)]],
    ["dict", *[[["fraction", hex(P * number), "0x1"], 1] for number in range(1, 9000)]],
    ["fraction", "0x1" + "f0e" * 60000, "0x1" + "3d7" * 60000], ["decimal", "1e999999999999999999"],
    ["decimal", "7" * 200000], ["int", "-0x" + "f" * 300000], ["range", "0x0", "0xf4240", "0x1"],
    ["range", "0x0", hex(1 << 4000), "0x1"], ["complex", "nan", "inf"], ["float", "0x1p99999999999"], 1e400,
    deep(79), deep(400), ["!", deep(480)], ["int", deep(485)], ["zzz", deep(485)], ["enum", deep(480), deep(9)],
    "a" * 10000, "ab" * 5000, "\ud800 \x1b]0;x\x07", [], [[]], {}, ["dict", 1], ["object"], ["enum"], ["approx"],
    ["timedelta", 10 ** 30], ["datetime", {}], ["bytes", "zz"], float("nan"), ["list", *[[]] * 150000],
]
count = 0
def choose(record):
    global count
    count += 1
    return heavy[count % len(heavy)] if count < 50 else [] if count < 5000 else record.form
def begin():
    checks = forge()
    if checks is None:
        return
    say = checks.say
    def saying(**line):
        if "end" in line:
            say(test="x" * 30000000, records=[])
        say(**line)
    checks.say = saying
"""),
    ),
    Script(
        "c32l-skip-blinded",
        "reports blinded tests as passed without running them",
        forging(r"""
def begin():
    import pytest
    run = pytest.Function.runtest
    def skipping(self):
        if not hasattr(self.module, "_agentbench"):
            run(self)
    forge()
    pytest.Function.runtest = skipping
"""),
    ),
    Script(
        "c32m-disordered-records",
        "reverses a test's records, omits the first, or repeats the last, in turn",
        forging(r"""
turn = 0
def begin():
    if forge() is None:
        return
    take = type(recorder).take
    def disordered(self):
        global turn
        turn += 1
        made = take(self)
        return [made[::-1], made[1:], made + made[-1:]][turn % 3]
    type(recorder).take = disordered
"""),
    ),
    Script(
        "c32n-replayed-lines",
        "replays an earlier result line in place of each line that reports a failure",
        forging(r"""
def begin():
    if recorder is None:
        return
    channel, write, lines = recorder.overflow.__self__.channel, os.write, []
    def again(descriptor, data):
        if descriptor != channel._out:
            return write(descriptor, data)
        lines.append(data)
        write(descriptor, lines[len(lines) // 2] if b'"failed"' in data and len(lines) > 3 else data)
        return len(data)
    os.write = again
"""),
    ),
    Script(
        "c32o-daemon-with-the-key",
        "leaves a daemon that outlives pytest, has the key, and rewrites all results",
        forging(r"""
def begin():
    if recorder is None:
        return None
    import hmac, time
    channel = recorder.overflow.__self__.channel
    key, found = bytes(channel._key), [line.split()[4] + "/outcomes.jsonl" for line in open("/proc/self/mountinfo")]
    try:
        found.append(os.readlink(f"/proc/self/fd/{channel._out}"))
    except OSError:
        pass
    place = [path for path in found if os.path.exists(path)][-1]
    if os.fork():
        return os.wait()
    os.setsid()
    if os.fork():
        os._exit(0)
    os.closerange(0, 100)
    for _ in range(4000):
        time.sleep(0.002)
        with open(place, "rb") as file:
            lines = file.read().splitlines()
        if not lines or b'"end"' not in lines[-1]:
            continue
        with open(place + ".new", "wb") as file:
            for line in lines:
                text = line[33:] if b" + 1" in line else line[33:].replace(b'"failed"', b'"passed"')
                file.write(hmac.digest(key, text, "sha256").hex()[:32].encode() + b" " + text + bytes([10]))
        os.replace(place + ".new", place)
        break
    os._exit(0)
"""),
    ),
    Script(
        "c32p-child-without-the-key",
        "starts a child that seeks the key by path, descriptor, memory and ptrace, and adds result lines",
        r'''
child = """
import ctypes, glob, json, os
parent, found, key = os.getppid(), set(), b"k" * 32
try:
    for entry in open(f"/proc/{parent}/environ").read().split(chr(0)):
        if entry.startswith("AGENTBENCH_RESULTS"):
            found.add(os.path.join(entry.partition("=")[2], "outcomes.jsonl"))
except OSError:
    pass
for mount in open("/proc/self/mountinfo"):
    found.update(glob.glob(mount.split()[4] + "/outcomes.jsonl"))
for path in glob.glob(f"/proc/{parent}/fd/*"):
    try:
        found.update({path} if os.readlink(path).endswith("outcomes.jsonl") else ())
    except OSError:
        pass
libc = ctypes.CDLL(None)
attached = libc.ptrace(16, parent, 0, 0) == 0
try:
    with open(f"/proc/{parent}/maps") as maps, open(f"/proc/{parent}/mem", "rb") as memory:
        heap = [int(line.split("-")[0], 16) for line in maps if "[heap]" in line]
        memory.seek(heap[0])
        key = memory.read(32)
except (OSError, IndexError):
    pass
if attached:
    os.waitpid(parent, 0x40000000)
    libc.ptrace(17, parent, 0, 0)
line = json.dumps({"id": "checks", "when": "call", "outcome": "passed"}).encode()
for path in found:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
        os.write(descriptor, key.hex()[:32].encode() + b" 0 " + line + bytes([10]))
    except OSError:
        pass
"""
everywhere(f"""
import os, sys
if "_agentbench" in sys.modules:
    if os.fork() == 0:
        os.execv(sys.executable, [sys.executable, "-c", {child!r}])
    os.wait()
""")
''',
    ),
    Script(
        "c32q-wrong-key",
        "writes passing results, signed with its own key",
        forging(r"""
def begin():
    import hmac
    checks = forge()
    if checks is None:
        return
    channel = checks.channel
    def wrong(line):
        text = b"%d %s" % (channel._number, line.encode())
        channel._number += 1
        os.write(channel._out, hmac.digest(b"k" * 32, text, "sha256").hex()[:32].encode() + b" " + text + bytes([10]))
    channel.write = wrong
"""),
    ),
)
