/// Reads `oauth` of a configuration (emulator-oauth.md 3).
enum OAuthReader {
    typealias ReadError = SeedReader.ReadError

    static func settings(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> OAuthSettings {
        var settings = OAuthSettings()
        let known = [
            "clients", "scopes", "resources", "signing_key", "signing_key_file", "subject_jwks", "subject_jwks_file",
        ]
        for (key, value) in try node.members(known) {
            switch key {
            case "clients":
                settings.clients = []
                for element in try value.elements() {
                    let client = try client(element, files)
                    guard !settings.clients.contains(where: { $0.id == client.id }) else {
                        throw .init(line: element.line, "client \(client.id) is there twice")
                    }
                    settings.clients.append(client)
                }
            case "scopes": settings.scopes = try scopes(value, key)
            case "resources": settings.resources = try value.texts(key)
            case "signing_key", "signing_key_file":
                guard let signingKey = SigningKey(pem: try files.text(key, value)) else {
                    throw .init(
                        line: value.line,
                        "\(key): no PEM of a private key for P-256 or RSA (2048 bits or more) without a passphrase")
                }
                settings.signingKey = signingKey
            default: settings.subjectKeys += try TokenSettingsReader.keySet(key, value, files)
            }
        }
        return settings
    }

    static func client(_ node: ConfigurationNode, _ files: SeedFiles) throws(ReadError) -> OAuthSettings.Client {
        var id: String?
        var client = OAuthSettings.Client(id: "")
        let known = ["client_id", "secret", "secret_file", "grants", "scopes", "redirect_uris", "audience"]
        for (key, value) in try node.members(known) {
            switch key {
            case "client_id": id = try value.text(key)
            case "grants": client.grants = try grants(value)
            case "scopes": client.scopes = try scopes(value, key)
            case "audience": client.audience = try value.texts(key)
            case "redirect_uris":
                client.redirectURIs = try value.texts(key)
                if let wrong = client.redirectURIs.first(where: { !RedirectURI.isURI($0) }) {
                    throw .init(line: value.line, "\(key): \(wrong) is no absolute URI without a fragment")
                }
            default: client.secret = try files.text(key, value)
            }
        }
        client.id = try AppReader.required(id, "client_id", node)
        for text in [client.id, client.secret ?? "x"] where !OAuthSettings.isPrintable(text) {
            throw .init(line: node.line, "client_id and secret are printable ASCII, and not empty")
        }
        return client
    }

    private static func scopes(_ node: ConfigurationNode, _ key: String) throws(ReadError) -> [String] {
        let scopes = try node.texts(key)
        if let wrong = scopes.first(where: { !OAuthScope.isToken($0) }) {
            throw .init(line: node.line, "\(key): \(wrong) is no scope (RFC 6749 section 3.3)")
        }
        return scopes
    }

    private static func grants(_ node: ConfigurationNode) throws(ReadError) -> Set<OAuthGrant> {
        var grants = Set<OAuthGrant>()
        for name in try node.texts("grants") {
            guard let grant = OAuthGrant.named(name) else {
                let known = OAuthGrant.allCases.map(\.name).joined(separator: ", ")
                throw .init(line: node.line, "grants: \(name) is none of \(known)")
            }
            grants.insert(grant)
        }
        return grants
    }
}
