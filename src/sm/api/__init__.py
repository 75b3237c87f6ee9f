"""The HTTP API: its route table, the models of bodies and answers, and the sockets that serve it."""
