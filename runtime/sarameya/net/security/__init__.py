"""Security: TLS, SASL, and refused authentications."""
