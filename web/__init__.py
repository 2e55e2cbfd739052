"""HTTP/1.1 for the wings that serve it: a connection by h11, the values of a request and a response, and a listener."""
