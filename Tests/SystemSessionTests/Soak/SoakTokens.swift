import Foundation
import LanyardFoundations
import TestSupport

@testable import SystemTestSupport

/// What the upstreams saw of the emulator's access tokens: whose they are, and when each was seen last.
final class SoakTokens: Sendable {
    private struct Claims {
        let id: String
        let account: String
    }

    private struct State {
        var claims: [String: Claims] = [:]
        /// By the token's `jti`, in seconds since 1970.
        var lastSeen: [String: Double] = [:]
        /// Ids of accounts by the name of the Lanyard user.
        var accounts: [String: String] = [:]
    }

    private let state = Guarded(State())

    /// From now on tokens of that user have to be those of the account.
    func expect(_ user: String, toBe account: String) { state.withLock { $0.accounts[user] = account } }

    func knows(_ user: String) -> Bool { state.withLock { $0.accounts[user] != nil } }

    /// What is wrong with a token that came for a user; nil: nothing.
    func judge(_ token: String, for user: String, arrivedAt: Double) -> String? {
        state.withLock { state in
            guard let claims = state.claims[token] ?? Self.claims(of: token) else { return "a token of another kind" }
            state.claims[token] = claims
            state.lastSeen[claims.id] = max(state.lastSeen[claims.id] ?? 0, arrivedAt)
            let wanted = state.accounts[user]
            return claims.account == wanted
                ? nil : "a token of \(claims.account), not of \(user) (\(wanted ?? "unknown"))"
        }
    }

    /// Tokens that were used after their end, or that the service never gave out.
    func expiredUses(issued: [JSON]) -> [String] {
        let ends = Dictionary(issued.map { ($0["id"].string ?? "", $0["expires_at"].double ?? 0) }) { $1 }
        return state.withLock { $0.lastSeen }.compactMap { id, seen in
            guard let end = ends[id] else { return "token \(id) was never given out" }
            // The first bytes of a connection carry no time of the kernel's: the server's thread may have come late for them.
            return seen > end + 0.25 ? "token \(id) was used \(seen - end) s after its end" : nil
        }
    }

    private static func claims(of token: String) -> Claims? {
        let parts = token.split(separator: ".")
        guard parts.count == 3 else { return nil }
        var text = parts[1].replacing("-", with: "+").replacing("_", with: "/")
        text += String(repeating: "=", count: (4 - text.utf8.count % 4) % 4)
        guard let data = Data(base64Encoded: String(text)), let json = try? JSON(data), let id = json["jti"].string,
            let account = json["sub"].string
        else { return nil }
        return Claims(id: id, account: account)
    }
}

/// Tokens that may be used, known by their text.
final class KnownTokens: Sendable {
    private let tokens = Guarded<Set<String>>([])

    func add(_ token: String) { tokens.withLock { _ = $0.insert(token) } }

    func contains(_ token: String) -> Bool { tokens.withLock { $0.contains(token) } }
}
