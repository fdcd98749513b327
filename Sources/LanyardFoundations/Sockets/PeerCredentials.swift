import CLinux
import Glibc

/// The process at the other end of a unix socket, as the kernel recorded it at connect (unix(7): SO_PEERCRED).
package struct PeerCredentials: Equatable, Sendable {
    /// nil: a TCP client. The kernel reports no credentials for it.
    package var uid: UInt32?
    package var pid: Int32?

    package init(uid: UInt32? = nil, pid: Int32? = nil) {
        self.uid = uid
        self.pid = pid
    }

    /// The peer of a connected unix socket.
    package init(of descriptor: CInt) {
        var (uid, gid, pid): (UInt32, UInt32, Int32) = (0, 0, 0)
        guard lanyard_peer_credentials(descriptor, &uid, &gid, &pid) == 0 else { return }
        (self.uid, self.pid) = (uid, pid)
    }

    /// Whether the peer is root or the user id that Lanyard runs as.
    package func isTrusted(by ownUID: UInt32) -> Bool { uid == 0 || uid == ownUID }
}
