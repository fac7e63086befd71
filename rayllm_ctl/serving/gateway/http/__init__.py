"""HTTP beside bodies: addresses, CORS, `Expect`, request ids, server-sent events, errors of the application."""
