"""Queries and their answers, as JSON and as parameters of a GET.

`types` has the query types of IQv2, with Kafka's names and members. `requests` has the bodies of
requests and answers, for these and for batch gets.

`parameters` has the table of a GET's parameters and parses them, `timed_parameters` adds those of
windows, sessions and versions. The pod's handlers and its OpenAPI document use the same tables.
"""
