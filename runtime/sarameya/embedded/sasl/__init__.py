"""The broker's half of SASL (KIP-43, KIP-152, KIP-368). Pure.

gate         what a connection may ask for, and when          words   a broker's words, by mechanism
"""

from sarameya.embedded.sasl.authenticator import SaslConfig, SaslServerAuthenticator

__all__ = ["SaslConfig", "SaslServerAuthenticator"]
