/// Reads the providers of one app (emulator.md 3.2).
enum ProviderReader {
    typealias ReadError = SeedReader.ReadError

    static func providers(
        _ node: ConfigurationNode, _ files: SeedFiles, appID: String
    ) throws(ReadError) -> ProviderSettings {
        var settings = ProviderSettings()
        settings.enabled = []
        for (name, value) in try node.members(Provider.allCases.map(\.rawValue)) {
            guard let provider = Provider(rawValue: name) else { continue }
            let members = try value.members(known(provider) + ["enabled"])
            var isEnabled = true
            for (key, value) in members where key == "enabled" { isEnabled = try value.flag(key) }
            if isEnabled { settings.enabled.insert(provider) }
            for (key, value) in members where key == "browser_user" {
                settings.browserUsers[provider] = try externalUser(value)
            }
            try read(provider, members, files, value.line, into: &settings)
        }
        if settings.customToken.audience.isEmpty { settings.customToken.audience = [appID] }
        return settings
    }

    private static func known(_ provider: Provider) -> [String] {
        switch provider {
        case .anonymous, .apiKey: []
        case .emailPassword:
            [
                "confirmation", "confirmation_function", "confirmation_url", "confirmation_subject", "reset",
                "reset_function", "reset_url", "reset_subject", "emails_case_sensitive",
            ]
        case .customFunction: ["function"]
        case .customToken:
            ["keys", "jwks", "jwks_file", "audience", "require_any_audience", "metadata_fields"]
        case .google: ["jwks", "jwks_file", "client_ids", "issuers", "auth_codes", "codes_work_once", "browser_user"]
        case .apple: ["jwks", "jwks_file", "client_ids", "issuers", "browser_user"]
        case .facebook: ["tokens", "browser_user"]
        }
    }

    private static func read(
        _ provider: Provider, _ members: [(key: String, value: ConfigurationNode)], _ files: SeedFiles, _ line: Int,
        into settings: inout ProviderSettings
    ) throws(ReadError) {
        switch provider {
        case .anonymous, .apiKey: break
        case .emailPassword: settings.emailPassword = try emailPassword(members, line)
        case .customFunction:
            guard let function = members.first(where: { $0.key == "function" })?.value else {
                throw .init(line: line, "function is missing")
            }
            settings.loginFunction = try function.text("function")
        case .customToken: settings.customToken = try TokenSettingsReader.customToken(members, files, line)
        case .google:
            settings.google = try TokenSettingsReader.openID(members, files, issuers: settings.google.issuers)
            for (key, value) in members {
                if key == "auth_codes" { settings.googleCodes = try externalUsers(value) }
                if key == "codes_work_once" { settings.areCodesUsedUp = try value.flag(key) }
            }
        case .apple:
            settings.apple = try TokenSettingsReader.openID(members, files, issuers: settings.apple.issuers)
        case .facebook:
            for (key, value) in members where key == "tokens" { settings.facebookTokens = try externalUsers(value) }
        }
    }

    private static func emailPassword(
        _ members: [(key: String, value: ConfigurationNode)], _ line: Int
    ) throws(ReadError) -> EmailPasswordSettings {
        var settings = EmailPasswordSettings()
        var modes: [String: String] = [:]
        for (key, value) in members {
            switch key {
            case "confirmation_url": settings.confirmationMail.url = try value.text(key)
            case "confirmation_subject": settings.confirmationMail.subject = try value.text(key)
            case "reset_url": settings.resetMail.url = try value.text(key)
            case "reset_subject": settings.resetMail.subject = try value.text(key)
            case "emails_case_sensitive": settings.isCaseSensitive = try value.flag(key)
            default: modes[key] = try value.text(key)
            }
        }
        switch modes["confirmation"] ?? "automatic" {
        case "automatic": settings.confirmation = .automatic
        case "email": settings.confirmation = .email
        case "function":
            guard let name = modes["confirmation_function"] else {
                throw .init(line: line, "confirmation_function is missing")
            }
            settings.confirmation = .function(name)
        default: throw .init(line: line, "confirmation is automatic, email or function")
        }
        switch modes["reset"] ?? "email" {
        case "email": settings.reset = .email
        case "function":
            guard let name = modes["reset_function"] else { throw .init(line: line, "reset_function is missing") }
            settings.reset = .function(name)
        default: throw .init(line: line, "reset is email or function")
        }
        return settings
    }

    private static func externalUsers(_ node: ConfigurationNode) throws(ReadError) -> [String: ExternalUser] {
        var users: [String: ExternalUser] = [:]
        for (key, value) in try node.members() { users[key] = try externalUser(value) }
        return users
    }

    /// `id`, and any members of the profile's `data`.
    private static func externalUser(_ node: ConfigurationNode) throws(ReadError) -> ExternalUser {
        var id: String?
        var data = JSONObject()
        for (key, value) in try node.members() {
            if key == "id" { id = try value.text(key) } else { data[key] = value.json }
        }
        return ExternalUser(id: try AppReader.required(id, "id", node), data: data)
    }
}
