"""The auditor passes the conformance suite."""

from __future__ import annotations

from agentbench_core import Auditor, NoOptions
from agentbench_integrity.audit.auditor import IntegrityAuditor
from agentbench_testing import AuditorConformance


class TestIntegrity(AuditorConformance):
    @classmethod
    def make_auditor(cls) -> Auditor:
        return IntegrityAuditor(NoOptions())
