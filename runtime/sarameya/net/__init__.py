"""The trio shells around the wire: stream, connection, broker pool, metadata, coordinator. One concern a file."""
