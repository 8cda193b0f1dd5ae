"""The wire side of a broker: transports and connections (trio), and the framing of requests and responses (pure)."""
