import LanyardFoundations
import LanyardSettings

/// `identities`, `users`, `active_user`.
extension ConfigurationBuilder {
    private static let kinds = ["app_services", "static", "oauth2", "github_app", "lanyard"]

    static func kinds(of identities: [ConfigurationNode.Entry]) -> [String: String] {
        var result: [String: String] = [:]
        for entry in identities {
            let given = entry.value.entries.map(\.key).filter(kinds.contains)
            if given.count == 1 { result[entry.key] = given[0] }
        }
        return result
    }

    mutating func readIdentities(_ top: ConfigurationSection) {
        for entry in top.node["identities"]?.entries ?? [] {
            if let identity = identity(ConfigurationSection(entry.value), name: entry.key) {
                accounts.add(identity, entry.value)
                configuration.identities.append(identity)
            }
        }
    }

    private mutating func identity(_ section: ConfigurationSection, name: String) -> IdentitySettings? {
        let shown = "identities.\(name)"
        guard let kind = singleKind(section, of: Self.kinds, shown: shown) else { return nil }
        let inner = section.section(kind)
        // First, so that a missing file is reported even if the rest is wrong.
        let tls = section.section("tls")
        let caFile = certificates(tls, "ca_file", shown: "\(shown).tls")
        let certificateFile = certificates(tls, "certificate_file", shown: "\(shown).tls")
        let keyFile = requiredFile(tls, "key_file", shown: "\(shown).tls", isPrivate: true)
        if tls.has("certificate_file") != tls.has("key_file"), !tls.node.hasUnread {
            reportError(
                tls.node.place, "\(shown).tls: certificate_file and key_file belong together",
                remedy: "give both or none")
        }
        var identity: IdentitySettings
        switch kind {
        case "app_services":
            guard let appID = inner.text("app_id"), let base = inner.text("base_url").flatMap({ try? URLText.base($0) })
            else { return nil }
            var settings = IdentitySettings.AppServices(appID: appID, baseURL: base)
            checkReach(inner, "base_url", of: section, shown: "\(shown).app_services")
            inner.fill(&settings.rotation, "rotation")
            identity = IdentitySettings(name: name, kind: .appServices(settings))
        case "static":
            guard let file = secret(inner, "token_file", shown: "\(shown).static", sent: .token) else { return nil }
            identity = IdentitySettings(name: name, kind: .staticToken(file: file))
        case "oauth2":
            guard
                let settings = oauth(
                    inner, of: section, hasCertificate: certificateFile != nil, shown: "\(shown).oauth2")
            else { return nil }
            identity = IdentitySettings(name: name, kind: .oauth(settings))
        case "github_app":
            guard let settings = gitHubApp(inner, of: section, shown: "\(shown).github_app") else { return nil }
            identity = IdentitySettings(name: name, kind: .gitHubApp(settings))
        case "lanyard":
            guard let settings = otherLanyard(inner, of: section, shown: "\(shown).lanyard") else { return nil }
            identity = IdentitySettings(name: name, kind: .lanyard(settings))
        default: return nil
        }
        (identity.caFile, identity.certificateFile, identity.keyFile) = (caFile, certificateFile, keyFile)
        section.fill(&identity.allowsPlain, "unsafe_plain")
        warnOfNeedlessTLS(identity, section, shown: shown)
        readProxy(section, &identity, shown: shown)
        return identity
    }

    /// Refuses metadata services, and plain http to other machines unless the identity allows it.
    ///
    /// - Parameter identity: the section that may have `unsafe_plain`.
    /// - Returns: false: an error was reported.
    @discardableResult
    mutating func checkReach(
        _ section: ConfigurationSection, _ key: String, of identity: ConfigurationSection, shown: String
    ) -> Bool {
        guard let text = section.text(key) else { return true }
        return checkReach(text, section.place(key), of: identity, shown: "\(shown).\(key)")
    }

    /// The same for one URL; another address than a URL is on this machine.
    mutating func checkReach(
        _ text: String, _ place: ConfigurationPlace, of identity: ConfigurationSection, shown: String
    ) -> Bool {
        guard let parts = try? URLText.parts(text, takesQuery: true) else { return true }
        let reach = AddressText.reach(parts.host)
        guard reach != .linkLocal else {
            reportError(
                place, "\(shown): \(parts.host) is an address of metadata services, such as link-local ones",
                remedy: "name the identity service; no identity call goes there")
            return false
        }
        let isAllowed = identity.text("unsafe_plain").flatMap(ConfigurationText.boolean) ?? false
        guard !parts.isTLS, reach != .loopback, !isAllowed, !identity.isUnread("unsafe_plain") else { return true }
        let name = shown.split(separator: ".").prefix(2).joined(separator: ".")
        reportError(
            place,
            "\(shown): plain http would show passwords and tokens on the network path to \(parts.host)",
            remedy: "use https, or "
                + place.adding("unsafe_plain: true to \(name)", to: "identities.*", flag: "--unsafe-plain")
                + " if that way is safe")
        return false
    }

