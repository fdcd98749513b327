"""Runs ruby-doorkeeper (Debian's package) on loopback until it is ended: password logins, refresh tokens that rotate.

The first line says the port. The client is lanyard with the secret s3cret, the user alice with the password wonderland.
"""

import os

import peer


def main():
    options, port = peer.flags(), peer.free_port()
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "doorkeeper.rb")
    peer.run(["/usr/bin/ruby", program, options.work, str(port), str(options.lifetime)], options.work, port, "/resource")


main()
