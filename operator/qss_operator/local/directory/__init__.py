"""The state directory: `state` says what lies where and holds the lock of whoever runs it, `files`
replaces files as a whole, `ports` keeps the ports that pods were given.
"""
