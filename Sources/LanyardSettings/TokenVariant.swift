/// What an access token was asked for, beside its user: the audience, the resources and the scopes.
package struct TokenVariant: Hashable, Comparable, Sendable {
    /// The parameter `audience`; nil: not asked for.
    package let audience: String?
    /// The parameters `resource` (RFC 8707), in order and each once.
    package let resources: [String]
    /// The scopes (RFC 6749 3.3), in order and each once.
    package let scopes: [String]

    /// The token that a login and a refresh bring by themselves.
    package static let plain = TokenVariant()

    package init(audience: String? = nil, resources: Set<String> = [], scopes: Set<String> = []) {
        self.audience = audience
        self.resources = resources.sorted()
        self.scopes = scopes.sorted()
    }

    package static func < (one: TokenVariant, other: TokenVariant) -> Bool {
        one.order.lexicographicallyPrecedes(other.order)
    }

    /// A text that no other variant has; empty for the plain one.
    package var key: String {
        self == .plain ? "" : order.map { "\($0.utf8.count):\($0)" }.joined()
    }

    /// In words, such as `audience orders, scopes read write`; `plain`.
    package var text: String {
        var parts: [String] = []
        if let audience { parts.append("audience \(audience)") }
        if !resources.isEmpty { parts.append("resource \(resources.joined(separator: " "))") }
        if !scopes.isEmpty { parts.append("scopes \(scopes.joined(separator: " "))") }
        return parts.isEmpty ? "plain" : parts.joined(separator: ", ")
    }

    /// One order for all, so that a store has one text.
    private var order: [String] {
        [audience == nil ? "0" : "1", audience ?? ""] + resources.flatMap { ["1", $0] } + ["0"]
            + scopes.flatMap { ["1", $0] } + ["0"]
    }
}

/// A variant of a user's access token that routes name.
package struct NamedVariant: Hashable, Sendable {
    /// The name of the first route that names the variant, or the place in `brokers`: its label in status, log and metrics.
    package let name: String
    package let variant: TokenVariant

    package init(_ name: String, _ variant: TokenVariant) {
        self.name = name
        self.variant = variant
    }

    /// What names it, in words; no name of a route has a bracket.
    package static func owner(_ name: String) -> String { name.contains("[") ? name : "route \(name)" }
}
