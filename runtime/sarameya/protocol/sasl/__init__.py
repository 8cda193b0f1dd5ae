"""SASL authentication with a broker (KIP-43, KIP-152, KIP-368). Pure, except for mechanisms that ask other servers.

Those (Kerberos, AWS) mark the steps that block.

    exchange     the requests and responses of one authentication
    mechanisms   their contents, by mechanism
"""
