"""An ASGI middleware in front of an OpenAI-compatible API: keys, limits, a bounded queue, validation; without Ray."""
