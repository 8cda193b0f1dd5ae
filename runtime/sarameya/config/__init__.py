"""The runtime's configuration. All of it is pure, but for the reading of files.

options             every option: its default, its unit, its bounds
security            which of the security options go together
properties          options by Kafka's own names            kafka_names       those that are none here, and why
client_properties   a client as a .properties file has it   properties_file   the syntax of such files
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
