"""Raw requests to any broker, from Kafka's own specifications, sharing no code with odradek."""
