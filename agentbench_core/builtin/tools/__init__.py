"""The bundled tools."""
