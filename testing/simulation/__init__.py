"""The simulation: brokers, clients, their disks, wires, threads and clocks in one thread, by a seed."""
