"""The last hour of a cluster, sampled by the console: rates, sizes and lag, in memory and bounded."""
