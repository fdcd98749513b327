import LanyardFoundations
import LanyardRequestPath
import Logging

/// Who has got which tokens from this process (B8): counted, and logged without the token. Shared by all brokers and shards, and kept by
/// reloads.
///
/// Behind a lock: no request is forwarded here, and a grant that other shards count, too, must be one line.
package final class IssuedTokens: Sendable {
    private struct Key: Hashable {
        let caller: String
        let user: String
        let audience: String
    }

    private struct Issue {
        var total: UInt64 = 0
        var generation: UInt64 = 0
        /// Grants since the latest line.
        var unsaid = 0
        var saidAt = Instant.past
    }

    private struct State {
        var issues: [Key: Issue] = [:]
        /// The users of the latest tokens, by a hash of each.
        var users: [[UInt8]: String] = [:]
        /// The hashes in the order in which they came.
        var hashes: [[UInt8]] = []
    }

    /// One line for a token and a caller in this time.
    private static let lineInterval = Duration.seconds(60)
    /// Tokens that token exchange knows. The oldest is forgotten first.
    private static let tokensMax = 4096

    private let state = Guarded(State())
    private let key = KeyedHash.newKey()
    private let log: Logger

    package init(log: Logger) { self.log = log }

    /// A caller gets the token.
    func record(_ token: AccessToken, to grant: TokenGrant, of user: String, expiresIn: Int?, at now: Instant) {
        let key = Key(caller: grant.caller, user: user, audience: grant.audience)
        let (count, isNew) = state.withLock { state -> (Int, Bool) in
            var issue = state.issues[key] ?? Issue()
            let isNew = issue.total == 0 || issue.generation != token.generation
            issue.total &+= 1
            issue.unsaid += 1
            issue.generation = token.generation
            var count = 0
            if isNew || now - issue.saidAt >= Self.lineInterval {
                (count, issue.unsaid, issue.saidAt) = (issue.unsaid, 0, now)
            }
            state.issues[key] = issue
            return (count, isNew)
        }
        if isNew { remember(token, of: user) }
        guard count > 0 else { return }
        var metadata: Logger.Metadata = [
            "event": "token.issued", "caller": .string(grant.caller), "user": .string(user),
            "count": .stringConvertible(count),
        ]
        if !grant.audience.isEmpty { metadata["audience"] = .string(grant.audience) }
        if let expiresIn { metadata["expires_in"] = .stringConvertible(expiresIn) }
        log.info("a caller has got an access token", metadata: metadata)
    }

    private func remember(_ token: AccessToken, of user: String) {
        let hash = hash(of: token.token)
        state.withLock { state in
            guard state.users.updateValue(user, forKey: hash) == nil else { return }
            state.hashes.append(hash)
            if state.hashes.count > Self.tokensMax { state.users[state.hashes.removeFirst()] = nil }
        }
    }

    private func hash(of token: Secret) -> [UInt8] { token.withBytes { KeyedHash.sha256($0, key: key) } }

    /// The user whose token a broker of this process has handed out; nil: none that is remembered.
    func user(ofToken token: Secret) -> String? {
        let hash = hash(of: token)
        return state.withLock { $0.users[hash] }
    }

    /// For `/metrics`. From any thread.
    package var samples: [MetricSample] {
        var totals: [[MetricSample.Label]: UInt64] = [:]
        for (key, issue) in state.withLock({ $0.issues }) {
            totals[[.init("caller", key.caller), .init("user", key.user)], default: 0] += issue.total
        }
        return totals.sorted { "\($0.key)" < "\($1.key)" }.map {
            MetricSample("lanyard_tokens_issued", suffix: "_total", labels: $0.key, value: Double($0.value))
        }
    }
}
