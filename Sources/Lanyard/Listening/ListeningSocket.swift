import CLanyard.Linux
import Glibc

/// A socket that listens, and the address it was bound to. Closed, and a unix path removed, when the last user lets go.
package final class ListeningSocket: Sendable {
    /// Connections that the kernel holds for us (http-requirements 20.4).
    static let backlog: CInt = 1024

    private let descriptor: OwnedDescriptor
    /// What was really bound: the kernel's port where 0 was asked for.
    package let address: ListenerSettings.Address
    /// As the request path's default Host allow-list needs it; nil for a unix socket.
    package let port: UInt16?
    private let unlinks: String?

    /// Binds and listens. No thread, no event yet.
    ///
    /// A unix path with a socket that nobody answers on is replaced; one that answers, or anything that is no socket, is left alone.
    /// - Throws: `.configuration` `.system(errno)` naming the address: exit 69. `EEXIST` is a unix path where something else stands.
    package init(_ settings: ListenerSettings) throws(Fault) {
        switch settings.address {
        case .tcp(let host, let port):
            guard let wanted = SocketAddress(host: host, port: port) else {
                throw Fault(.configuration, .malformed, "binding \(settings.address): not a numeric address")
            }
            descriptor = try Self.open(wanted, "binding \(settings.address)")
            let raw = descriptor.raw
            let bound = SocketAddress { getsockname(raw, $0, $1) == 0 } ?? wanted
            address = .tcp(host: bound.host, port: bound.port)
            self.port = bound.port
            unlinks = nil
        case .unix(let path):
            guard let wanted = SocketAddress(path: path) else {
                throw Fault(
                    .configuration, .tooLarge, "binding unix:\(path): the path is empty or longer than 107 bytes")
            }
            try Self.clearStale(path, wanted)
            descriptor = try Self.open(wanted, "binding unix:\(path)", mode: settings.socketMode)
            address = settings.address
            port = nil
            unlinks = path
        }
    }

    deinit { if let unlinks { unlink(unlinks) } }

    /// The descriptor, lent.
    package var raw: CInt { descriptor.raw }

    private static func open(
        _ address: SocketAddress, _ doing: String, mode: UInt16? = nil
    ) throws(Fault) -> OwnedDescriptor {
        let kind = CInt(SOCK_STREAM.rawValue) | CInt(SOCK_NONBLOCK.rawValue) | CInt(SOCK_CLOEXEC.rawValue)
        let raw = socket(address.family, kind, 0)
        guard raw >= 0 else { throw Fault(.configuration, .system(errno), doing) }
        let owned = OwnedDescriptor(taking: raw)
        var one: CInt = 1
        if address.family != AF_UNIX {
            setsockopt(raw, SOL_SOCKET, SO_REUSEADDR, &one, socklen_t(MemoryLayout<CInt>.size))
            Socket.limitUnsent(raw)
        }
        // Nobody connects between bind and chmod with a wider mode than configured: a listening socket comes after both.
        guard address.withPointer({ bind(raw, $0, $1) }) == 0 else {
            throw Fault(.configuration, .system(errno), doing)
        }
        let path = address.path
        guard mode.map({ chmod(path, mode_t($0)) == 0 }) ?? true, listen(raw, backlog) == 0 else {
            let code = errno
            if !path.isEmpty { unlink(path) }
            throw Fault(.configuration, .system(code), doing)
        }
        return owned
    }

    /// Removes a socket that a process left behind: one that refuses connections.
    private static func clearStale(_ path: String, _ address: SocketAddress) throws(Fault) {
        var status = stat()
        guard lstat(path, &status) == 0 else { return }
        guard status.st_mode & S_IFMT == S_IFSOCK else {
            throw Fault(.configuration, .system(EEXIST), "binding unix:\(path)")
        }
        let raw = socket(AF_UNIX, CInt(SOCK_STREAM.rawValue) | CInt(SOCK_CLOEXEC.rawValue), 0)
        guard raw >= 0 else { throw Fault(.configuration, .system(errno), "binding unix:\(path)") }
        let probe = OwnedDescriptor(taking: raw)
        let answered = address.withPointer { connect(probe.raw, $0, $1) } == 0
        let code = answered ? EADDRINUSE : errno
        if code == ECONNREFUSED {
            unlink(path)
        } else if code != ENOENT {
            throw Fault(.configuration, .system(code), "binding unix:\(path)")
        }
    }
}
