"""A run, or two, as one HTML file that needs no network: ``agentbench report html``.

All that it says was written by somebody else (agents, models, task packs) and is hostile: see ``environment``.
"""
