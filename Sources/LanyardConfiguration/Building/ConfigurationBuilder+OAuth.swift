import LanyardFoundations
import LanyardSettings

/// `identities.*.oauth2` and `identities.*.github_app`, and the logins there.
extension ConfigurationBuilder {
    mutating func oauth(
        _ section: ConfigurationSection, of identity: ConfigurationSection, hasCertificate: Bool, shown: String
    ) -> IdentitySettings.OAuth? {
        let endpoints = section.section("endpoints")
        if !section.has("issuer"), !endpoints.has("token"), !section.isUnread("endpoints"), !section.node.hasUnread {
            reportError(
                section.node.place, "\(shown) names no server", remedy: "add issuer, or endpoints: {token: URL}")
        }
        var isReachable = checkReach(section, "issuer", of: identity, shown: shown)
        for key in ["token", "revocation", "device_authorization", "authorization", "pushed_authorization"] {
            let isDowngrade = checkDowngrade(section, endpoints, key, shown: "\(shown).endpoints")
            let isAllowed = isDowngrade || checkReach(endpoints, key, of: identity, shown: "\(shown).endpoints")
            if key == "token", isDowngrade || !isAllowed { isReachable = false }
        }
        let authentication = clientAuthentication(section, hasCertificate: hasCertificate, shown: shown)
        guard let clientID = section.text("client_id"), let authentication else { return nil }
        var settings = IdentitySettings.OAuth(clientID: clientID)
        settings.issuer = section.text("issuer")
        settings.issuerURL = settings.issuer.flatMap(URLText.canonical)
        let url = { (key: String) in endpoints.text(key).flatMap(URLText.canonical) }
        settings.endpoints = OAuthEndpoints(token: url("token"), revocation: url("revocation"))
        settings.endpoints.deviceAuthorization = url("device_authorization")
        settings.endpoints.authorization = url("authorization")
        settings.endpoints.pushedAuthorization = url("pushed_authorization")
        settings.authentication = authentication
        settings.isAuthenticationAutomatic = (section.text("client_authentication") ?? "auto") == "auto"
        settings.scopes = scopes(section, shown: shown)
        // Of a server at plain http that is refused already, its ID token is no further mistake.
        if isReachable { checkIDToken(settings, section, shown: shown) }
        settings.parameters = parameters(section, shown: shown)
        settings.tokenFields = tokenFields(section, shown: shown)
        settings.refreshTokens = refreshTokens(section)
        section.fill(&settings.tokenLifetime, "token_lifetime")
        section.fill(&settings.profile, "profile")
        section.fill(&settings.accessTokens, "access_tokens")
        return settings
    }

    /// Each scope by itself, also of elements with blanks, which some programs take: rules ask whether `openid` is among them.
    private mutating func scopes(_ section: ConfigurationSection, shown: String) -> [String] {
        var scopes: [String] = []
        for element in section.node["scopes"]?.elements ?? [] {
            guard let text = element.text else { continue }
            for scope in text.split(separator: " ").map(String.init) where !scopes.contains(scope) {
                guard Self.isScope(scope) else {
                    reportError(
                        element.place, "\(shown).scopes: \(ConfigurationText.quoted(scope)) is no scope",
                        remedy: "write each scope as an element of its own, in visible ASCII without quotes")
                    continue
                }
                scopes.append(scope)
            }
        }
        return scopes
    }

    private func refreshTokens(_ section: ConfigurationSection) -> RefreshTokenSettings {
        var settings = RefreshTokenSettings(.auto)
        section.fill(&settings.rotation, "rotation")
        section.section("rotation").fill(&settings.graceWindow, "grace")
        if settings.graceWindow != nil { settings.rotation = .grace }
        section.fill(&settings.lifetime, "refresh_lifetime")
        section.fill(&settings.idle, "refresh_idle")
        settings.lastTry = true
        section.fill(&settings.lastTry, "last_try")
        return settings
    }

    /// Refuses an endpoint in plain http on another machine beside an issuer at https, as the issuer's own metadata is refused.
    ///
    /// - Returns: whether it is one.
    private mutating func checkDowngrade(
        _ section: ConfigurationSection, _ endpoints: ConfigurationSection, _ key: String, shown: String
    ) -> Bool {
        let parts = { (text: String?) in text.flatMap { try? URLText.parts($0, takesQuery: true) } }
        guard let issuer = parts(section.text("issuer")), issuer.isTLS,
            let endpoint = parts(endpoints.text(key)), !endpoint.isTLS,
            AddressText.reach(endpoint.host) != .loopback
        else { return false }
        reportError(
            endpoints.place(key), "\(shown).\(key) is plain http, and the issuer is at https: tokens would be exposed",
            remedy: "use https, or an endpoint on this machine")
        return true
    }

    /// Refuses an ID token that neither TLS nor a signature proves (OpenID Connect Core 3.1.3.7).
    private mutating func checkIDToken(
        _ settings: IdentitySettings.OAuth, _ section: ConfigurationSection, shown: String
    ) {
        guard settings.scopes.contains("openid") else { return }
        // An identity without a server is reported as such.
        if settings.issuer == nil, settings.endpoints.token != nil, !section.isUnread("issuer") {
            reportWarning(
                section.place("scopes"),
                "\(shown).scopes: without issuer the ID token may be that of any server",
                remedy: "add issuer as the server writes it, or leave openid out")
        }
        guard let url = settings.endpoints.token ?? settings.issuerURL,
            let parts = try? URLText.parts(url, takesQuery: true), !parts.isTLS,
            AddressText.reach(parts.host) != .loopback
        else { return }
        reportError(
            section.place("scopes"),
            "\(shown).scopes: an ID token that comes by plain http from \(parts.host) proves nothing",
            remedy: "use https, or leave openid out")
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
        case "basic_with_id":
            return secret(section, "client_secret_file", shown: shown).map { .basicWithID(secretFile: $0) }
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
        key.audience = Self.audience(section.text("audience"))
        return .privateKeyJWT(key)
    }

