"""The broker's half of SASL (KIP-43, KIP-152, KIP-368). Pure.

`authenticator` decides which requests a connection may send; `mechanisms` has the exchange of each mechanism.
"""

from sarameya.embedded.sasl.authenticator import SaslConfig, SaslServerAuthenticator

__all__ = ["SaslConfig", "SaslServerAuthenticator"]
