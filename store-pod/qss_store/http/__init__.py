"""The pod's three listeners: handlers parse, call and encode."""