    mutating func assertion(_ section: ConfigurationSection, shown: String) -> AssertionSettings {
        var assertion = AssertionSettings()
        assertion.keyID = section.text("id")
        section.fill(&assertion.algorithm, "algorithm")
        (assertion.issuer, assertion.subject) = (section.text("issuer"), section.text("subject"))
        assertion.audience = Self.audience(section.text("audience"))
        section.fill(&assertion.lifetime, "lifetime")
        section.fill(&assertion.scopePlace, "scopes")
        for entry in section.node["claims"]?.entries ?? [] {
            guard !AssertionSettings.reservedClaims.contains(entry.key) else {
                reportError(
                    entry.place, "\(shown).claims: \(entry.key) is a claim that Lanyard writes itself",
                    remedy: entry.key == "scope" ? "use scopes: claim" : "use issuer, subject, audience or lifetime")
                continue
            }
            guard let text = entry.value.text else {
                if !entry.value.hasUnread {
                    reportError(
                        entry.place, "\(shown).claims: \(entry.key) is a list", remedy: "a claim here has one text")
                }
                continue
            }
            assertion.claims.append(OAuthParameter(entry.key, text))
        }
        return assertion
    }

    mutating func completeTokenExchange(
        _ login: inout UserSettings.Login?, _ section: ConfigurationSection, shown: String
    ) {
        let hasActor = section.has("actor_token_file") || section.has("actor_token_credential")
        if hasActor { login?.actorToken = secret(section, "actor_token_file", shown: shown) }
        if section.has("actor_token_type"), !hasActor, !section.node.hasUnread {
            reportError(
                section.place("actor_token_type"), "\(shown).actor_token_type needs actor_token_file",
                remedy: "add the file, or remove the type")
        }
        if let type = tokenType(section, "subject_token_type", shown: shown) { login?.tokenTypes.subject = type }
        if let type = tokenType(section, "actor_token_type", shown: shown) { login?.tokenTypes.actor = type }
        login?.tokenTypes.requested = tokenType(section, "requested_token_type", shown: shown)
    }

    private mutating func tokenType(_ section: ConfigurationSection, _ key: String, shown: String) -> String? {
        guard let text = section.text(key) else { return nil }
        guard let uri = TokenTypes.uri(text) else {
            reportError(
                section.place(key), "\(shown).\(key): \(text) is no type of a token",
                remedy: "use a URI, or one of \(TokenTypes.words.joined(separator: ", "))")
            return nil
        }
        return uri
    }

    mutating func gitHubApp(
        _ section: ConfigurationSection, of identity: ConfigurationSection, shown: String
    ) -> IdentitySettings.GitHubApp? {
        checkReach(section, "base_url", of: identity, shown: shown)
        let file = secret(section, "key_file", shown: shown, form: .document)
        if let id = section.text("installation_id"), !id.utf8.allSatisfy({ 0x30...0x39 ~= $0 }) {
            reportError(
                section.place("installation_id"), "\(shown).installation_id: \(id) is no number",
                remedy: "it is the number at the end of the URL of the installation's settings")
            return nil
        }
        guard let file, let appID = section.text("app_id"), let installation = section.text("installation_id")
        else { return nil }
        var app = IdentitySettings.GitHubApp(appID: appID, installationID: installation, keyFile: file)
        if let base = section.text("base_url").flatMap({ try? URLText.base($0) }) { app.baseURL = base }
        section.fill(&app.repositories, "repositories")
        for entry in section.node["permissions"]?.entries ?? [] {
            guard let access = entry.value.text.flatMap(IdentitySettings.GitHubApp.Access.init(rawValue:)) else {
                if !entry.value.hasUnread {
                    reportError(
                        entry.place, "\(shown).permissions: \(entry.key) has no known value",
                        remedy: "write read, write or admin")
                }
                continue
            }
            app.permissions.append((entry.key, access))
        }
        return app
    }

    private static func audience(_ text: String?) -> ClientKey.Audience {
        switch text {
        case nil, "issuer": .issuer
        case "token_endpoint": .tokenEndpoint
        case "endpoint": .endpoint
        case let text?: .value(text)
        }
    }

    /// A file that the method does not read would lead an operator to think that it is used.
    private mutating func checkUnusedFiles(_ section: ConfigurationSection, _ method: String, shown: String) {
        let readers: [(key: String, methods: Set<String>)] = [
            ("client_secret_file", ["basic", "basic_raw", "basic_with_id", "post"]),
            ("client_secret_credential", ["basic", "basic_raw", "basic_with_id", "post"]),
            ("client_key", ["private_key_jwt"]),
            ("client_assertion_file", ["assertion"]), ("client_assertion_credential", ["assertion"]),
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
                ConfigurationSection(entry.value), "file", shown: "\(shown).token_headers.\(entry.key)", sent: .line)
            {
                fields.append(OAuthTokenField(entry.key, .file(path)))
            }
        }
        return fields
    }
}
