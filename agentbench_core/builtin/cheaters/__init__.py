"""Cheaters: what agents have done, or could do, to be scored as passing without solving a task. One room per theme."""
