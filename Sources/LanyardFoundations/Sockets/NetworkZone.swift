import Glibc

/// The zone of an IPv6 link-local address: the network interface of this machine at which the address is valid (RFC 4007 section 11).
///
/// It means something on this machine alone. So it is in no URL, `Host` field, server name or certificate.
package enum NetworkZone {
    /// Bytes of an interface's name without the NUL behind it (IFNAMSIZ).
    private static let bytesMax = 15

    /// The address and the zone of `[fe80::1%25eth0]` (RFC 6874), also written `[fe80::1%eth0]`; nil: there is no zone.
    ///
    /// - Parameter bracketed: an address in brackets.
    package static func cut(_ bracketed: String) -> (address: String, zone: String)? {
        guard bracketed.hasPrefix("["), bracketed.hasSuffix("]"), let percent = bracketed.firstIndex(of: "%") else {
            return nil
        }
        var zone = bracketed[percent...].dropFirst().dropLast()
        if zone.hasPrefix("25"), zone.count > 2 { zone = zone.dropFirst(2) }
        return (bracketed[..<percent] + "]", String(zone))
    }

    /// Whether `zone` can be the name or the number of an interface: the unreserved characters of a URL.
    package static func isValid(_ zone: String) -> Bool {
        (1...bytesMax).contains(zone.utf8.count)
            && zone.utf8.allSatisfy { byte in
                (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
                    || "-._~".utf8.contains(byte)
            }
    }

    /// The index of the interface now; nil: there is none of this name or number. Makes system calls, and waits for nothing.
    package static func index(of zone: String) -> UInt32? {
        let named = if_nametoindex(zone)
        if named != 0 { return named }
        guard let number = UInt32(zone), number > 0, name(of: number) != nil else { return nil }
        return number
    }

    /// The name of an interface; nil: there is none of this index.
    package static func name(of index: UInt32) -> String? {
        withUnsafeTemporaryAllocation(of: CChar.self, capacity: bytesMax + 1) { room in
            if_indextoname(index, room.baseAddress!).map { String(cString: $0) }
        }
    }
}
