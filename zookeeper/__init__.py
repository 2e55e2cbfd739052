"""The session with ZooKeeper, which brokers of a cluster and consumers of Kafka 0.8 share.

operations   reads and writes as values, which steps yield, and the errors that end steps
security     what a session shows ZooKeeper: TLS, a login, and the ACLs of its znodes
requests     what one session asks, again where an answer was lost
session      one session after another, which run steps; needs kazoo (`odradek[cluster]`)
"""
