/// The hosts that requests on a listener may name: name and port (http-rules.md 4.2, threats.md T2).
package struct AllowedHosts: Sendable {
    /// Lower-case `host:port` values; nil allows any (a unix socket).
    private let values: [[UInt8]]?
    /// Also any IP literal with any port: the kubelet probes health by the pod's address, other clients use a mapped
    /// port. A web page that uses DNS rebinding needs a name.
    private let allowsLiterals: Bool

    package enum Decision: Equatable, Sendable { case allowed, unknown, malformed }

    /// - Parameter allowsLiterals: any IP literal is allowed as well.
    package init(_ values: [String]?, allowsLiterals: Bool = false) {
        // `Host: name` means port 80, so `name:80` allows both.
        self.values = values?.flatMap { value -> [[UInt8]] in
            let bytes = Array(value.utf8).map(ByteClass.lower)
            return value.hasSuffix(":80") ? [bytes, Array(bytes.dropLast(3))] : [bytes]
        }
        self.allowsLiterals = allowsLiterals
    }

    /// Checks a `Host` value or the authority of an absolute target.
    package func check(_ value: Bytes) -> Decision {
        if let values {
            for allowed in values where allowed.count == value.count {
                if allowed.withUnsafeBufferPointer({ $0.equalsIgnoringCase(value) }) { return .allowed }
            }
        }
        guard let (host, _) = HostValue.split(value) else { return .malformed }
        guard values != nil else { return .allowed }
        if allowsLiterals, isLiteral(value[run: host]) { return .allowed }
        return .unknown
    }

    private func isLiteral(_ host: Bytes) -> Bool {
        host[0] == UInt8(ascii: "[") || host.allSatisfy { ByteClass.isDigit($0) || $0 == UInt8(ascii: ".") }
    }
}
