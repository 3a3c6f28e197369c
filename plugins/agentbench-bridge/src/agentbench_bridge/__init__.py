"""Coding agents that are programs: their model requests are forwarded by a gateway on the host."""
