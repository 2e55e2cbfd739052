"""A node as a member of a cluster: its session with ZooKeeper, its registration, and the controller."""
