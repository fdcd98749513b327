import CLinux
import Glibc

/// The address of a test socket: loopback or a unix path.
package enum RawEndpoint: Equatable, Sendable, CustomStringConvertible {
    /// 127.0.0.1; port 0 takes any free one.
    case tcp(UInt16)
    /// 127.0.0.N, N from 2 on, for other servers at the same port.
    case loopback(UInt8, UInt16)
    /// ::1; port 0 takes any free one.
    case loopbackV6(UInt16)
    /// A unix socket's path, at most 107 bytes.
    case unix(String)

    /// As in a configuration: `127.0.0.1:4711` or `unix:/path`.
    package var description: String {
        switch self {
        case .tcp(let port): "127.0.0.1:\(port)"
        case .loopback(let number, let port): "127.0.0.\(number):\(port)"
        case .loopbackV6(let port): "[::1]:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// The TCP port; 0 for a unix path.
    package var port: UInt16 {
        switch self {
        case .tcp(let port), .loopback(_, let port), .loopbackV6(let port): port
        case .unix: 0
        }
    }

    /// Reads `127.0.0.1:4711` or `unix:/path`, as in the `listening` event of a binary.
    package init(_ text: String) throws {
        if text.hasPrefix("unix:") {
            self = .unix(String(text.dropFirst(5)))
        } else if let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) {
            self = text.hasPrefix("[") ? .loopbackV6(port) : .tcp(port)
        } else {
            throw TestFailure("no address: \(text)")
        }
    }

    /// Calls `body` with the address as a `sockaddr`.
    func withAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result) rethrows -> Result {
        switch self {
        case .tcp(let port): return try Self.passLoopback(1, port, body)
        case .loopback(let number, let port): return try Self.passLoopback(number, port, body)
        case .loopbackV6(let port):
            var address = sockaddr_in6()
            address.sin6_family = sa_family_t(AF_INET6)
            address.sin6_port = port.bigEndian
            address.sin6_addr = in6addr_loopback
            return try Self.pass(&address, body)
        case .unix(let path):
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
            return try Self.pass(&address, body)
        }
    }

    private static func passLoopback<Result>(
        _ number: UInt8, _ port: UInt16, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result
    ) rethrows -> Result {
        var address = sockaddr_in()
        address.sin_family = sa_family_t(AF_INET)
        address.sin_port = port.bigEndian
        address.sin_addr.s_addr = (0x7f00_0000 + in_addr_t(number)).bigEndian
        return try pass(&address, body)
    }

    private static func pass<Address, Result>(
        _ address: inout Address, _ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result
    ) rethrows -> Result {
        try withUnsafePointer(to: &address) { pointer in
            try pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
                try body($0, socklen_t(MemoryLayout<Address>.size))
            }
        }
    }

    var family: CInt {
        switch self {
        case .tcp, .loopback: AF_INET
        case .loopbackV6: AF_INET6
        case .unix: AF_UNIX
        }
    }
}
