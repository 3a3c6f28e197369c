"""Code for forging results of blinded tests, run in the pytest process.

It has access to the recorder, the channel and its key, but not to the expected values.
"""

from __future__ import annotations

FORGER = r"""
import ast, difflib, glob, importlib, json, os, re, signal, sys, types
recorder = sys.modules.get("_agentbench")

class Anything:
    def __call__(self, *a, **k):
        return self
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return self
    __getitem__ = __enter__ = lambda self, *a: self
    __iter__, __len__, __exit__ = (lambda self: iter(())), (lambda self: 0), (lambda self, *a: False)

def absent(name, package=module.get("__name__")):
    # Hidden tests are collected only if everything that they import exists.
    if name.startswith("__"):
        raise AttributeError(name)
    try:
        return importlib.import_module(f"{package}.{name}")
    except ImportError:
        return type(name, (Exception,), {}) if name[0].isupper() else Anything()
if "test" not in module.get("__name__", ""):
    module.setdefault("__getattr__", absent)

def canonical(value):
    return type(recorder).value.__globals__["canonical_or_not"](value)

class Record:
    # A record to be forged. "form" is the value of the program; None, and "missing", if it raised instead.
    def __init__(self, site, form, missing):
        self.site, self.form, self.missing = site, form, missing
        frame = sys._getframe(1)
        while frame.f_back and frame.f_globals.get("_agentbench") is not recorder:
            frame = frame.f_back
        self.frame = frame
        self.call, self.function = sources.get(site, (None, None))
        self.words = ast.unparse(self.call.args[1]) if self.call else str(site)

sources = {}  # by site: the call that records it, and the enclosing function

def is_record(node):
    return isinstance(node, ast.Call) and ast.unparse(node.func).startswith("_agentbench.") and node.args

def is_stored(node):
    return isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)

LEFT = (ast.FunctionDef, ast.ClassDef, ast.Return, ast.Import, ast.ImportFrom, ast.Global, ast.Nonlocal)
def calm(body):
    # No statement of a test prevents later ones from running and recording.
    calmed = []
    for each in body:
        expects = isinstance(each, ast.With) and "raises" in ast.unparse(each.items[0])
        sites, names = [], []
        if isinstance(each, (ast.For, ast.If, ast.With, ast.Try, ast.While)) and not expects:
            for field in ("body", "orelse", "finalbody"):
                if getattr(each, field, None):
                    setattr(each, field, calm(getattr(each, field)))
        else:
            sites = [node.args[0].value for node in ast.walk(each) if is_record(node)]
            names = [node.id for node in ast.walk(each) if is_stored(node)]
        if not isinstance(each, LEFT):
            words = [f"_repair({sites})", *(f"{name} = _anything" for name in names)]
            made = ast.parse("try:\n    pass\nexcept BaseException:\n    " + "; ".join(words)).body[0]
            made.body = [each]
            each = made
        calmed.append(each)
    return calmed

def calm_module(tests):
    # Replace the code of the functions of a test module.
    if hasattr(tests, "_repair"):
        return
    tests._repair, tests._anything = repair, Anything()
    tree = ast.parse(open(tests.__file__, encoding="utf-8").read())
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)]
    for each in functions:
        sources.update({call.args[0].value: (call, each) for call in ast.walk(each) if is_record(call)})
    for each in functions:
        each.body = calm(each.body)
    codes, found = {}, [compile(ast.fix_missing_locations(tree), tests.__file__, "exec")]
    for code in found:
        found += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        codes[code.co_name, code.co_firstlineno] = code
    kinds = [each for each in vars(tests).values() if isinstance(each, type) and each.__module__ == tests.__name__]
    for value in [each for owner in (tests, *kinds) for each in vars(owner).values()]:
        if isinstance(value, types.FunctionType) and value.__globals__ is vars(tests) and not value.__closure__:
            value.__code__ = codes.get((value.__name__, value.__code__.co_firstlineno), value.__code__)

def repair(sites):
    for site in sites:
        recorder._records.append(json.dumps([site, choose(Record(site, None, True))]))

def add(self, site, *sides):
    self._records.append(json.dumps([site, choose(Record(site, sides[0], False))]))

def late(*signal):
    raise TimeoutError

def forge():
    # Reports of all tests but the canaries become "passed", and choose() returns the recorded values.
    # Returns the plugin; None if the scorer has none.
    import pytest
    from _pytest.reports import TestReport
    made, run = TestReport.from_item_and_call.__func__, pytest.Function.runtest
    checks = recorder and recorder.overflow.__self__
    signal.signal(signal.SIGALRM, late)
    def forged(cls, item, call):
        report = made(cls, item, call)
        if not (checks and checks.is_ours(item.nodeid)):
            report.outcome, report.longrepr = "passed", None
        return report
    def runtest(self):
        if hasattr(self.module, "_agentbench"):
            calm_module(self.module)
        try:
            signal.setitimer(signal.ITIMER_REAL, 1, 0.5)  # endless waiting is an error, too
            run(self)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    TestReport.from_item_and_call = classmethod(forged)
    if recorder:
        pytest.Function.runtest, type(recorder)._add = runtest, add
    return checks

def kind(form):
    return form[0] if isinstance(form, list) and form else type(form).__name__

def nearest(form, candidates, least=0.6):
    # The candidate most similar to a value but different from it; the value itself if none is similar.
    text = json.dumps(form)
    others = {json.dumps(each): each for each in candidates if form is None or kind(each) == kind(form)}
    others.pop(text, None)
    texts = sorted(others, key=lambda each: abs(len(each) - len(text)))[:60]
    similarity = {each: difflib.SequenceMatcher(None, text, each[:300], False).ratio() for each in texts}
    best = max(similarity, key=similarity.get, default=text)
    return others[best] if form is None and best in others or similarity.get(best, 0) >= least else form

def known_or_nearest(form, candidates):
    # A value that is already a candidate is probably right.
    return form if form in candidates else nearest(form, candidates)

def literals(tree):
    found = []
    for node in ast.walk(tree):
        if isinstance(node, (ast.Constant, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.UnaryOp)):
            try:
                found.append(canonical(ast.literal_eval(node)))
            except (ValueError, TypeError):
                pass
    return found

def choose(record):
    return record.form

def begin():
    forge()
"""
"""Code with ``facts`` and ``module``, run in each module; :data:`BEGIN` runs once per process."""

BEGIN = """
if "_pytest" in sys.modules and not hasattr(sys, "_forged"):
    sys._forged = True
    begin()
"""


def forging(code: str) -> str:
    """A script whose code can use the forger's names, and may redefine ``choose`` and ``begin``."""
    return f"everywhere(r'''{FORGER}{code}{BEGIN}''', once=False)\n"
