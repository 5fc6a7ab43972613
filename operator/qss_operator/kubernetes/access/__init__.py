"""The tokens and rights between operator, pods and API server.

`audiences` has the token audience that each pod accepts, `tokens` requests the operator's own
tokens, and `pod_access` sends them to the pods of one store. `reviewers` keeps the accounts of
stores in the binding that lets their pods ask for reviews (`review_accounts` has its rules).
"""
