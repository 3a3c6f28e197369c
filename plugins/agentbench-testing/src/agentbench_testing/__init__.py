"""The conformance kit: the requirements of components, as checks that plugin authors run with pytest.

    from agentbench_testing import SandboxConformance

    class TestMine(SandboxConformance):
        @classmethod
        def make_provider(cls) -> SandboxProvider:
            return MyProvider(MyOptions())

``conformance`` contains the class for each kind, and a table of the required methods.

For your own tests: :func:`make_context` creates the context of an agent, with real tools over a small program that has
a bug, and a scripted model (:func:`says`, :func:`calls`). :class:`ScriptedLLM` is a provider with such a model.
:class:`CallDouble` records a provider's reports to the harness, and :class:`NativeDouble` records the parts of a
response to a forwarded request that the provider passes on. :class:`FakeClock` lets a deadline pass without waiting.
:func:`write_run` creates run directories. :class:`RecordingReporter` records the input of a reporter.
:class:`WorkDouble` gives functions to an executor as attempts. Test doubles of a sandbox (:class:`SandboxDouble` and
related classes) delegate to a real one, except for methods that you override.

With ``pytest_plugins = ["agentbench_testing.fixtures"]`` in a ``conftest.py``, tests have these fixtures:

==================  ================================================================  =================================
fixture             returns                                                           type
==================  ================================================================  =================================
make_task           a function that writes a small shell or Python task               :class:`MakeTask`
make_suite          a function that writes several such tasks                         :class:`MakeSuite`
run_agentbench      a function that runs ``agentbench`` in its own process            :class:`RunAgentbench`
agentbench          a function that runs ``agentbench`` in the process of the tests   :class:`RunHere`
==================  ================================================================  =================================

The names are listed in ``__init__.pyi`` and loaded on first use, so that importing this package is fast.
"""

import sys

import lazy_loader

if "pytest" in sys.modules:  # show values in failed assertions of the kit
    sys.modules["pytest"].register_assert_rewrite(*(f"{__name__}.{each}" for each in ("checks", "doubles", "fixtures")))

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
