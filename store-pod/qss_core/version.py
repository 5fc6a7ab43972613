"""The version of all that is in this tree; an image has no metadata of a package."""

VERSION = "0.1.0"