    /// Warns of TLS settings that have no effect because no TLS is used.
    private mutating func warnOfNeedlessTLS(
        _ identity: IdentitySettings, _ section: ConfigurationSection, shown: String
    ) {
        guard identity.caFile ?? identity.certificateFile ?? identity.keyFile != nil else { return }
        switch identity.kind {
        case .staticToken:
            reportWarning(
                section.place("tls"), "\(shown).tls is ignored: a static identity calls no service", remedy: "remove it"
            )
        case .appServices(let app) where URLOrigin(of: app.baseURL)?.isTLS == false:
            reportWarning(
                section.place("tls"), "\(shown).tls is ignored: base_url is plain http",
                remedy: "use https, or remove tls")
        case .gitHubApp(let app) where URLOrigin(of: app.baseURL)?.isTLS == false:
            reportWarning(
                section.place("tls"), "\(shown).tls is ignored: base_url is plain http",
                remedy: "use https, or remove tls")
        case .lanyard(let other) where !other.addresses.contains { URLOrigin(of: $0.description)?.isTLS == true }:
            reportWarning(
                section.place("tls"), "\(shown).tls is ignored: no address is at https",
                remedy: "use https, or remove tls")
        case .oauth(let client) where URLOrigin(of: client.endpoints.token ?? client.issuer ?? "")?.isTLS == false:
            reportWarning(
                section.place("tls"), "\(shown).tls is ignored: the server is at plain http",
                remedy: "use https, or remove tls")
        default: break
        }
    }

    /// The one key of `kinds` that is given. nil: an error was reported, or the value is invalid.
    ///
    /// - Parameter fitting: the kinds that fit here; nil: all.
    private mutating func singleKind(
        _ section: ConfigurationSection, of kinds: [String], suggesting fitting: [String]? = nil, shown: String
    ) -> String? {
        guard case .mapping(let entries) = section.node.content else { return nil }
        let given = entries.filter { kinds.contains($0.key) }
        if given.count > 1 {
            reportError(
                given[1].place, "\(shown): both \(given[0].key) and \(given[1].key)", remedy: "keep one of them")
            return nil
        }
        if given.isEmpty, !section.node.hasUnread {
            let known = (fitting ?? kinds).filter { kind in
                !UnsupportedSetting.all.contains {
                    $0.path.hasSuffix(".*.\(kind)") || $0.path.hasSuffix(".login.\(kind)")
                }
            }
            reportError(
                section.node.place, "\(shown) has no kind", remedy: "add one of \(known.joined(separator: ", "))")
        }
        return given.first?.key
    }

    mutating func readUsers(_ top: ConfigurationSection) {
        for entry in top.node["users"]?.entries ?? [] {
            readUser(ConfigurationSection(entry.value), name: entry.key)
        }
        configuration.configuredActiveUser = top.text("active_user")
        configuration.activeUser = top.text("active_user") ?? configuration.users.first?.name
        if let active = top.text("active_user"), userNames.isUnknown(active) {
            reportWarning(
                top.place("active_user"), "active_user: no user \"\(active)\" is configured",
                remedy: userNames.suggestion(for: active) ?? "requests get 503 until it exists")
        }
    }

    private mutating func readUser(_ section: ConfigurationSection, name: String) {
        let shown = "users.\(name)"
        guard let identity = section.text("identity") else { return }
        guard identityNames.contains(identity) else {
            if identityNames.isPartial { return }
            let remedy =
                identityNames.suggestion(for: identity)
                ?? (identityNames.all.isEmpty ? "add it below identities" : "known: \(identityNames.listed)")
            return reportError(
                section.place("identity"), "\(shown).identity: no identity \"\(identity)\"", remedy: remedy)
        }
        var user = UserSettings(name: name, identity: identity)
        let hasForeignLogin = reportForeignLogin(section, at: identityKinds[identity], shown: shown)
        if section.has("login"), !hasForeignLogin {
            user.login = login(section, at: identityKinds[identity], shown: shown)
            warnOfLogin(user, section, shown: shown)
        }
        if !section.has("login"), !section.node.hasUnread, Self.service(identityKinds[identity]) != nil {
            reportWarning(
                section.node.place,
                "\(shown) has no login: its requests get 503 login-required until an operator logs it in",
                remedy: "add login, or log it in by the admin API")
        }
        // No session can begin such a login by itself.
        if let kind = user.login?.kind, kind.isInteractive { (user.login, user.interactiveLogin) = (nil, kind) }
        accounts.add(user)
        configuration.users.append(user)
    }

