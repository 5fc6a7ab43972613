"""The language of the system: model, errors, partitioner, serdes, formats, messages. Pure."""
