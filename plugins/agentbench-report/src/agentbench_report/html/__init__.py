"""Report one or two runs as a self-contained HTML file: ``agentbench report html``.

All displayed text comes from agents, models and task packs and is untrusted: see ``environment``.
"""
