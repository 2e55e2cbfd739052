"""The whole cluster under load and faults, in a simulated world by seed, and the judge of what it did."""
