"""The network side of a broker: transports and connections (trio), framing of requests and responses (pure).

| module | job |
|---|---|
| `networks` | transports: TCP, TLS, and streams in memory |
| `server` | one broker's connections: read a request, send its response |
| `framing` | bytes to requests, responses to bytes |
"""
