import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What Lanyard uses of an authorization server's metadata (RFC 8414 §2, OpenID Connect Discovery §3).
///
/// Lists of what the server supports are not read: servers leave out grants that work.
struct OAuthMetadata: Equatable, Sendable {
    /// A member that is missing or wrong. A type of its own, because the caller adds the URL.
    struct MetadataError: Error, Equatable {
        let message: String
        /// It is the metadata of a server, which names itself.
        var namesIssuer = false
    }

    private(set) var endpoints = OAuthEndpoints()
    /// Endpoints for calls with a client certificate (RFC 8705 §5).
    private(set) var aliases = OAuthEndpoints()
    /// RFC 9126 §5.
    private(set) var requiresPushedAuthorization = false
    /// Each response to the browser names the issuer (RFC 9207 §3).
    private(set) var sendsIssuer = false
    /// The issuer has `{tenantid}` where the configured one has a segment. The store does not keep that: then it is true.
    private(set) var hasTenants = true

    /// - Parameter issuer: as it is configured.
    init(_ bytes: UnsafeRawBufferPointer, issuer: String) throws(MetadataError) {
        var reader = MetadataReader(bytes)
        let read: Result<Void, JSONError> = Result { () throws(JSONError) in try reader.read() }
        if case .failure(let error) = read {
            throw MetadataError(message: "not JSON (\(error.kind) at byte \(error.offset))")
        }
        guard reader.isObject else { throw MetadataError(message: "not a JSON object") }
        guard let stated = reader.issuer else { throw MetadataError(message: "it names no issuer") }
        guard Self.isSame(stated, issuer) else {
            throw MetadataError(
                message: Self.issuerLabel + Self.shown(stated) + Self.configuredLabel + issuer
                    + "; they must be the same text",
                namesIssuer: true)
        }
        guard reader.endpoints.token.map(Self.isURL) != false else {
            throw MetadataError(message: "its token_endpoint is no http or https URL", namesIssuer: true)
        }
        endpoints = reader.endpoints.filter(Self.isURL)
        aliases = reader.aliases.filter(Self.isURL)
        requiresPushedAuthorization = reader.requiresPushedAuthorization
        sendsIssuer = reader.sendsIssuer
        hasTenants = stated != issuer
        for url in [endpoints, aliases].flatMap(\.all) {
            guard URLOrigin(of: url)?.isTLS == true || URLOrigin(of: issuer)?.isTLS == false else {
                throw MetadataError(
                    message: "it leads from https to http, which would expose the tokens", namesIssuer: true)
            }
        }
        guard endpoints.token != nil else {
            throw MetadataError(message: "it names no token_endpoint", namesIssuer: true)
        }
    }

    /// RFC 6749 §3.1, §3.2: with a query perhaps. An optional endpoint that is none counts as absent, as its other wrong values do.
    private static func isURL(_ endpoint: String) -> Bool {
        ServiceOrigin(base: String(endpoint.prefix { $0 != "?" })) != nil
    }

    /// What the store has kept. It was checked when the server sent it.
    init(_ stored: StoredMetadata) {
        (endpoints, aliases) = (stored.endpoints, stored.aliases)
        (requiresPushedAuthorization, sendsIssuer) = (stored.requiresPushedAuthorization, stored.sendsIssuer)
    }

    /// For the store.
    func stored(issuer: String, url: String, at readAt: WallTime) -> StoredMetadata {
        var stored = StoredMetadata(issuer: issuer, url: url, readAt: readAt, endpoints: endpoints, aliases: aliases)
        (stored.requiresPushedAuthorization, stored.sendsIssuer) = (requiresPushedAuthorization, sendsIssuer)
        return stored
    }

    /// Where the metadata of an issuer can be, in the order of asking.
    static func urls(of issuer: String) -> [String] {
        let base = issuer.last == "/" ? String(issuer.dropLast()) : issuer
        var urls = [base + "/.well-known/openid-configuration"]
        // RFC 8414 §3.1: between host and path.
        guard let origin = URLOrigin(of: base) else { return urls }
        let name = "/.well-known/oauth-authorization-server"
        urls.append("\(origin.scheme)://\(origin.authority)\(name)\(origin.rest)")
        // Where an application below a path has it that cannot serve the root: django-oauth-toolkit.
        if !origin.rest.isEmpty { urls.append(base + name) }
        return urls
    }

