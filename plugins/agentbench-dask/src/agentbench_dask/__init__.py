"""Starts worker processes of AgentBench on the workers of a Dask cluster."""
