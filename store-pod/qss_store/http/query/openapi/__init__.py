"""The OpenAPI document of the query port.

`document` has its paths, `schemas` its bodies, and `plain_schemas` rewrites schemas for client
generators.
"""