    /// An issuer as it may be shown: a URL without a query, whose parts do not look like a token. What it has of a call's secrets is seen
    /// where the call is known.
    private static func shown(_ issuer: String) -> String {
        guard issuer.utf8.count <= shownMax, let origin = ServiceOrigin(base: issuer) else { return hidden }
        let parts = issuer.split { "/.:@".contains($0) }
        return origin.text.isEmpty || parts.contains(where: ServiceErrorText.looksLikeToken) ? hidden : issuer
    }

    static let issuerLabel = "its issuer is "
    static let configuredLabel = ", and the configuration says "
    private static let shownMax = 256
    /// In place of an issuer.
    static let hidden = "another one"

    /// The same text; Entra's common metadata has `{tenantid}` where an issuer has its tenant.
    private static func isSame(_ stated: String, _ issuer: String) -> Bool {
        let (parts, own) = (
            stated.split(separator: "/", omittingEmptySubsequences: false),
            issuer.split(separator: "/", omittingEmptySubsequences: false)
        )
        return parts.count == own.count && zip(parts, own).allSatisfy { $0 == $1 || $0 == "{tenantid}" }
    }
}

/// Reads the members once.
private struct MetadataReader: ~Copyable {
    private let bytes: UnsafeRawBufferPointer
    private var reader: JSONReader
    private(set) var isObject = false
    private(set) var issuer: String?
    private(set) var endpoints = OAuthEndpoints()
    private(set) var aliases = OAuthEndpoints()
    private(set) var requiresPushedAuthorization = false
    private(set) var sendsIssuer = false

    private static let urlBytesMax = 2048

    init(_ bytes: UnsafeRawBufferPointer) {
        self.bytes = bytes
        reader = JSONReader(bytes)
    }

    mutating func read() throws(JSONError) {
        guard try reader.next() == .objectStart else { return }
        isObject = true
        while case .name(let name) = try reader.next() {
            if JSONText.matches(name, of: bytes, "issuer") {
                issuer = try text()
            } else if JSONText.matches(name, of: bytes, "require_pushed_authorization_requests") {
                requiresPushedAuthorization = try isTrue()
            } else if JSONText.matches(name, of: bytes, "authorization_response_iss_parameter_supported") {
                sendsIssuer = try isTrue()
            } else if JSONText.matches(name, of: bytes, "mtls_endpoint_aliases") {
                let token = try reader.next()
                if token == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
                guard token == .objectStart else { continue }
                while case .name(let name) = try reader.next() { try readEndpoint(name, isAlias: true) }
            } else {
                try readEndpoint(name, isAlias: false)
            }
        }
        _ = try reader.next()
    }

    private mutating func readEndpoint(_ name: JSONReader.Text, isAlias: Bool) throws(JSONError) {
        var read = isAlias ? aliases : endpoints
        if JSONText.matches(name, of: bytes, "token_endpoint") {
            read.token = try text()
        } else if JSONText.matches(name, of: bytes, "revocation_endpoint") {
            read.revocation = try text()
        } else if JSONText.matches(name, of: bytes, "device_authorization_endpoint") {
            read.deviceAuthorization = try text()
        } else if JSONText.matches(name, of: bytes, "authorization_endpoint") {
            read.authorization = try text()
        } else if JSONText.matches(name, of: bytes, "pushed_authorization_request_endpoint") {
            read.pushedAuthorization = try text()
        } else {
            try reader.skipValue()
        }
        if isAlias { aliases = read } else { endpoints = read }
    }

    private mutating func isTrue() throws(JSONError) -> Bool {
        let token = try reader.next()
        if token == .objectStart || token == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
        return token == .bool(true)
    }

    /// The next value if it is visible ASCII.
    private mutating func text() throws(JSONError) -> String? {
        let token = try reader.next()
        if token == .objectStart || token == .arrayStart { try OAuthResponse.skipRest(of: &reader) }
        guard case .string(let text) = token else { return nil }
        var characters: [UInt8] = []
        JSONText.decode(text, of: bytes) { characters.append($0) }
        guard 1...Self.urlBytesMax ~= characters.count, characters.allSatisfy({ 0x21..<0x7f ~= $0 }) else { return nil }
        return String(decoding: characters, as: UTF8.self)
    }
}
