#!/usr/bin/env python3
"""Times puts into MinIO over the links that `tabane-papers parity` makes, for a table beside it.

    sudo contrib/cluster-peers/minio.py --minio PATH --nodes 6 --clients 1 --clients 3

Each node is a MinIO server in a network namespace of its own with one drive in memory, and any two
may be lost (EC:2). Each client puts objects of 8 MiB over several connections, each time to the
next node, so that no node has to pass on more than the others. Prints the sum over all clients in
Mbit/s, of objects whose puts were answered.
"""

import argparse
import ctypes
import datetime
import hashlib
import hmac
import http.client
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time

USER, SECRET, BUCKET, PORT = "tabane", "tabane-secret", "objects", 9000
PREFIX = f"tm{os.getpid()}"
CLONE_NEWNET = 0x40000000


def run(*words):
    subprocess.run(words, check=True)


def address(member):
    return f"10.78.0.{member + 1}"


def make_network(members, rate):
    hub = f"{PREFIX}-hub"
    run("ip", "netns", "add", hub)
    run("ip", "-n", hub, "link", "add", "bridge", "type", "bridge")
    run("ip", "-n", hub, "link", "set", "bridge", "up")
    for member in range(members):
        name, port = f"{PREFIX}-{member}", f"port{member}"
        run("ip", "netns", "add", name)
        run("ip", "-n", hub, "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
        run("ip", "-n", hub, "link", "set", port, "master", "bridge", "up")
        run("ip", "-n", name, "addr", "add", f"{address(member)}/16", "dev", "eth0")
        run("ip", "-n", name, "link", "set", "eth0", "up")
        run("ip", "-n", name, "link", "set", "lo", "up")
        for space, device in ((hub, port), (name, "eth0")):
            run("tc", "-n", space, "qdisc", "add", "dev", device, "root", "tbf", "rate", f"{rate}mbit",
                "burst", "128kb", "latency", "30ms")


def remove_network(members):
    for name in [f"{PREFIX}-{member}" for member in range(members)] + [f"{PREFIX}-hub"]:
        subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL)


def headers(method, host, path):
    """Of a request that is signed, but for its body (AWS Signature Version 4)."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%Y%m%dT%H%M%SZ")
    day, scope = now[:8], f"{now[:8]}/us-east-1/s3/aws4_request"
    signed = {"host": host, "x-amz-content-sha256": "UNSIGNED-PAYLOAD", "x-amz-date": now}
    names = ";".join(signed)
    lines = "".join(f"{name}:{value}\n" for name, value in signed.items())
    canonical = f"{method}\n{path}\n\n{lines}\n{names}\nUNSIGNED-PAYLOAD"
    text = f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{SECRET}".encode()
    for part in (day, "us-east-1", "s3", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.digest(key, text.encode(), "sha256").hex()
    signed["authorization"] = (f"AWS4-HMAC-SHA256 Credential={USER}/{scope}, SignedHeaders={names}, "
                               f"Signature={signature}")
    return signed


def request(connection, host, method, path, body=b""):
    connection.request(method, path, body=body, headers=headers(method, host, path))
    answer = connection.getresponse()
    text = answer.read()
    if answer.status not in (200, 409):
        sys.exit(f"{method} {path}: {answer.status} {text[:300]}")


def put_all(number, nodes, connections, length, until, done):
    """One client, which is in its namespace: puts objects until it is time."""
    body, lock, counts = os.urandom(length), threading.Lock(), [0] * connections

    def put(place):
        open_ones = {}
        count = 0
        while time.monotonic() < until:
            node = (number + place + count) % nodes
            host = f"{address(node)}:{PORT}"
            connection = open_ones.setdefault(node, http.client.HTTPConnection(host, timeout=60))
            count += 1
            try:
                request(connection, host, "PUT", f"/{BUCKET}/{number}-{place}-{count}", body)
            except (OSError, http.client.HTTPException):
                # A node that has enough to do closes the connection.
                open_ones.pop(node).close()
                continue
            if time.monotonic() < until:
                with lock:
                    counts[place] += 1

    threads = [threading.Thread(target=put, args=(place,)) for place in range(connections)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    done.put(sum(counts) * length)


def enter(member):
    with open(f"/run/netns/{PREFIX}-{member}") as space:
        if ctypes.CDLL(None, use_errno=True).setns(space.fileno(), CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")


def client(member, *arguments):
    enter(member)
    put_all(*arguments)


def measure(nodes, clients, options):
    work = os.path.join(options.work, PREFIX)
    drives = [os.path.join(work, str(node)) for node in range(nodes)]
    endpoints = [f"http://{address(node)}:{PORT}{drive}" for node, drive in enumerate(drives)]
    environment = dict(os.environ, MINIO_ROOT_USER=USER, MINIO_ROOT_PASSWORD=SECRET,
                       MINIO_STORAGE_CLASS_STANDARD="EC:2", MINIO_BROWSER="off", MINIO_UPDATE="off", HOME=work)
    servers = []
    try:
        make_network(nodes + clients, options.rate)
        for node, drive in enumerate(drives):
            os.makedirs(drive)
            log = open(f"{drive}.log", "w")
            servers.append(subprocess.Popen(
                ["ip", "netns", "exec", f"{PREFIX}-{node}", options.minio, "server", "--address",
                 f"{address(node)}:{PORT}", *endpoints], env=environment, stdout=log, stderr=log))
        maker = multiprocessing.Process(target=make_bucket, args=(nodes,))
        maker.start()
        maker.join()
        if maker.exitcode != 0:
            sys.exit("MinIO does not start: see the logs in " + work)
        done = multiprocessing.Queue()
        until = time.monotonic() + options.seconds
        workers = [multiprocessing.Process(target=client, args=(
            nodes + number, number, nodes, options.connections, options.object << 20, until, done))
            for number in range(clients)]
        for worker in workers:
            worker.start()
        total = sum(done.get() for _ in workers)
        for worker in workers:
            worker.join()
        print(f"n={nodes} C={clients}: {total * 8 / options.seconds / 1e6:.0f} Mbit/s", flush=True)
    finally:
        for server in servers:
            server.terminate()
        for server in servers:
            server.wait()
        remove_network(nodes + clients)
        shutil.rmtree(work, ignore_errors=True)


def make_bucket(nodes):
    """Waits until every node takes objects."""
    enter(0)
    for node in range(nodes):
        host = f"{address(node)}:{PORT}"
        paths = [f"/{BUCKET}", f"/{BUCKET}/first-{node}"]
        for _ in range(120):
            try:
                for path in paths:
                    request(http.client.HTTPConnection(host, timeout=10), host, "PUT", path)
                break
            except (OSError, SystemExit, http.client.HTTPException):
                time.sleep(0.5)
        else:
            sys.exit(1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--minio", default="minio", help="the program")
    parser.add_argument("--nodes", type=int, action="append", required=True)
    parser.add_argument("--clients", type=int, action="append", required=True)
    parser.add_argument("--rate", type=int, default=500, help="Mbit/s of each link, each way")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--object", type=int, default=8, help="MiB")
    parser.add_argument("--connections", type=int, default=4, help="of each client")
    parser.add_argument("--work", default="/dev/shm")
    options = parser.parse_args()
    for nodes in options.nodes:
        for clients in options.clients:
            measure(nodes, clients, options)


if __name__ == "__main__":
    main()
