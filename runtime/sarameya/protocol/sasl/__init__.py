"""SASL (KIP-43, KIP-152, KIP-368): who we are, told to a broker in a mechanism's own words. Pure, but for mechanisms
that ask others (Kerberos), whose steps say that they block.

exchange     the requests and answers of one authentication          mechanisms   what is in them, by mechanism
"""
