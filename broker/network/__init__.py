"""The network: connections and their limits, the table of routes, requests in and responses out."""
