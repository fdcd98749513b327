import LanyardSettings

/// Logins that the configuration allows and that cannot succeed, or not for long.
extension ConfigurationBuilder {
    /// - Parameter section: the user's.
    mutating func warnOfLogin(_ user: UserSettings, _ section: ConfigurationSection, shown: String) {
        guard let login = user.login else { return }
        let place = section.section("login").place(login.provider)
        warnOfSharedFile(user, place, shown: shown)
        let identity = configuration.identities.first { $0.name == user.identity }
        guard case .oauth(let client) = identity?.kind else { return }
        let node = ConfigurationSection(tree).section("identities").section(user.identity).section("oauth2").node
        // What could not be read may have been what is missing.
        guard !Self.hasInvalid(node) else { return }
        switch login.kind {
        case .device where client.endpoints.deviceAuthorization == nil:
            warnOfEndpoint(client, "device_authorization", login, place, shown: shown)
        case .authorizationCode where client.endpoints.authorization == nil:
            warnOfEndpoint(client, "authorization", login, place, shown: shown)
        case .clientCredentials where client.authentication == .none:
            reportWarning(
                place,
                "\(shown).login.client_credentials: \(user.identity) is a public client, as which every program could log in",
                remedy:
                    "add client_secret_file, client_key or client_assertion_file to oauth2, or a certificate to tls; servers refuse it "
                    + "otherwise (RFC 6749 4.4)")
        default: break
        }
    }

    /// A part at any depth could not be read.
    private static func hasInvalid(_ node: ConfigurationNode) -> Bool {
        node.content == .invalid || node.hasUnread || node.elements.contains(where: hasInvalid)
            || node.entries.contains { hasInvalid($0.value) }
    }

    /// Where the metadata are asked for they name the endpoint.
    private mutating func warnOfEndpoint(
        _ client: IdentitySettings.OAuth, _ key: String, _ login: UserSettings.Login, _ place: ConfigurationPlace,
        shown: String
    ) {
        guard client.issuer == nil || client.endpoints.token != nil else { return }
        let remedy =
            client.issuer == nil
            ? "add endpoints: {\(key): URL} to oauth2, or issuer in place of endpoints.token"
            : "add endpoints: {\(key): URL} to oauth2, or remove endpoints.token, so that the metadata are asked for"
        reportWarning(
            place, "\(shown).login.\(login.provider): there is no endpoint for it, and no metadata that name one",
            remedy: remedy)
    }

    /// A token or code that works for one login only would be taken by one of two users.
    private mutating func warnOfSharedFile(_ user: UserSettings, _ place: ConfigurationPlace, shown: String) {
        func oneUseFile(_ user: UserSettings) -> String? {
            switch user.login?.kind {
            case .refreshToken, .googleAuthCode:
                user.login?.secretFile.map { $0.split(separator: "/").filter { $0 != "." }.joined(separator: "/") }
            default: nil
            }
        }
        guard let file = oneUseFile(user),
            let other = configuration.users.first(where: {
                oneUseFile($0) == file && $0.login?.kind == user.login?.kind
            })
        else { return }
        reportWarning(
            place,
            "\(shown).login: \(other.name) has the same file, whose content works for one login only",
            remedy: "give each user a file of its own")
    }
}
