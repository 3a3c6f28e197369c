"""Attempts on several machines: certificates, TLS, and the workers that run them."""
