"""A server that forks before it accepts, and a client of it: each connection sends data there and back.

Arguments: certificate, key, then for each connection a version of TLS and its ciphers (none: any)."""

import os
import socket
import ssl
import sys

certificate, key, *connections = sys.argv[1:]
pairs = list(zip(connections[::2], connections[1::2]))
data = os.urandom(300_000)

server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
server.load_cert_chain(certificate, key)
listener = socket.create_server(("127.0.0.1", 0))

children = []
for _ in pairs:
    child = os.fork()
    if child == 0:
        accepted, _ = listener.accept()
        with server.wrap_socket(accepted, server_side=True) as tls:
            received = b""
            while len(received) < len(data):
                received += tls.recv(1 << 16)
            tls.sendall(received)
            tls.recv(1)
        os._exit(0)
    children.append(child)

for version, ciphers in pairs:
    client = ssl.create_default_context(cafile=certificate)
    client.check_hostname = False
    client.minimum_version = client.maximum_version = ssl.TLSVersion[version]
    if ciphers:
        client.set_ciphers(ciphers)
    with client.wrap_socket(socket.create_connection(listener.getsockname())) as tls:
        tls.sendall(data)
        received = b""
        while len(received) < len(data):
            received += tls.recv(1 << 16)
        assert received == data
        print(version, tls.cipher()[0])

for child in children:
    assert os.waitpid(child, 0)[1] == 0
