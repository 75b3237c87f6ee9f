"""Connects stdin and stdout with the socket of `pump_host`: `python pump_connector.py SOCKET`."""

import os
import socket
import sys
import threading


def copy_answers(connection: socket.socket) -> None:
    while answer := connection.recv(65536):
        os.write(1, answer)
    os._exit(0)


if __name__ == "__main__":
    with socket.socket(socket.AF_UNIX) as pump:
        pump.connect(sys.argv[1])
        threading.Thread(target=copy_answers, args=(pump,), daemon=True).start()
        while piece := os.read(0, 65536):
            pump.sendall(piece)
