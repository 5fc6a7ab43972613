"""Queries and their answers.

`types` has the types of IQv2, with Kafka's names, `requests` the bodies of requests and answers,
`parameters` and `timed_parameters` the parameters of a GET.
"""
