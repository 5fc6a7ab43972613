"""The version of this tree, since images have no package metadata, and that of its messages."""

VERSION = "0.1.0"
MESSAGE_VERSION = 2  # See `wire.versions`.
