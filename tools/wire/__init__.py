"""Raw requests to any broker, as dicts by the names of Kafka's specifications, in the bytes of our own codec."""
