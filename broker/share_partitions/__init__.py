"""Share groups at the leader: which records of a partition are with which member, and the sessions of the members."""
