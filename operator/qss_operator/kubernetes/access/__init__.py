"""Who may call whom: `audiences` says which token audience each pod takes, `tokens` asks for the
operator's own tokens, `pod_access` shows them to the pods of one store, and `reviewers` keeps
the accounts of stores in the binding that lets their pods ask for reviews (`review_accounts`
has its rules).
"""