    /// Reports a login that its identity does not have. What is missing in it is no mistake of its own.
    ///
    /// - Returns: whether it is one.
    private mutating func reportForeignLogin(
        _ section: ConfigurationSection, at identityKind: String?, shown: String
    ) -> Bool {
        if identityKind == "static", section.has("login") {
            diagnostics.removeAll { $0.message.hasPrefix("missing key \"\(shown).login.") }
            reportError(
                section.place("login"), "\(shown).login: a static identity has no login", remedy: "remove the login")
            return true
        }
        guard let service = Self.service(identityKind) else { return false }
        let given = section.section("login").node.entries.filter { entry in
            LoginKind.allCases.contains { $0.provider == entry.key }
        }
        guard given.count == 1, let kind = LoginKind.allCases.first(where: { $0.provider == given[0].key }),
            kind.service != service
        else { return false }
        diagnostics.removeAll { $0.message.hasPrefix("missing key \"\(shown).login.") }
        reportError(
            section.place("login"),
            "\(shown).login.\(kind.provider): \(Self.article(service)) \(service.key) identity has no such login",
            remedy: "use one of \(LoginKind.providers(of: service).joined(separator: ", "))")
        return true
    }

    private mutating func login(
        _ user: ConfigurationSection, at identityKind: String?, shown: String
    ) -> UserSettings.Login? {
        let section = user.section("login")
        let kinds = ConfigurationKeys.keys(in: "users.*.login").map(\.name)
        let fitting = Self.service(identityKind).map { LoginKind.providers(of: $0) }
        guard let provider = singleKind(section, of: kinds, suggesting: fitting, shown: "\(shown).login") else {
            return nil
        }
        let inner = section.section(provider)
        let shownKind = "\(shown).login.\(provider)"
        guard let kind = loginKind(of: provider, inner, shown: shownKind) else { return nil }
        var file: String?
        let form: SecretText.Form =
            switch kind {
            case .emailPassword, .password: .any
            case .function, .signedAssertion, .googleKey: .document
            default: .token
            }
        if kind == .signedAssertion {
            file = secret(inner.section("key"), "file", shown: "\(shownKind).key", form: form)
        } else if let name = kind.secretName {
            file = secret(inner, name + "_file", shown: shownKind, form: form)
        }
        var login = UserSettings.Login(kind, account: kind.accountName.flatMap { inner.text($0) }, secret: file)
        switch kind {
        case .signedAssertion: login?.assertion = assertion(inner.section("key"), shown: "\(shownKind).key")
        case .googleKey:
            login?.assertion?.algorithm = .rs256
            login?.assertion?.scopePlace = .claim
            login?.assertion?.subject = inner.text("google_subject")
        case .tokenExchange: completeTokenExchange(&login, inner, shown: shownKind)
        default: break
        }
        if kind != .googleKey, inner.has("google_subject") {
            reportError(
                inner.place("google_subject"), "\(shownKind).google_subject needs google_key_file",
                remedy: "remove it; of another key the subject is key.subject")
        }
        return login
    }

    static func service(_ identityKind: String?) -> LoginKind.Service? {
        LoginKind.Service.allCases.first { $0.key == identityKind }
    }

    private static func article(_ service: LoginKind.Service) -> String {
        switch service {
        case .appServices, .oauth: "an"
        case .gitHubApp, .lanyard: "a"
        }
    }

    /// The kind with this provider; of several, the one whose secret is given. A Google login has an ID token or an authorization code.
    private mutating func loginKind(
        of provider: String, _ section: ConfigurationSection, shown: String
    ) -> LoginKind? {
        let kinds = LoginKind.allCases.filter { $0.provider == provider }
        guard kinds.count > 1 else { return kinds.first }
        let names = kinds.compactMap(\.secretName)
        let given = zip(kinds, names).compactMap { kind, name in
            (kind == .signedAssertion ? [name] : [name + "_file", name + "_credential"])
                .first(where: section.has).map { (kind: kind, key: $0) }
        }
        if given.count > 1 {
            reportError(
                section.place(given[1].key), "\(shown): both \(given[0].key) and \(given[1].key)",
                remedy: "keep one of them")
            return nil
        }
        if given.isEmpty, !section.node.hasUnread {
            let keys = kinds.compactMap { $0 == .signedAssertion ? "key: {file: …}" : $0.fileKey }
                .joined(separator: " or ")
            reportError(section.node.place, "\(shown) has no secret", remedy: "add \(keys)")
        }
        return given.first?.kind
    }
}
