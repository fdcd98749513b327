import LanyardFoundations
import LanyardSettings

/// `identities.*.oauth2`.
extension ConfigurationBuilder {
    mutating func oauth(
        _ section: ConfigurationSection, hasCertificate: Bool, shown: String
    ) -> IdentitySettings.OAuth? {
        let endpoints = section.section("endpoints")
        if !section.has("issuer"), !endpoints.has("token"), !section.isUnread("endpoints"), !section.node.hasUnread {
            reportError(
                section.node.place, "\(shown) names no server", remedy: "add issuer, or endpoints: {token: URL}")
        }
        checkReach(section, "issuer", shown: shown)
        checkReach(endpoints, "token", shown: "\(shown).endpoints")
        checkReach(endpoints, "revocation", shown: "\(shown).endpoints")
        let authentication = clientAuthentication(section, hasCertificate: hasCertificate, shown: shown)
        guard let clientID = section.text("client_id"), let authentication else { return nil }
        var settings = IdentitySettings.OAuth(clientID: clientID)
        settings.issuer = section.text("issuer")
        settings.endpoints = OAuthEndpoints(token: endpoints.text("token"), revocation: endpoints.text("revocation"))
        settings.authentication = authentication
        section.fill(&settings.scopes, "scopes")
        settings.parameters = parameters(section, shown: shown)
        settings.tokenFields = tokenFields(section, shown: shown)
        section.fill(&settings.rotation, "rotation")
        section.fill(&settings.tokenLifetime, "token_lifetime")
        section.fill(&settings.profile, "profile")
        return settings
    }

    /// nil: an error was reported.
    private mutating func clientAuthentication(
        _ section: ConfigurationSection, hasCertificate: Bool, shown: String
    ) -> ClientAuthentication? {
        let has = { (key: String) in section.has(key + "_file") || section.has(key + "_credential") }
        let method: String =
            switch section.text("client_authentication") ?? "auto" {
            case "auto" where section.has("client_key"): "private_key_jwt"
            case "auto" where has("client_assertion"): "assertion"
            case "auto" where has("client_secret"): "basic"
            case "auto": hasCertificate ? "tls" : "none"
            case let method: method
            }
        checkUnusedFiles(section, method, shown: shown)
        switch method {
        case "basic", "basic_raw":
            return secret(section, "client_secret_file", shown: shown).map {
                .basic(secretFile: $0, isRaw: method == "basic_raw")
            }
        case "post": return secret(section, "client_secret_file", shown: shown).map { .post(secretFile: $0) }
        case "private_key_jwt": return clientKey(section.section("client_key"), shown: "\(shown).client_key")
        case "assertion":
            return secret(section, "client_assertion_file", shown: shown).map {
                .assertion(
                    file: $0, type: section.text("client_assertion_type") ?? ClientAuthentication.jwtAssertionType)
            }
        case "tls":
            guard hasCertificate || section.node.hasUnread else {
                reportError(
                    section.place("client_authentication"), "\(shown).client_authentication: tls needs a certificate",
                    remedy: "add tls: {certificate_file: …, key_file: …} to the identity")
                return nil
            }
            return .tls
        default: return ClientAuthentication.none
        }
    }

    private mutating func clientKey(_ section: ConfigurationSection, shown: String) -> ClientAuthentication? {
        guard let file = secret(section, "file", shown: shown, form: .document) else { return nil }
        var key = ClientKey(file: file)
        key.id = section.text("id")
        section.fill(&key.algorithm, "algorithm")
        switch section.text("audience") {
        case nil, "issuer": key.audience = .issuer
        case "token_endpoint": key.audience = .tokenEndpoint
        case let text?: key.audience = .value(text)
        }
        return .privateKeyJWT(key)
    }

    /// A file that the method does not read would lead an operator to think that it is used.
    private mutating func checkUnusedFiles(_ section: ConfigurationSection, _ method: String, shown: String) {
        let readers: [(key: String, methods: Set<String>)] = [
            ("client_secret_file", ["basic", "basic_raw", "post"]), ("client_key", ["private_key_jwt"]),
            ("client_assertion_file", ["assertion"]),
        ]
        for (key, methods) in readers where section.has(key) && !methods.contains(method) {
            reportError(
                section.place(key), "\(shown).\(key) is not used by client_authentication: \(method)",
                remedy: "remove it, or choose \(methods.sorted().joined(separator: " or "))")
        }
    }

    private mutating func parameters(_ section: ConfigurationSection, shown: String) -> [OAuthParameter] {
        var parameters: [OAuthParameter] = []
        for entry in section.node["params"]?.entries ?? [] {
            guard !OAuthParameter.reserved.contains(entry.key) else {
                reportError(
                    entry.place, "\(shown).params: \(entry.key) is a field that Lanyard sends itself",
                    remedy: entry.key == "scope" ? "use scopes" : "remove it")
                continue
            }
            let values = entry.value.text.map { [$0] } ?? entry.value.elements.compactMap(\.text)
            parameters += values.map { OAuthParameter(entry.key, $0) }
        }
        return parameters
    }

    private mutating func tokenFields(_ section: ConfigurationSection, shown: String) -> [OAuthTokenField] {
        var fields: [OAuthTokenField] = []
        for entry in section.node["token_headers"]?.entries ?? [] {
            guard !["authorization", "content-type", "accept"].contains(entry.key.lowercased()) else {
                reportError(
                    entry.place, "\(shown).token_headers: \(entry.key) is a field that Lanyard sends itself",
                    remedy: "remove it")
                continue
            }
            if let text = entry.value.text {
                fields.append(OAuthTokenField(entry.key, .text(text)))
            } else if let path = secret(
                ConfigurationSection(entry.value), "file", shown: "\(shown).token_headers.\(entry.key)")
            {
                fields.append(OAuthTokenField(entry.key, .file(path)))
            }
        }
        return fields
    }
}
