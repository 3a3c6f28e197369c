def recipes(*a, **k): return []
