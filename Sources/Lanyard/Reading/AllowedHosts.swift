/// The hosts that a listener answers to: name and port (http-requirements 4.2, threat T2).
package struct AllowedHosts: Sendable {
    /// Lower-case `host:port` values; nil takes any (a unix socket).
    private let values: [[UInt8]]?
    /// Also any IP literal with any port: the kubelet probes health by the pod's address, others through a mapped port. A name
    /// is what a rebinding web page needs.
    private let allowsLiterals: Bool

    package enum Verdict: Equatable, Sendable { case allowed, unknown, malformed }

    /// - Parameter allowsLiterals: any IP literal is allowed as well.
    package init(_ values: [String]?, allowsLiterals: Bool = false) {
        self.values = values.map { $0.map { Array($0.utf8).map(ByteClass.lower) } }
        self.allowsLiterals = allowsLiterals
    }

    /// Judges a `Host` value or the authority of an absolute target.
    package func judge(_ value: Bytes) -> Verdict {
        if let values {
            for allowed in values where allowed.count == value.count {
                if allowed.withUnsafeBufferPointer({ $0.equalsIgnoringCase(value) }) { return .allowed }
            }
        }
        guard let (host, port) = HostValue.split(value) else { return .malformed }
        guard let values else { return .allowed }
        if allowsLiterals, isLiteral(value[run: host]) { return .allowed }
        // `Host: name` means port 80, so it equals an allowed `name:80`.
        guard port == nil else { return .unknown }
        let withPort = Array(value).map(ByteClass.lower) + Array(":80".utf8)
        return values.contains(withPort) || values.contains(Array(value).map(ByteClass.lower)) ? .allowed : .unknown
    }

    private func isLiteral(_ host: Bytes) -> Bool {
        host[0] == UInt8(ascii: "[") || host.allSatisfy { ByteClass.isDigit($0) || $0 == UInt8(ascii: ".") }
    }
}
