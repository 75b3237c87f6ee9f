"""The HTTP API: its route table, the models of bodies, and the sockets that serve it."""
