import CLinux
import Glibc

/// The process at the other end of a unix socket, as the kernel recorded it at connect (unix(7): SO_PEERCRED).
package struct PeerCredentials: Equatable, Sendable {
    /// nil: a TCP client. The kernel reports no credentials for it.
    package var uid: UInt32?
    /// The effective group. `groups(of:)` has the supplementary ones.
    package var gid: UInt32?
    package var pid: Int32?

    package init(uid: UInt32? = nil, gid: UInt32? = nil, pid: Int32? = nil) {
        self.uid = uid
        self.gid = gid
        self.pid = pid
    }

    /// The peer of a connected unix socket.
    package init(of descriptor: CInt) {
        var (uid, gid, pid): (UInt32, UInt32, Int32) = (0, 0, 0)
        guard lanyard_peer_credentials(descriptor, &uid, &gid, &pid) == 0 else { return }
        (self.uid, self.gid, self.pid) = (uid, gid, pid)
    }

    /// Whether the peer is root or the user id that Lanyard runs as.
    package func isTrusted(by ownUID: UInt32) -> Bool { uid == 0 || uid == ownUID }

    /// The supplementary groups of the peer of a connected unix socket, as the kernel recorded them at connect (SO_PEERGROUPS). Empty if
    /// the kernel does not report them: who is listed by such a group alone is then refused.
    package static func groups(of descriptor: CInt) -> [UInt32] {
        // NGROUPS_MAX of Linux is 65536. A process with more groups than this is refused, too.
        let capacity = 4096
        return [UInt32](unsafeUninitializedCapacity: capacity) { room, count in
            var length = socklen_t(capacity * MemoryLayout<UInt32>.size)
            let result = getsockopt(descriptor, SOL_SOCKET, SO_PEERGROUPS, room.baseAddress, &length)
            count = result == 0 ? Int(length) / MemoryLayout<UInt32>.size : 0
        }
    }
}
