"""The version of this tree; images have no package metadata."""

VERSION = "0.1.0"
