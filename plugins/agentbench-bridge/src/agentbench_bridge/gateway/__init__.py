"""The HTTP server on the host that programs in sandboxes send their model requests to."""

from agentbench_bridge.gateway.attempt import BridgedAttempt
from agentbench_bridge.gateway.exchange import ForwardedExchange
from agentbench_bridge.gateway.server import SHARED, Gateway, OpenEndpoint
from agentbench_bridge.gateway.settings import Settings

__all__ = ["SHARED", "BridgedAttempt", "ForwardedExchange", "Gateway", "OpenEndpoint", "Settings"]
