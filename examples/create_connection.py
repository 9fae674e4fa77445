"""Open a socket that does not hang on a dead backend: `socket.create_connection`'s own signature.

The address may be a name with several addresses, or one VIP with several backends behind it: it is
dialled again, from another port, while the first dial is still unanswered.

Run `python examples/create_connection.py`, or with a host and a port of your own as arguments.
"""

from __future__ import annotations

import sys

from local_pods import two_pods

import outlast


def main(host: str, port: int) -> None:
    """Was: socket.create_connection((host, port), timeout=5)."""
    with outlast.create_connection((host, port), timeout=5) as sock:
        print("connected:", sock.getsockname(), "to", sock.getpeername())
        sock.sendall(b"GET / HTTP/1.0\r\n\r\n")
        print("answered: ", sock.recv(1024).partition(b"\r\n")[0].decode())


if __name__ == "__main__":
    if len(sys.argv) > 2:
        main(sys.argv[1], int(sys.argv[2]))
    else:
        with two_pods() as (pod, _):
            main("127.0.0.1", int(pod.address.rpartition(":")[2]))
