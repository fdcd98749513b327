import Glibc
import LanyardSettings

/// Logins that the configuration allows and that cannot succeed, or not for long.
extension ConfigurationBuilder {
    /// - Parameter section: the user's.
    mutating func warnOfLogin(_ user: UserSettings, _ section: ConfigurationSection, shown: String) {
        guard let login = user.login else { return }
        let place = section.section("login").place(login.provider)
        warnOfSharedFile(user, place, shown: shown)
        guard case .oauth(let client) = accounts.identity(user.identity)?.kind,
            let identityNode = accounts.node(ofIdentity: user.identity)
        else { return }
        let node = ConfigurationSection(identityNode).section("oauth2").node
        // What could not be read may have been what is missing.
        guard !Self.hasInvalid(node) else { return }
        warnOfMemory(login, place, shown: shown)
        switch login.kind {
        case .device where client.endpoints.deviceAuthorization == nil:
            warnOfEndpoint(client, "device_authorization", login, place, shown: shown)
        case .authorizationCode where client.endpoints.authorization == nil:
            warnOfEndpoint(client, "authorization", login, place, shown: shown)
        // A file that is not used is reported there.
        case .clientCredentials where client.authentication == .none && !Self.hasProof(node):
            reportWarning(
                place,
                "\(shown).login.client_credentials: \(user.identity) is a public client, as which every program could log in",
                remedy:
                    "add client_secret_file, client_key or client_assertion_file to oauth2, or a certificate to tls; servers refuse it "
                    + "otherwise (RFC 6749 4.4)")
        default: break
        }
    }

    /// Refresh tokens that only memory holds end with the process. Who writes a file sees that it has no store; the short form has no place
    /// where that could be seen.
    private mutating func warnOfMemory(
        _ login: UserSettings.Login, _ place: ConfigurationPlace, shown: String
    ) {
        guard tree["store"] == nil, !place.isOfFile, login.kind.isInteractive else { return }
        reportWarning(
            place,
            "\(shown).login.\(login.provider): without a store a restart forgets the login, and a user must log in again",
            remedy: "add --store-path and --store-key-file, or --store-memory if that is meant")
    }

    /// The client has a secret, a key or an assertion, whether its authentication uses it or not.
    private static func hasProof(_ node: ConfigurationNode) -> Bool {
        ["client_secret", "client_assertion"].contains { name in
            node[name + "_file"] != nil || node[name + "_credential"] != nil
        } || node["client_key"] != nil
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
        // Without a server nothing has an endpoint, which is reported there.
        guard client.endpoints.token != nil else { return }
        let remedy =
            switch (place.isOfFile, client.issuer) {
            case (false, nil): "give --issuer in place of --token-endpoint"
            case (false, _?): "leave out --token-endpoint, so that the metadata are asked for"
            case (true, nil): "add endpoints: {\(key): URL} to oauth2, or issuer in place of endpoints.token"
            case (true, _?):
                "add endpoints: {\(key): URL} to oauth2, or remove endpoints.token, so that the metadata are asked for"
            }
        reportWarning(
            place, "\(shown).login.\(login.provider): there is no endpoint for it, and no metadata that name one",
            remedy: remedy)
    }

    /// A token or code that works for one login only would be taken by one of two users.
    private mutating func warnOfSharedFile(_ user: UserSettings, _ place: ConfigurationPlace, shown: String) {
        guard let file = Self.oneUseFile(user) else { return }
        let other = accounts.users(of: file).first { other in
            other.login?.kind == user.login?.kind && (repeatsTokens(user) && repeatsTokens(other)) == false
        }
        accounts.add(user, of: file)
        guard let other else { return }
        reportWarning(
            place,
            "\(shown).login: \(other.name) has the same file, whose content works for one login only",
            remedy: "give each user a file of its own")
    }

    private static func oneUseFile(_ user: UserSettings) -> String? {
        switch user.login?.kind {
        case .refreshToken, .googleAuthCode: user.login?.secretFile
        default: nil
        }
    }

    /// The identity's refresh tokens work as often as they are used.
    private func repeatsTokens(_ user: UserSettings) -> Bool {
        guard case .oauth(let client) = accounts.identity(user.identity)?.kind else { return false }
        return client.refreshTokens.rotation == .none
    }
}
