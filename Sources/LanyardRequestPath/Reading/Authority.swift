/// `host[:port]` of a URL or a `Host` field, for comparison in canonical form (http-requests.md 4.6).
struct Authority {
    private let host: Bytes
    /// The default port if none is given.
    let port: UInt16
    let hasPort: Bool

    /// nil: it is none; user information makes it none.
    init?(_ text: Bytes, defaultPort: UInt16) {
        guard !text.isEmpty, let (range, port) = HostValue.split(text) else { return nil }
        host = text[run: range]
        hasPort = port != nil
        self.port = port ?? defaultPort
    }

    func hasHost(of other: Authority) -> Bool {
        if host.equalsIgnoringCase(other.host) { return true }
        return HostValue.withCanonical(host) { one in
            HostValue.withCanonical(other.host) { other in
                guard let one, let other else { return false }
                return one.elementsEqual(other)
            }
        }
    }

    static func == (left: Authority, right: Authority) -> Bool { left.port == right.port && left.hasHost(of: right) }
}
