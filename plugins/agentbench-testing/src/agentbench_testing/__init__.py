"""The conformance kit: what a component must do, as checks that plugin authors run with pytest.

    from agentbench_testing import SandboxConformance

    class TestMine(SandboxConformance):
        @classmethod
        def make_provider(cls) -> SandboxProvider:
            return MyProvider(MyOptions())

``conformance`` has the class of each kind, and a table of what must be given.

For tests of one's own: :func:`make_context` gives what an agent gets, with real tools over a small program that has a
bug and a model whose answers are written down (:func:`says`, :func:`calls`); :class:`ScriptedLLM` is such a model as a
provider, and :class:`CallDouble` remembers what a provider tells the harness. :class:`FakeClock` lets a deadline pass
without waiting. :func:`write_run` makes run directories; :class:`RecordingReporter` keeps what a run gives a reporter.
Doubles of a sandbox (:class:`SandboxDouble` and its neighbours) do all but one thing as a real one does.

With ``pytest_plugins = ["agentbench_testing.fixtures"]`` in a ``conftest.py``, tests have these fixtures:

==================  ================================================================  =================================
fixture             gives                                                             which is
==================  ================================================================  =================================
make_task           a function that writes a small task, of a shell's or of Python's  :class:`MakeTask`
make_suite          the same for several tasks                                        :class:`MakeSuite`
run_agentbench      a function that runs the command as a process of its own          :class:`RunAgentbench`
==================  ================================================================  =================================

The names are listed in ``__init__.pyi`` and loaded when they are first used, so that importing this does nothing.
"""

import sys

import lazy_loader

if "pytest" in sys.modules:  # it then shows the values in an assertion of ours that fails
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{each}" for each in ("checks", "doubles", "fixtures")))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
