"""Security: who a client is, and what proves it: principals, TLS, SASL and the credentials of users."""
