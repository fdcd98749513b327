import CLanyard.Linux
import Glibc

/// Who is at the other end of an operator connection, as the kernel knows it at the time of the connect (unix(7): SO_PEERCRED).
package struct PeerCredentials: Equatable, Sendable {
    /// nil: a TCP client, of whom the kernel says nothing.
    package var uid: UInt32?
    package var pid: Int32?

    package init(uid: UInt32? = nil, pid: Int32? = nil) {
        self.uid = uid
        self.pid = pid
    }

    /// The peer of a connected unix socket.
    init(of descriptor: CInt) {
        var (uid, gid, pid): (UInt32, UInt32, Int32) = (0, 0, 0)
        guard lanyard_peer_credentials(descriptor, &uid, &gid, &pid) == 0 else { return }
        (self.uid, self.pid) = (uid, pid)
    }

    /// Root, and whoever Lanyard runs as: anybody else's call is refused.
    func isTrusted(by ownUID: UInt32) -> Bool { uid == 0 || uid == ownUID }
}
