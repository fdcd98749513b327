import LanyardFoundations
import LanyardIdentity
import LanyardSessionInterface
import LanyardSettings

/// One login of a user for `lanyard check --online --login`, with the access tokens that routes ask for. They are fetched one after
/// another, as the running program does, so that a fetch which would cost the session is told before. All tokens are dropped, and the
/// session is ended.
struct LoginTrial: Sendable {
    let client: any IdentityClient
    let user: String
    let identity: String
    let login: UserSettings.Login
    /// Those that routes ask for.
    let variants: [NamedVariant]

    typealias Reply = @Sendable ([OnlineCheck.Finding]) -> Void

    /// How far the trial has come.
    private struct Progress: Sendable {
        /// Of the login's own token.
        let lifetime: Duration
        /// The latest one; nil: there is none.
        var refreshToken: Secret?
        /// The scopes that the login has granted; nil: unknown.
        let granted: Set<String>?
        /// A route's token with scopes of its own has been fetched.
        var hasOwnScopes = false
        /// Of routes.
        var findings: [OnlineCheck.Finding] = []
        /// The refresh token was refused.
        var hasSessionEnded = false

        /// The refresh token that is to be sent next.
        mutating func take(_ grant: Grant) {
            if refreshToken != nil { refreshToken = grant.refreshToken ?? refreshToken }
        }
    }

    private var place: String { "login of \(user) at \(identity)" }

    func run(_ reply: @escaping Reply) {
        client.login(.configured(login), guarded: nil) { outcome in
            switch outcome {
            case .failure(let error):
                if let token = error.unusedRefreshToken { client.revoke(token) { _ in } }
                reply([.init(outcome: .failed, text: "\(place): \(error.operatorMessage)")])
            case .success(let grant):
                let progress = Progress(
                    lifetime: grant.lifetime, refreshToken: grant.refreshToken, granted: grant.scopes)
                fetch(variants[...], progress, reply)
            }
        }
    }

    private func fetch(_ pending: ArraySlice<NamedVariant>, _ progress: Progress, _ reply: @escaping Reply) {
        guard let named = pending.first, !progress.hasSessionEnded else { return compareScopes(progress, reply) }
        let call = CallProgress(.refresh)
        client.fetch(named.variant, by: proof(progress), progress: call) { outcome in
            var progress = progress
            let place = "token of route \(named.name) for \(user) at \(identity)"
            switch outcome {
            case .success(let grant):
                progress.take(grant)
                progress.hasOwnScopes = progress.hasOwnScopes || !named.variant.scopes.isEmpty
                progress.findings.append(
                    grant.audienceMismatch.map { .init(outcome: .failed, text: "\(place): \($0)") }
                        ?? .init(outcome: .reached, text: "\(place): for \(grant.lifetime.components.seconds) s"))
                fetch(pending.dropFirst(), progress, reply)
            case .failure(let error):
                confirm(progress) { progress in
                    var progress = progress
                    let cost = progress.hasSessionEnded ? "; \(VariantBlock.endsSession.message)" : ""
                    progress.findings.append(.init(outcome: .failed, text: "\(place): \(error.operatorMessage)\(cost)"))
                    fetch(pending.dropFirst(), progress, reply)
                }
            }
        }
    }

    /// After a refused fetch: whether the session lives.
    private func confirm(_ progress: Progress, _ next: @escaping @Sendable (Progress) -> Void) {
        refresh(progress) { progress, outcome in
            var progress = progress
            if case .failure(let error)? = outcome, error.verdict == .sessionDead { progress.hasSessionEnded = true }
            next(progress)
        }
    }

    /// A fetch with fewer scopes may have taken the others away from the session.
    private func compareScopes(_ progress: Progress, _ reply: @escaping Reply) {
        guard progress.hasOwnScopes, !progress.hasSessionEnded, let granted = progress.granted else {
            return end(progress, reply)
        }
        refresh(progress) { progress, outcome in
            var progress = progress
            if case .success(let grant)? = outcome, let stated = grant.scopes, !granted.isSubset(of: stated) {
                let missing = granted.subtracting(stated).sorted().joined(separator: " ")
                progress.findings.append(
                    .init(
                        outcome: .failed,
                        text: "scopes of \(user) at \(identity): a refresh has brought a token without \(missing); "
                            + VariantBlock.narrowsSession.message))
            }
            end(progress, reply)
        }
    }

    /// - Parameter next: with nil if there is no refresh token.
    private func refresh(
        _ progress: Progress, _ next: @escaping @Sendable (Progress, Result<Grant, IdentityError>?) -> Void
    ) {
        guard let token = progress.refreshToken else { return next(progress, nil) }
        client.refresh(token, scopes: scopes(progress), progress: CallProgress(.refresh)) { outcome in
            var progress = progress
            if case .success(let grant) = outcome { progress.take(grant) }
            next(progress, outcome)
        }
    }

    private func proof(_ progress: Progress) -> VariantProof {
        progress.refreshToken.map { .refreshToken($0, scopes: scopes(progress)) } ?? .login(.configured(login), nil)
    }

    /// As the running program sends them (oauth-rules.md 2).
    private func scopes(_ progress: Progress) -> [String] {
        variants.contains { !$0.variant.scopes.isEmpty } ? progress.granted?.sorted() ?? [] : []
    }

    private func end(_ progress: Progress, _ reply: @escaping Reply) {
        let done = { @Sendable (ending: String) in
            let seconds = progress.lifetime.components.seconds
            let own = OnlineCheck.Finding(outcome: .reached, text: "\(place): a token for \(seconds) s, \(ending)")
            reply([own] + progress.findings)
        }
        guard let token = progress.refreshToken, !progress.hasSessionEnded else {
            return done(progress.hasSessionEnded ? "and its session has ended" : "which is dropped")
        }
        client.revoke(token) { done(Self.ending($0)) }
    }

    /// The result for the session of a login.
    private static func ending(_ revoked: Result<Void, IdentityError>) -> String {
        switch revoked {
        case .success: "and its session is ended again"
        case .failure(let error): "but its session could not be ended, and ends by itself: \(error.operatorMessage)"
        }
    }
}
