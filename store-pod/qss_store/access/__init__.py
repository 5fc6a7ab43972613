"""Who may call this pod: tokens and rights, as the API server's reviews tell them."""
