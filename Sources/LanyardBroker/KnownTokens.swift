import LanyardFoundations
import LanyardRequestPath
import LanyardSettings

/// The tokens that a broker may hand out: each user of its rows, and the kinds of tokens that the configuration names for it. A session
/// fetches no kind that nothing names.
final class KnownTokens: @unchecked Sendable {
    /// Without the active user.
    let names: [String]
    private let variants: [String: [TokenVariant]]
    private let scopes: [String: [String]]
    /// By name and `TokenVariant.key`. Set by `bind`, before a shard asks.
    private var indexes: [String: [String: UserIndex]] = [:]

    init(
        of callers: [BrokerSettings.Caller], _ variants: [String: [TokenVariant]], _ scopes: [String: [String]]
    ) {
        var seen: Set<String> = []
        names = callers.flatMap(\.users).filter { $0 != BrokerSettings.activeUser && seen.insert($0).inserted }
        self.variants = variants
        self.scopes = scopes
    }

    func bind(in register: UserNames) -> [UserIndex] {
        var unknown: [UserIndex] = []
        for name in names {
            let (user, isNew) = register.add(name)
            if isNew { unknown.append(user) }
            var found = ["": user]
            for variant in variants[name] ?? [] { found[variant.key] = register.index(of: name, variant: variant.key) }
            indexes[name] = found
        }
        return unknown
    }

    var users: [UserIndex] { indexes.values.flatMap(\.values) }

    /// nil: there is no active user.
    func index(of name: String, _ variant: TokenVariant, active: UserIndex?) -> UserIndex? {
        if let user = indexes[name] { return user[variant.key] }
        return name == BrokerSettings.activeUser ? active : nil
    }

    func plainScopes(of user: String) -> [String] { scopes[user] ?? [] }

    /// The kind of token that is asked for, as far as the row gives it.
    ///
    /// - Returns: with its audience in words; empty: the plain one.
    func variant(
        _ asked: TokenRequest, of user: String, by row: BrokerSettings.Caller
    ) throws(GrantFormError) -> (variant: TokenVariant, audience: String) {
        var (audiences, resources) = (asked.audiences, asked.resources)
        if let allowed = row.audiences {
            guard (audiences + resources).allSatisfy(allowed.contains) else {
                throw .refused(.tokenNotAllowed(.invalidTarget))
            }
            // It gives only these, and not the plain token.
            if audiences.isEmpty, resources.isEmpty {
                guard allowed.count == 1 else {
                    throw .malformed("it names no audience, and the caller has several: add audience", .invalidTarget)
                }
                audiences = allowed
            }
        }
        let scopes = try self.scopes(asked, of: user, by: row, isPlain: audiences.isEmpty && resources.isEmpty)
        if audiences.isEmpty, resources.isEmpty, scopes.isEmpty { return (.plain, "") }
        let known = variants[user] ?? []
        let exact =
            audiences.count > 1
            ? nil : TokenVariant(audience: audiences.first, resources: Set(resources), scopes: Set(scopes))
        // The caller does not know by which parameter the identity service is asked.
        let swapped: TokenVariant? =
            switch (audiences.count, resources.count) {
            case (0, 1): TokenVariant(audience: resources[0], scopes: Set(scopes))
            case (1, 0): TokenVariant(resources: Set(audiences), scopes: Set(scopes))
            case (1, 1) where audiences == resources: TokenVariant(audience: audiences[0], scopes: Set(scopes))
            default: nil
            }
        resources = audiences + resources
        guard let found = [exact, swapped].compactMap(\.self).first(where: known.contains) else {
            let isTarget = !resources.isEmpty
            throw .refused(.tokenNotAllowed(isTarget ? .invalidTarget : .invalidScope))
        }
        return (found, found.text)
    }

    /// The scopes that the kind of token has; none: those of the plain one.
    private func scopes(
        _ asked: TokenRequest, of user: String, by row: BrokerSettings.Caller, isPlain: Bool
    ) throws(GrantFormError) -> [String] {
        if let allowed = row.scopes {
            guard asked.scopes.allSatisfy(allowed.contains) else { throw .refused(.tokenNotAllowed(.invalidScope)) }
            return asked.scopes.isEmpty ? allowed : asked.scopes
        }
        let own = Set(plainScopes(of: user))
        // The plain token has them anyway.
        if isPlain, !asked.scopes.isEmpty, own.isSuperset(of: asked.scopes) { return [] }
        return asked.scopes
    }
}
