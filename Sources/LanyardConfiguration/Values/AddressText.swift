import Glibc
import LanyardFoundations
import LanyardSettings

/// Reads host names, address literals and listener addresses. Names are not resolved.
package enum AddressText {
    /// The range of clients that can reach an address or name.
    package enum Reach: Equatable, Sendable {
        case loopback
        /// Link-local, or another fixed address of a metadata service.
        case linkLocal
        /// `0.0.0.0`, `::`: every address of the machine.
        case wildcard
        case elsewhere
        /// A name. Its addresses are not known here.
        case name
    }

    /// What `host` (v6 without brackets) reaches. A `LoopbackName` counts as loopback.
    package static func reach(_ host: String) -> Reach {
        let host = String(host.prefix { $0 != "%" })
        guard let address = literal(host) else { return LoopbackName.matches(host) ? .loopback : .name }
        if address.isLoopback { return .loopback }
        if address.isMetadataService { return .linkLocal }
        return address.isWildcard ? .wildcard : .elsewhere
    }

    /// A host and what stands with it.
    package struct HostAndPort: Equatable, Sendable {
        /// In canonical form (`CanonicalHost`), v6 without brackets.
        package var host: String
        package var port: UInt16?
        /// The name ends with the dot of the root: it is looked up as it is.
        package var isFullyQualified = false
        /// Of a link-local address: a network interface of this machine.
        package var zone: String?
    }

    /// `host`, `host:port`, `[v6]` or `[v6]:port`.
    ///
    /// - Parameter takesZone: an IPv6 address may have a zone that `zoneError` accepts.
    package static func hostAndPort(_ text: String, takesZone: Bool = false) -> HostAndPort? {
        if text.hasPrefix("[") {
            guard let end = text.firstIndex(of: "]") else { return nil }
            let literal = String(text[...end])
            let cut = takesZone ? NetworkZone.cut(literal) : nil
            guard let host = CanonicalHost(cut?.address ?? literal) else { return nil }
            var found = HostAndPort(host: host.text, zone: cut?.zone)
            let rest = text[text.index(after: end)...]
            if rest.isEmpty { return found }
            guard rest.hasPrefix(":"), let port = port(rest.dropFirst()) else { return nil }
            found.port = port
            return found
        }
        let parts = text.split(separator: ":", maxSplits: 1, omittingEmptySubsequences: false)
        guard let first = parts.first, let host = CanonicalHost(String(first)), isHostName(host.text) else {
            return nil
        }
        var found = HostAndPort(host: host.text, isFullyQualified: first.hasSuffix("."))
        guard parts.count == 2 else { return found }
        guard let port = port(parts[1]) else { return nil }
        found.port = port
        return found
    }

    /// What is wrong with the zone of an IPv6 address; nil: nothing is, or there is none.
    ///
    /// - Parameters:
    ///   - text: begins with the address.
    ///   - isAllowed: false: Lanyard makes no connection to a link-local address here.
    static func zoneError(in text: some StringProtocol, isAllowed: Bool) -> ConfigurationValue.ValueError? {
        guard text.hasPrefix("["), let end = text.firstIndex(of: "]"), let cut = NetworkZone.cut(String(text[...end])),
            let host = CanonicalHost(cut.address)
        else { return nil }
        let shown = ConfigurationText.quoted(String(text[...end]))
        guard isAllowed else {
            return .init(
                "\(shown) has a zone, so it is a link-local address, and no identity call goes to one",
                remedy: "name the identity service, or write an address that is valid in every network")
        }
        guard NetworkZone.isValid(cut.zone) else {
            return .init(
                "\(shown) has a zone that is no network interface",
                remedy: "write the name of the interface behind %25, such as [\(host.text)%25eth0]")
        }
        guard literal(host.text)?.isLinkLocalV6 == true else {
            return .init(
                "\(shown) has a zone, which only a link-local address (fe80::/10) has",
                remedy: "write [\(host.text)]")
        }
        return nil
    }

    /// A link-local IPv6 address without its zone: the kernel neither binds nor dials one.
    ///
    /// - Parameter text: what is shown.
    static func missingZone(of host: String, in text: String) -> ConfigurationValue.ValueError? {
        guard literal(host)?.isLinkLocalV6 == true else { return nil }
        return .init(
            "\(ConfigurationText.quoted(text)) is valid at one network interface only, and none is named",
            remedy: "write its name behind the address, such as [\(host)%25eth0]")
    }

    /// The same for a list of hosts, in which an IPv6 address needs no brackets, unless its last group could be a port.
    package static func listedHost(_ text: String) -> HostAndPort? {
        guard !text.hasPrefix("["), let colon = text.lastIndex(of: ":"), colon != text.firstIndex(of: ":"),
            let host = CanonicalHost(text), CanonicalHost(String(text[..<colon])) == nil
        else { return hostAndPort(text) }
        return HostAndPort(host: host.text)
    }

    /// Whether `text` is a v4 literal, or labels of letters, digits, `-` and `_`, 253 bytes at most.
    ///
    /// A last label of digits only is refused: some readers take it as an old form of an address (`127.1`), others as a name.
    private static func isHostName(_ text: String) -> Bool {
        if literal(text)?.family == AF_INET { return true }
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        guard text.utf8.count <= 253, let last = labels.last else { return false }
        let plain = labels.allSatisfy { label in
            (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.utf8.allSatisfy { isLetterOrDigit($0) || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_") }
        }
        let numeric = last.utf8.allSatisfy { (48...57).contains($0) } || last.lowercased().hasPrefix("0x")
        return plain && !numeric
    }

    /// Host and port as in a `Host` field: v6 in brackets.
    package static func authority(host: String, port: UInt16?) -> String {
        let shown = host.utf8.contains(UInt8(ascii: ":")) ? "[\(host)]" : host
        return port.map { "\(shown):\($0)" } ?? shown
    }

    /// A port, `0 ... 65535`, in digits without a leading zero.
    package static func port(_ text: some StringProtocol) -> UInt16? {
        guard (1...5).contains(text.utf8.count), text.utf8.allSatisfy({ (48...57).contains($0) }),
            text == "0" || text.first != "0"
        else { return nil }
        return UInt16(text)
    }

    /// What is wrong with the port at the end of an address, if only that is wrong: digits that are no port.
    ///
    /// - Parameter lowest: 1, or 0 where the kernel may choose.
    static func portError(in text: some StringProtocol, lowest: Int) -> ConfigurationValue.ValueError? {
        guard let colon = text.lastIndex(of: ":") else { return nil }
        let digits = text[text.index(after: colon)...]
        guard !digits.isEmpty, digits.utf8.allSatisfy({ (48...57).contains($0) }),
            hostAndPort(String(text[..<colon]), takesZone: true).map({ $0.port == nil }) == true
        else { return nil }
        if let port = port(digits), port >= lowest { return nil }
        return .init(
            "port \(ConfigurationText.quoted(String(digits))) is out of range",
            remedy: "write a port from \(lowest) to 65535, without a zero before it")
    }

    /// Reads an address as in `listeners[].address` and `health.address`.
    ///
    /// - Throws: message and remedy.
    package static func listenAddress(_ text: String) throws(ConfigurationValue.ValueError) -> ListenerSettings.Address
    {
        if text.hasPrefix("unix:") { return .unix(path: try socketPath(String(text.dropFirst(5)))) }
        if text.hasPrefix("systemd:") { return .activated(name: try activationName(String(text.dropFirst(8)))) }
        if let error = portError(in: text, lowest: 0) { throw error }
        if let error = zoneError(in: text, isAllowed: true) { throw error }
        guard let found = hostAndPort(text, takesZone: true) else {
            throw .init(
                "\(ConfigurationText.quoted(text)) is not an address",
                remedy: "write HOST:PORT, [V6]:PORT, unix:/PATH or systemd:NAME, such as 127.0.0.1:7400")
        }
        let host = found.host
        guard let port = found.port else {
            throw .init(
                "\(ConfigurationText.quoted(text)) has no port", remedy: "write \(authority(host: host, port: 7400))")
        }
        guard reach(host) != .name else {
            throw .init(
                "\(ConfigurationText.quoted(text)) names a host that would have to be looked up",
                remedy: "write the address itself, or localhost")
        }
        if found.zone == nil, let error = missingZone(of: host, in: text) { throw error }
        // Lanyard's v6 sockets accept no v4 connection.
        if let v4 = literal(host)?.mappedV4Host {
            throw .init(
                "\(ConfigurationText.quoted(text)) is an IPv4 address in an IPv6 spelling",
                remedy: "write \(authority(host: v4, port: port))")
        }
        return .tcp(host: found.zone.map { "\(host)%\($0)" } ?? host, port: port)
    }

    /// The name of a socket that the service manager passes (`FileDescriptorName=`): at most 255 printable characters without `:`.
    private static func activationName(_ name: String) throws(ConfigurationValue.ValueError) -> String {
        let isValid = name.utf8.allSatisfy { $0 > 0x20 && $0 < 0x7f && $0 != UInt8(ascii: ":") }
        guard isValid, (1...255).contains(name.utf8.count) else {
            throw .init(
                "\(ConfigurationText.quoted("systemd:" + name)) is not the name of a socket",
                remedy: "write systemd: and the FileDescriptorName= of the socket unit")
        }
        return name
    }

    /// The path of a unix socket: absolute, at most 107 bytes (`sun_path`).
    ///
    /// - Throws: message and remedy if `path` is not such a path. The configuration is at fault.
    package static func socketPath(_ path: String) throws(ConfigurationValue.ValueError) -> String {
        guard path.hasPrefix("/"), path.utf8.count > 1, path.utf8.count <= 107, path == ConfigurationText.line(path)
        else {
            throw .init(
                "\(ConfigurationText.quoted("unix:" + path)) is not the path of a socket",
                remedy: "write unix: and an absolute path of at most 107 bytes, without control characters")
        }
        return path
    }

    /// Whether binding both addresses would fail: same port, and the same address or a wildcard address of the same family.
    package static func clash(_ a: ListenerSettings.Address, _ b: ListenerSettings.Address) -> Bool {
        guard case .tcp(let hostA, let portA) = a, case .tcp(let hostB, let portB) = b else { return a == b }
        guard portA == portB, portA != 0 else { return false }
        guard let a = SocketAddress(host: hostA, port: 0), let b = SocketAddress(host: hostB, port: 0) else {
            return false
        }
        // A v6 socket accepts no v4 connection, so `::` does not conflict with v4 addresses.
        return a.family == b.family && (a == b || a.isWildcard || b.isWildcard)
    }

    static func isAddress(_ text: String) -> Bool { literal(text) != nil }

    /// A v4 or v6 literal; nil for a name, loopback names included.
    private static func literal(_ text: String) -> SocketAddress? {
        // C stops reading at a NUL and would ignore the rest.
        text.utf8.contains(0) || LoopbackName.matches(text) ? nil : SocketAddress(host: text, port: 0)
    }

    private static func isLetterOrDigit(_ byte: UInt8) -> Bool {
        (48...57).contains(byte) || (65...90).contains(byte) || (97...122).contains(byte)
    }
}
