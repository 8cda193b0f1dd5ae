"""Configuration of the runtime. Pure, except for reading files.

options             every option: its default, its unit, its bounds
security            rules for combinations of the security options
mistakes            all mistakes in options at once
properties          options by Kafka's own names
kafka_names         Kafka's names without an option here, and the reasons
jaas                user and password in `sasl.jaas.config`
client_properties   clients described by .properties files
properties_file     syntax of such files
"""

from sarameya.config.client_properties import ClientProperties, ClientValues
from sarameya.config.options import Compression, Config, IsolationLevel, RebalanceStrategy, TokenSource, TopicConfig

__all__ = [
    "ClientProperties",
    "ClientValues",
    "Compression",
    "Config",
    "IsolationLevel",
    "RebalanceStrategy",
    "TokenSource",
    "TopicConfig",
]
