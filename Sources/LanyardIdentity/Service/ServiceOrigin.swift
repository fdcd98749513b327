import CCurl
import LanyardFoundations

/// Where an identity service is: `http` or `https`, a host and optionally a port. Only `base_url` may have a path.
struct ServiceOrigin: Equatable, Sendable {
    private static let textMax = 300

    /// Without a trailing slash, so that a path can be appended.
    let text: String
    let isTLS: Bool
    private let authority: String

    /// Reads an origin; one trailing slash is dropped. nil if it has user info, a path, a query, or another scheme.
    init?(_ text: String) {
        guard text.utf8.count <= Self.textMax, let origin = URLOrigin(of: text), ["", "/"].contains(origin.rest)
        else { return nil }
        self.init(origin, path: "")
    }

    /// Reads `base_url`: an origin with an optional path, which the configuration has checked.
    init?(base text: String) {
        guard let origin = URLOrigin(of: text) else { return nil }
        var path = origin.rest[...]
        while path.last == "/" { path.removeLast() }
        guard path.isEmpty || path.hasPrefix("/"),
            path.utf8.allSatisfy({ 0x21..<0x7f ~= $0 && $0 != UInt8(ascii: "?") && $0 != UInt8(ascii: "#") })
        else { return nil }
        self.init(origin, path: String(path))
    }

    private init?(_ origin: URLOrigin, path: String) {
        guard Self.isAuthority(origin.authority[...]) else { return nil }
        isTLS = origin.isTLS
        authority = origin.authority
        text = "\(origin.scheme)://\(authority)\(path)"
    }

    /// Whether both have the same scheme, host and port, whatever their paths (RFC 6454 §5).
    func hasSameOrigin(as other: ServiceOrigin) -> Bool {
        guard isTLS == other.isTLS, port == other.port, let host, let otherHost = other.host else { return false }
        return host == otherHost
    }

    /// nil: a name with an empty label.
    private var host: CanonicalHost? {
        let end = authority.firstIndex(of: "]").map(authority.index(after:)) ?? authority.firstIndex(of: ":")
        return CanonicalHost(String(authority[..<(end ?? authority.endIndex)]))
    }

    private var port: Int {
        let digits = authority.reversed().prefix { $0 != ":" && $0 != "]" }
        guard digits.count < authority.count, let port = Int(String(digits.reversed())) else {
            return isTLS ? 443 : 80
        }
        return port
    }

    /// The absolute URL that a `Location` field names, relative to `url` (RFC 9110 §10.2.2).
    ///
    /// - Returns: nil if it is not an `http` or `https` URL, has user info, or leads from `https` to `http`.
    static func redirect(from url: String, to location: String) -> String? {
        guard let handle = curl_url() else { return nil }
        defer { curl_url_cleanup(handle) }
        guard curl_url_set(handle, CURLUPART_URL, url, 0) == CURLUE_OK,
            curl_url_set(handle, CURLUPART_URL, location, 0) == CURLUE_OK,
            part(CURLUPART_USER, of: handle) == nil, part(CURLUPART_PASSWORD, of: handle) == nil,
            let target = part(CURLUPART_URL, of: handle), let origin = URLOrigin(of: target),
            origin.isTLS || URLOrigin(of: url)?.isTLS == false
        else { return nil }
        return target
    }

    private static func part(_ part: CURLUPart, of handle: OpaquePointer) -> String? {
        var text: UnsafeMutablePointer<CChar>?
        guard curl_url_get(handle, part, &text, 0) == CURLUE_OK, let text else { return nil }
        defer { curl_free(text) }
        return String(cString: text)
    }

    /// A name, an IPv4 address or a bracketed IPv6 address, optionally with a port.
    private static func isAuthority(_ text: Substring) -> Bool {
        let isName: (UInt8) -> Bool = {
            switch $0 {
            case 0x30...0x39, 0x41...0x5a, 0x61...0x7a, UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"): true
            default: false
            }
        }
        var rest = text.utf8[...]
        if rest.first == UInt8(ascii: "[") {
            guard let end = rest.firstIndex(of: UInt8(ascii: "]")) else { return false }
            let address = rest[rest.index(after: rest.startIndex)..<end]
            guard !address.isEmpty, address.allSatisfy({ isName($0) || $0 == UInt8(ascii: ":") }) else { return false }
            rest = rest[rest.index(after: end)...]
        } else {
            let name = rest.prefix(while: isName)
            guard !name.isEmpty else { return false }
            rest = rest[name.endIndex...]
        }
        guard let colon = rest.first else { return true }
        guard colon == UInt8(ascii: ":"), let port = Int(Substring(rest.dropFirst())) else { return false }
        return 1...65535 ~= port && rest.dropFirst().allSatisfy { 0x30...0x39 ~= $0 }
    }
}
