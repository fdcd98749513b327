/// Reads the few URLs of a configuration. A URL with user info holds a password: it is never quoted.
package enum URLText {
    /// The parts of `scheme://host[:port][/path]`.
    package struct Parts: Equatable, Sendable {
        package var scheme: String
        /// In lower case, v6 without brackets.
        package var host: String
        package var port: UInt16?
        /// nil: nothing behind the authority.
        package var path: String?
    }

    /// Reads a URL of one of `schemes`.
    ///
    /// - Throws: words and remedy.
    package static func parts(_ text: String, schemes: [String]) throws(ConfigurationValue.Problem) -> Parts {
        guard let scheme = schemes.first(where: { text.lowercased().hasPrefix($0 + "://") }) else {
            let shown = text.utf8.contains(UInt8(ascii: "@")) ? "the URL" : ConfigurationText.quoted(text)
            throw .init(
                "\(shown) has no scheme that can be used here",
                remedy: "begin with \(schemes.map { $0 + "://" }.joined(separator: " or "))")
        }
        let rest = text.dropFirst(scheme.utf8.count + 3)
        let end = rest.firstIndex { "/?#\\".contains($0) } ?? rest.endIndex
        let (authority, tail) = (rest[..<end], rest[end...])
        if authority.utf8.contains(UInt8(ascii: "@")) {
            throw .init("a URL with user info", remedy: "remove what stands before the @; secrets are given as files")
        }
        if tail.utf8.contains(UInt8(ascii: "?")) || tail.utf8.contains(UInt8(ascii: "#")) {
            throw .init(
                "\(ConfigurationText.quoted(text)) has a query or fragment", remedy: "remove it from the ? or # on")
        }
        guard let (host, port) = AddressText.hostAndPort(String(authority)), port != 0 else {
            throw .init(
                "\(ConfigurationText.quoted(String(authority))) is not a host, host:port, [v6] or [v6]:port",
                remedy: "write a URL such as \(scheme)://127.0.0.1:9000")
        }
        if !tail.isEmpty, !FieldText.isPathPrefix(String(tail)) {
            throw .init(
                "\(ConfigurationText.quoted(String(tail))) is not a plain path",
                remedy: "write it without //, . and .. segments, backslashes and blanks; escape other characters")
        }
        return Parts(scheme: scheme, host: host, port: port, path: tail.isEmpty ? nil : String(tail))
    }

    /// A route's `upstream`.
    package struct Upstream: Equatable, Sendable {
        package var endpoint: UpstreamSettings.Endpoint
        package var authority: String
        /// Replaces the matched prefix; nil leaves the target as it is.
        package var path: String?
    }

    /// `http://…`, `https://…` or `unix:/path`.
    ///
    /// - Throws: words and remedy.
    package static func upstream(_ text: String) throws(ConfigurationValue.Problem) -> Upstream {
        if text.hasPrefix("unix:") {
            let path = try AddressText.socketPath(String(text.dropFirst(5)))
            return Upstream(endpoint: .unix(path: path), authority: "localhost", path: nil)
        }
        let parts = try parts(text, schemes: ["http", "https"])
        let standard: UInt16 = parts.scheme == "https" ? 443 : 80
        let port = parts.port ?? standard
        return Upstream(
            endpoint: .tcp(host: parts.host, port: port, tls: parts.scheme == "https"),
            authority: AddressText.authority(host: parts.host, port: port == standard ? nil : port),
            path: parts.path)
    }

    /// `app_services.base_url`: scheme, host and perhaps a port; one trailing slash is dropped.
    ///
    /// - Throws: words and remedy.
    package static func base(_ text: String) throws(ConfigurationValue.Problem) -> String {
        let parts = try parts(text, schemes: ["http", "https"])
        let base = "\(parts.scheme)://\(AddressText.authority(host: parts.host, port: parts.port))"
        guard parts.path == nil || parts.path == "/" else {
            throw .init("\(ConfigurationText.quoted(text)) has a path", remedy: "write \(base)")
        }
        return base
    }
}
