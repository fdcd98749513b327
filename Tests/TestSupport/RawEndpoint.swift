import Glibc

/// Where a socket of the tests connects or listens: loopback or a unix path, nothing else.
package enum RawEndpoint: Equatable, Sendable, CustomStringConvertible {
    /// 127.0.0.1; port 0 takes any free one.
    case tcp(UInt16)
    /// A unix socket's path, at most 107 bytes.
    case unix(String)

    /// As a configuration writes it: `127.0.0.1:4711` or `unix:/path`.
    package var description: String {
        switch self {
        case .tcp(let port): "127.0.0.1:\(port)"
        case .unix(let path): "unix:\(path)"
        }
    }

    /// The TCP port; 0 for a unix path.
    package var port: UInt16 { if case .tcp(let port) = self { port } else { 0 } }

    /// Reads `127.0.0.1:4711` or `unix:/path`, as the `listening` event of a binary says it.
    package init(_ text: String) throws {
        if text.hasPrefix("unix:") {
            self = .unix(String(text.dropFirst(5)))
        } else if let colon = text.lastIndex(of: ":"), let port = UInt16(text[text.index(after: colon)...]) {
            self = .tcp(port)
        } else {
            throw TestFailure("no address: \(text)")
        }
    }

    /// Calls `body` with the address as the kernel takes it.
    func withAddress<Result>(_ body: (UnsafePointer<sockaddr>, socklen_t) throws -> Result) rethrows -> Result {
        switch self {
        case .tcp(let port):
            var address = sockaddr_in()
            address.sin_family = sa_family_t(AF_INET)
            address.sin_port = port.bigEndian
            address.sin_addr.s_addr = in_addr_t(0x7f00_0001).bigEndian
            return try Self.pass(&address, body)
        case .unix(let path):
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            withUnsafeMutableBytes(of: &address.sun_path) { $0.copyBytes(from: path.utf8.prefix(107)) }
            return try Self.pass(&address, body)
        }
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

    var family: CInt { if case .tcp = self { AF_INET } else { AF_UNIX } }
}
