"""The pure half: state machines and byte formats. No trio, no sockets, no clock; `now` is an argument."""
