import CLinux
import Glibc

/// An IPv4, IPv6 or unix-domain address, as the socket calls take it.
package struct SocketAddress: Sendable, Equatable {
    private var storage = sockaddr_storage()
    /// In bytes.
    package private(set) var length: socklen_t = 0

    /// A numeric address; nil if `host` is not numeric. A `LoopbackName` is 127.0.0.1. An IPv6 address may have a zone behind a `%`; nil
    /// if there is no such interface.
    package init?(host: String, port: UInt16) {
        let host = LoopbackName.matches(host) ? "127.0.0.1" : host
        var v4 = sockaddr_in()
        if inet_pton(AF_INET, host, &v4.sin_addr) == 1 {
            v4.sin_family = sa_family_t(AF_INET)
            v4.sin_port = port.bigEndian
            set(v4)
            return
        }
        var v6 = sockaddr_in6()
        let parts = host.split(separator: "%", maxSplits: 1, omittingEmptySubsequences: false)
        guard inet_pton(AF_INET6, String(parts[0]), &v6.sin6_addr) == 1 else { return nil }
        if parts.count == 2 {
            let isLinkLocal = withUnsafeBytes(of: v6.sin6_addr) { $0[0] == 0xfe && $0[1] & 0xc0 == 0x80 }
            guard isLinkLocal, let index = NetworkZone.index(of: String(parts[1])) else { return nil }
            v6.sin6_scope_id = index
        }
        v6.sin6_family = sa_family_t(AF_INET6)
        v6.sin6_port = port.bigEndian
        set(v6)
    }

    /// The addresses of a numeric host or of a `LoopbackName`, in the order in which they are tried; empty for any other name.
    package static func known(host: String, port: UInt16) -> [SocketAddress] {
        let hosts = LoopbackName.matches(host) ? LoopbackName.addresses : [host]
        return hosts.compactMap { SocketAddress(host: $0, port: port) }
    }

    /// nil if the path is longer than the kernel accepts (107 bytes) or holds a NUL.
    package init?(path: String) {
        var unix = sockaddr_un()
        let bytes = Array(path.utf8)
        let room = MemoryLayout.size(ofValue: unix.sun_path)
        guard bytes.count < room, !bytes.isEmpty, !bytes.contains(0) else { return nil }
        unix.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &unix.sun_path) { $0.copyBytes(from: bytes) }
        set(unix)
    }

    /// A unix address without a file (unix(7)); nil if the name is empty or longer than the kernel accepts.
    package init?(abstractName name: String) {
        var unix = sockaddr_un()
        let bytes = Array(name.utf8)
        guard !bytes.isEmpty, bytes.count < MemoryLayout.size(ofValue: unix.sun_path) else { return nil }
        unix.sun_family = sa_family_t(AF_UNIX)
        withUnsafeMutableBytes(of: &unix.sun_path) { room in
            UnsafeMutableRawBufferPointer(rebasing: room.dropFirst()).copyBytes(from: bytes)
        }
        set(unix)
        // The name has no end of its own: bytes behind it would belong to it.
        let offset = MemoryLayout<sockaddr_un>.offset(of: \sockaddr_un.sun_path) ?? 0
        length = socklen_t(offset + 1 + bytes.count)
    }

    /// What a call such as `getsockname` fills in.
    package init?(
        filledBy fill: (UnsafeMutablePointer<sockaddr>, UnsafeMutablePointer<socklen_t>) -> Bool
    ) {
        var size = socklen_t(MemoryLayout<sockaddr_storage>.size)
        let filled = withUnsafeMutableBytes(of: &storage) { raw in
            fill(raw.baseAddress!.assumingMemoryBound(to: sockaddr.self), &size)
        }
        guard filled else { return nil }
        length = size
    }

    private mutating func set<Address>(_ address: Address) {
        withUnsafeMutableBytes(of: &storage) { room in withUnsafeBytes(of: address) { room.copyMemory(from: $0) } }
        length = socklen_t(MemoryLayout<Address>.size)
    }

    /// Lends the address to a socket call.
    package func withPointer<R>(_ body: (UnsafePointer<sockaddr>, socklen_t) -> R) -> R {
        withUnsafeBytes(of: storage) { body($0.baseAddress!.assumingMemoryBound(to: sockaddr.self), length) }
    }

    /// AF_INET, AF_INET6 or AF_UNIX.
    package var family: CInt { CInt(storage.ss_family) }

    /// The port, or 0 for a unix address.
    package var port: UInt16 {
        switch family {
        case AF_INET: read(sockaddr_in.self).sin_port.bigEndian
        case AF_INET6: read(sockaddr_in6.self).sin6_port.bigEndian
        default: 0
        }
    }

    /// The same address with another port.
    package func with(port: UInt16) -> SocketAddress {
        var copy = self
        switch family {
        case AF_INET:
            var v4 = read(sockaddr_in.self)
            v4.sin_port = port.bigEndian
            copy.set(v4)
        case AF_INET6:
            var v6 = read(sockaddr_in6.self)
            v6.sin6_port = port.bigEndian
            copy.set(v6)
        default: break
        }
        return copy
    }

    /// 127.0.0.0/8, ::1, or a unix address.
    package var isLoopback: Bool {
        switch family {
        case AF_INET: UInt32(bigEndian: read(sockaddr_in.self).sin_addr.s_addr) >> 24 == 127
        case AF_INET6:
            octets.dropLast().allSatisfy { $0 == 0 } && octets.last == 1 || mappedV4.map { $0[0] == 127 } ?? false
        default: family == AF_UNIX
        }
    }

    /// Where clouds have their metadata services, which give credentials to every process that asks: the link-local ranges
    /// 169.254.0.0/16 and fe80::/10, and the fixed addresses outside them.
    package var isMetadataService: Bool {
        let octets = mappedV4 ?? octets
        let isLinkLocal =
            switch octets.count {
            case 4: octets[0] == 169 && octets[1] == 254
            case 16: octets[0] == 0xfe && octets[1] & 0xc0 == 0x80
            default: false
            }
        return isLinkLocal || Self.metadataServices.contains(octets)
    }

    /// Outside the link-local ranges: Alibaba 100.100.100.200, Azure 168.63.129.16, Amazon fd00:ec2::254, Google fd20:ce::254.
    private static let metadataServices: [[UInt8]] = [
        [100, 100, 100, 200], [168, 63, 129, 16],
        [0xfd, 0x00, 0x0e, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54],
        [0xfd, 0x20, 0x00, 0xce, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x02, 0x54],
    ]

    /// 0.0.0.0 or ::.
    package var isWildcard: Bool { family != AF_UNIX && (mappedV4 ?? octets).allSatisfy { $0 == 0 } }

    /// The IPv4 address inside `::ffff:a.b.c.d`, in dotted form; nil for any other address.
    package var mappedV4Host: String? { mappedV4?.map(String.init).joined(separator: ".") }

    /// The address bytes, in network order; empty for a unix address.
    private var octets: [UInt8] {
        switch family {
        case AF_INET: withUnsafeBytes(of: read(sockaddr_in.self).sin_addr) { Array($0) }
        case AF_INET6: withUnsafeBytes(of: read(sockaddr_in6.self).sin6_addr) { Array($0) }
        default: []
        }
    }

    /// The IPv4 address inside `::ffff:a.b.c.d`.
    private var mappedV4: [UInt8]? {
        let bytes = octets
        guard bytes.count == 16, bytes[0..<10].allSatisfy({ $0 == 0 }), bytes[10] == 0xff, bytes[11] == 0xff else {
            return nil
        }
        return Array(bytes[12...])
    }

    /// The address without port: `127.0.0.1`, `::1`; empty for a unix address.
    package var host: String {
        guard family == AF_INET || family == AF_INET6 else { return "" }
        return withUnsafeTemporaryAllocation(of: CChar.self, capacity: 64) { text in
            return octets.withUnsafeBytes { bytes in
                guard inet_ntop(family, bytes.baseAddress!, text.baseAddress!, socklen_t(text.count)) != nil else {
                    return ""
                }
                return String(cString: text.baseAddress!)
            }
        }
    }

    /// The same with the zone of an IPv6 address that has one: `fe80::1%eth0`.
    package var zonedHost: String {
        guard family == AF_INET6 else { return host }
        let index = read(sockaddr_in6.self).sin6_scope_id
        return index == 0 ? host : "\(host)%\(NetworkZone.name(of: index) ?? "\(index)")"
    }

    /// fe80::/10: such an address is valid in a zone only.
    package var isLinkLocalV6: Bool {
        let octets = octets
        return octets.count == 16 && octets[0] == 0xfe && octets[1] & 0xc0 == 0x80
    }

    /// The path of a unix address, else empty.
    package var path: String {
        guard family == AF_UNIX else { return "" }
        let unix = read(sockaddr_un.self)
        return withUnsafeBytes(of: unix.sun_path) { String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self) }
    }

    private func read<Address>(_ type: Address.Type) -> Address {
        withUnsafeBytes(of: storage) { $0.load(as: type) }
    }

    /// Same family, address and port.
    package static func == (left: SocketAddress, right: SocketAddress) -> Bool {
        guard left.length == right.length else { return false }
        return withUnsafeBytes(of: left.storage) { a in
            withUnsafeBytes(of: right.storage) { b in
                a.prefix(Int(left.length)).elementsEqual(b.prefix(Int(left.length)))
            }
        }
    }
}

extension SocketAddress: CustomStringConvertible {
    /// `10.0.0.5:443`, `[::1]:443` or `unix:/path`.
    package var description: String {
        guard family != AF_UNIX else {
            let path = withPointer { address, length in
                let offset = MemoryLayout<sockaddr_un>.offset(of: \sockaddr_un.sun_path) ?? 0
                let bytes = UnsafeRawBufferPointer(start: address, count: Int(length)).dropFirst(offset)
                return String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
            }
            return "unix:\(path)"
        }
        return host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]:\(port)" : "\(host):\(port)"
    }
}
