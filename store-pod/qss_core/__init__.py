"""The language of the system: model, errors, partitioner, serdes, byte formats, wire messages. Pure."""
