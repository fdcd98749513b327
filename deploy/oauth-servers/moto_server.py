"""Runs moto's server (from PyPI) on loopback until it is ended: Amazon Cognito's programs use its token endpoint.

The first line says the port.
"""

import os

import peer


def main():
    options, port = peer.flags(), peer.free_port()
    program = os.path.join(os.path.dirname(options.python), "moto_server")
    peer.run([program, "-H", "127.0.0.1", "-p", str(port)], options.work, port, "/moto-api/")


main()
