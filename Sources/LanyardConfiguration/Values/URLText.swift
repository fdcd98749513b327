import LanyardFoundations
import LanyardSettings

/// Reads URLs of a configuration. A URL with user info may hold a password and is never quoted.
package enum URLText {
    /// The parts of `scheme://host[:port][/path][?query]`.
    package struct Parts: Equatable, Sendable {
        /// The scheme is https.
        package var isTLS: Bool
        /// In canonical form (`CanonicalHost`), v6 without brackets.
        package var host: String
        /// The name ends with the dot of the root.
        package var isFullyQualified: Bool
        /// nil: the scheme's own.
        package var port: UInt16?
        /// nil: the URL ends after the authority.
        package var path: String?
        /// With its question mark; empty: there is none.
        package var query = ""
        /// Of a link-local address: a network interface of this machine.
        package var zone: String?

        /// In canonical form: the scheme in lower case, the host as it is compared.
        var text: String {
            "\(isTLS ? "https" : "http")://\(AddressText.authority(host: host, port: port))\(path ?? "")\(query)"
        }
    }

    /// Reads an http or https URL.
    ///
    /// - Parameters:
    ///   - takesPath: false: at most one slash may follow the authority, and whatever stands before an @ is secret.
    ///   - takesQuery: it may have a query, as an endpoint may (RFC 6749 §3.1).
    ///   - takesZone: its host may be a link-local address with a zone. Those of identity services are none (security.md T5).
    /// - Throws: message and remedy.
    package static func parts(
        _ text: String, takesPath: Bool = true, takesQuery: Bool = false, takesZone: Bool = false
    ) throws(ConfigurationValue.ValueError) -> Parts {
        // A password with an unescaped slash extends into the apparent path. With an @ anywhere nothing is quoted.
        let mayHoldSecret = text.utf8.contains(UInt8(ascii: "@"))
        func shown(_ part: some StringProtocol, or words: String) -> String {
            mayHoldSecret ? words : ConfigurationText.quoted(String(part))
        }
        guard let origin = URLOrigin(of: text) else {
            throw .init(
                "\(shown(text, or: "the URL")) has no scheme that can be used here",
                remedy: "begin with http:// or https://")
        }
        let authority = origin.authority[...]
        let path = takesQuery ? origin.rest.prefix { $0 != "?" } : origin.rest[...]
        let query = origin.rest[path.endIndex...]
        let unexpectedParts = unexpectedParts(
            mayHoldSecret, authority, origin.rest[...], takesPath: takesPath, takesQuery: takesQuery)
        if let unexpectedParts {
            let words = mayHoldSecret ? "a URL with" : "\(ConfigurationText.quoted(text)) has"
            throw .init("\(words) \(unexpectedParts.message)", remedy: unexpectedParts.remedy)
        }
        if let error = AddressText.portError(in: authority, lowest: 1) { throw error }
        if let error = AddressText.zoneError(in: authority, isAllowed: takesZone) { throw error }
        guard let found = AddressText.hostAndPort(String(authority), takesZone: takesZone) else {
            throw .init(
                "\(shown(authority, or: "what follows \(origin.scheme)://")) is not a host, host:port, [v6] or [v6]:port",
                remedy: "write a URL such as \(origin.scheme)://127.0.0.1:9000")
        }
        if !path.isEmpty, !FieldText.isPathPrefix(String(path)) {
            throw .init(
                "\(shown(path, or: "its path")) is not a plain path",
                remedy: "write it without //, . and .. segments, backslashes and blanks; escape other characters")
        }
        guard FieldText.isQuery(String(query)) else {
            throw .init(
                "\(shown(query, or: "its query")) is not a query",
                remedy: "escape blanks, quotes and other characters with %")
        }
        return Parts(
            isTLS: origin.isTLS, host: found.host, isFullyQualified: found.isFullyQualified, port: found.port,
            path: path.isEmpty ? nil : String(path), query: String(query), zone: found.zone)
    }

    /// All parts of a URL that are not allowed, in one error.
    private static func unexpectedParts(
        _ hasAt: Bool, _ authority: Substring, _ tail: Substring, takesPath: Bool, takesQuery: Bool
    ) -> ConfigurationValue.ValueError? {
        let path = tail.prefix { $0 != "?" && $0 != "#" }
        var (what, rest): ([String], [String]) = ([], [])
        // Where no path is allowed, text before an @ that looks like a path is a password.
        let hasUserInfo = hasAt && (!takesPath || authority.utf8.contains(UInt8(ascii: "@")))
        if hasUserInfo {
            what.append("user info")
            rest.append("what stands before the @")
        }
        if !takesPath, !path.isEmpty, path != "/" {
            what.append("a path")
            rest.append("the path")
        }
        if takesQuery, tail.contains("#") {
            what.append("a fragment")
            rest.append("everything from the # on")
        } else if !takesQuery, path.endIndex < tail.endIndex {
            what.append("a query or fragment")
            rest.append("everything from the ? or # on")
        }
        guard !what.isEmpty else { return nil }
        // Such a URL is that of an identity service, where users log in.
        let secrets = takesPath ? ": a password is not allowed here" : "; secrets are given as files"
        return .init(
            what.joined(separator: " and "),
            remedy: "remove " + rest.joined(separator: ", and ") + (hasUserInfo ? secrets : ""))
    }

    /// A route's `upstream`.
    package struct Upstream: Equatable, Sendable {
        /// Where connections are made to.
        package var endpoint: UpstreamSettings.Endpoint
        /// The `Host` that names the upstream.
        package var authority: String
        /// The name ends with the dot of the root.
        package var isFullyQualified = false
        /// Replaces the matched prefix; nil leaves the target as it is.
        package var path: String?
        /// Of a link-local address: a network interface of this machine.
        package var zone: String?
    }

    /// `http://…`, `https://…` or `unix:/path`.
    ///
    /// - Throws: message and remedy.
    package static func upstream(_ text: String) throws(ConfigurationValue.ValueError) -> Upstream {
        if text.hasPrefix("unix:") {
            let path = try AddressText.socketPath(String(text.dropFirst(5)))
            return Upstream(endpoint: .unix(path: path), authority: "localhost", path: nil)
        }
        let parts = try parts(text, takesZone: true)
        let standard: UInt16 = parts.isTLS ? 443 : 80
        let port = parts.port ?? standard
        return Upstream(
            endpoint: .tcp(host: parts.host, port: port, tls: parts.isTLS),
            authority: AddressText.authority(host: parts.host, port: port == standard ? nil : port),
            isFullyQualified: parts.isFullyQualified, path: parts.path, zone: parts.zone)
    }

    /// The proxy of a route: `http://host:port`.
    ///
    /// - Parameter defaultPort: of a URL without one; nil: it needs one.
    /// - Throws: message and remedy.
    package static func proxy(
        _ text: String, defaultPort: UInt16? = nil
    ) throws(ConfigurationValue.ValueError) -> UpstreamSettings.Proxy {
        if text.firstRange(of: "://") != nil, URLOrigin(of: text)?.isTLS != false {
            throw .init(
                "the scheme of a proxy's URL is not http: a proxy that is reached by TLS or SOCKS is not supported",
                remedy: "name a port of the proxy that speaks plain HTTP, such as http://proxy.internal:3128")
        }
        guard !text.utf8.contains(UInt8(ascii: "%")) || text.utf8.contains(UInt8(ascii: "@")) else {
            throw .init(
                "the URL of a proxy has a % in it",
                remedy: "write its name, or an address that is valid in every network")
        }
        let parts = try parts(text, takesPath: false)
        guard let port = parts.port ?? defaultPort else {
            throw .init(
                "the URL of a proxy has no port",
                remedy: "write it, such as http://\(parts.host):3128: proxies have no default")
        }
        return UpstreamSettings.Proxy(host: parts.host, port: port, isFullyQualified: parts.isFullyQualified)
    }

    /// A URL with its host in canonical form; nil if it is none.
    package static func canonical(_ text: String) -> String? {
        (try? parts(text, takesQuery: true))?.text
    }

    /// `app_services.base_url`: scheme, host, optional port and optional path. Trailing slashes are dropped.
    ///
    /// - Throws: message and remedy.
    package static func base(_ text: String) throws(ConfigurationValue.ValueError) -> String {
        // With an @, what looks like a path may be a password.
        let takesPath = !text.utf8.contains(UInt8(ascii: "@"))
        var text = try parts(text, takesPath: takesPath).text
        while text.last == "/" { text.removeLast() }
        return text
    }

    /// An address of another Lanyard's broker: `unix:/path`, or a URL as `base` takes it.
    ///
    /// - Throws: message and remedy.
    package static func broker(
        _ text: String
    ) throws(ConfigurationValue.ValueError) -> IdentitySettings.OtherLanyard.Address {
        if text.hasPrefix("unix:") { return .unix(path: try AddressText.socketPath(String(text.dropFirst(5)))) }
        return .url(try base(text))
    }
}
