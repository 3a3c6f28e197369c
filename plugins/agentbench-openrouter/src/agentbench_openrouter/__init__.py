"""OpenRouter and other OpenAI-compatible servers for AgentBench."""
