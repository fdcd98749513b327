import LanyardSettings

/// `routes[].token`.
extension ConfigurationBuilder {
    /// Each variant of a user costs a token call for each of its lifetimes.
    private static let variantsMax = 16
    private static let valuesMax = 32

    /// The token that the route asks for; the plain one after an error.
    mutating func token(_ route: ConfigurationSection, of user: String?, shown: String) -> TokenVariant {
        let section = route.section("token")
        let shown = "\(shown).token"
        let audience = section.text("audience").flatMap { $0 == "none" ? nil : $0 }
        let resources = values(section, "resource", shown: shown) { resource in
            Self.isResource(resource)
                ? nil
                : (
                    "is no absolute URI without a fragment (RFC 8707)",
                    "write such as https://api.example.com, or use audience"
                )
        }
        let scopes = values(section, "scopes", shown: shown) { scope in
            Self.isScope(scope)
                ? nil : ("is no scope", "write each scope as an element of its own, without blanks and quotes")
        }
        let variant = TokenVariant(audience: audience, resources: Set(resources), scopes: Set(scopes))
        guard variant != .plain, checkUser(user, route, shown: shown) else { return .plain }
        return variant
    }

    /// The route names a token other than the plain one.
    func asksForToken(_ route: ConfigurationSection) -> Bool {
        let section = route.section("token")
        return section.text("audience").map { $0 != "none" } ?? false
            || ["resource", "scopes"].contains { section.texts($0)?.isEmpty == false }
    }

    /// - Parameter fault: what is wrong with a value, and the remedy; nil: nothing.
    private mutating func values(
        _ section: ConfigurationSection, _ key: String, shown: String,
        _ fault: (String) -> (message: String, remedy: String)?
    ) -> [String] {
        var values: [String] = []
        for element in section.node[key]?.elements ?? [] {
            guard let value = element.text else { continue }
            if let fault = fault(value) {
                reportError(
                    element.place, "\(shown).\(key): \(ConfigurationText.quoted(value)) \(fault.message)",
                    remedy: fault.remedy)
            } else if values.contains(value) {
                reportError(
                    element.place, "\(shown).\(key) has \(ConfigurationText.quoted(value)) twice",
                    remedy: "keep one of them")
            } else {
                values.append(value)
            }
        }
        if values.count > Self.valuesMax {
            reportError(
                section.place(key), "\(shown).\(key) has more than \(Self.valuesMax) values", remedy: "ask for fewer")
        }
        return values
    }

    /// Only a configured user of an OAuth 2.0 identity has several access tokens. Another active user may have one alone.
    private mutating func checkUser(_ user: String?, _ route: ConfigurationSection, shown: String) -> Bool {
        guard !route.isUnread("user"), !userNames.isPartial, !identityNames.isPartial else { return true }
        guard let user else {
            reportError(
                route.place("token"),
                "\(shown): the route follows the active user, who may be one with a single access token",
                remedy: "name the user with user:")
            return false
        }
        // Another error says that the user is missing, or what is wrong with it.
        guard let settings = accounts.user(user),
            let kind = identityKinds[settings.identity]
        else { return false }
        guard kind == "oauth2" || kind == "lanyard" else {
            reportError(
                route.place("token"),
                "\(shown): a user of a \(kind) identity has one access token, and \(user) is one",
                remedy: "remove token, or name a user of an identity of kind oauth2 or lanyard")
            return false
        }
        if case .oauth(let client)? = accounts.identity(settings.identity)?.kind, client.accessTokens == .single {
            reportError(
                route.place("token"),
                "\(shown): the identity \(settings.identity) has one access token at a time (access_tokens: single)",
                remedy: "remove token, give the route a user of another identity, or write access_tokens: several")
            return false
        }
        return true
    }

    /// Reports a user with too many variants. After all routes were read.
    mutating func checkVariantCounts(_ routes: ConfigurationNode) {
        for (user, variants) in configuration.variants.sorted(by: { $0.key < $1.key })
        where variants.count > Self.variantsMax {
            reportError(
                routes.place,
                "routes ask for \(variants.count) access tokens of \(user); at most \(Self.variantsMax) are kept",
                remedy: "let routes share a token, or use several users")
        }
    }

    private static func isResource(_ text: String) -> Bool {
        guard let colon = text.firstIndex(of: ":"), let first = text.utf8.first else { return false }
        let isLetter = { (byte: UInt8) in 0x41...0x5a ~= byte || 0x61...0x7a ~= byte }
        let scheme = text[..<colon].utf8
        return isLetter(first)
            && scheme.allSatisfy { isLetter($0) || 0x30...0x39 ~= $0 || "+-.".utf8.contains($0) }
            && text.utf8.allSatisfy { 0x21...0x7e ~= $0 && $0 != UInt8(ascii: "#") } && text.last != ":"
    }

    /// RFC 6749 3.3.
    static func isScope(_ text: String) -> Bool {
        text.utf8.allSatisfy { 0x21...0x7e ~= $0 && $0 != UInt8(ascii: "\"") && $0 != UInt8(ascii: "\\") }
    }
}
