import LanyardFoundations
import LanyardRequestPath
import LanyardSettings
import Logging

/// One entry of `brokers:`: who may have which access tokens, and how they are told (fleet.md). It sees no refresh token and no credential:
/// the token cache of the request path, which it does not have either, knows access tokens alone.
///
/// Unchangeable but for the indexes of its users, which it gets before a shard asks it. A reload makes another one.
package final class Broker: TokenGranter, @unchecked Sendable {
    private let settings: BrokerSettings
    private let rows: [CallerRow]
    private let known: KnownTokens
    private let issued: IssuedTokens

    /// - Parameters:
    ///   - capabilities: the place of each row's capability among those of a shard; nil: the row has none.
    ///   - variants: the kinds of tokens that routes and brokers name, by user.
    ///   - scopes: those of each user's plain token, as its identity asks for them.
    ///   - issued: of the process.
    package init(
        _ settings: BrokerSettings, capabilities: [Int?], variants: [String: [TokenVariant]],
        scopes: [String: [String]], issued: IssuedTokens
    ) {
        self.settings = settings
        self.issued = issued
        rows = zip(settings.callers, capabilities).enumerated().map { CallerRow($1.0, number: $0, capability: $1.1) }
        known = KnownTokens(of: settings.callers, variants, scopes)
    }

    package func bind(in names: UserNames) -> [UserIndex] { known.bind(in: names) }

    package var userNames: [String] { known.names }
    package var followsActive: Bool { settings.callers.contains { $0.users.contains(BrokerSettings.activeUser) } }
    package var users: [UserIndex] { known.users }

    // MARK: Which request it is

    package func decide(_ request: GrantRequest) -> GrantDecision {
        // Not even the target is a path.
        if request.method == .connect { return Self.refuse(.grantMethodNotAllowed("GET, POST", closes: true)) }
        let path = request.path
        if settings.serves.contains(.token) {
            if path.isEqual(to: "/v1/token") { return decideToken(request) }
            if path.isEqual(to: "/v1/token/refused") { return decideRefusal(request) }
        }
        if settings.serves.contains(.oauth2), path.isEqual(to: "/oauth2/token") { return decideOAuth(request) }
        if settings.serves.contains(.gceMetadata) { return decideMetadata(request) }
        return Self.refuse(.unknownGrantPath)
    }

    static func refuse(_ problem: Problem) -> GrantDecision { .refuse(problem, as: .problem) }

    /// nil: the method is the one that the path takes.
    private static func refusal(
        of request: GrantRequest, unless method: RequestHead.Method, _ allow: String, as form: ResponseForm = .problem
    ) -> GrantDecision? {
        guard request.method != method else { return nil }
        return .refuse(.grantMethodNotAllowed(allow, closes: false), as: form)
    }

    private func decideToken(_ request: GrantRequest) -> GrantDecision {
        if let refusal = Self.refusal(of: request, unless: .get, "GET") { return refusal }
        do throws(GrantFormError) {
            let asked = try TokenRequest(form: UnsafeRawBufferPointer(request.query), secretsAllowed: false)
            return try grant(asked, .token, to: request)
        } catch {
            return Self.refuse(error.problem)
        }
    }

    /// `POST /v1/token/refused` (B7).
    private func decideRefusal(_ request: GrantRequest) -> GrantDecision {
        if let refusal = Self.refusal(of: request, unless: .post, "POST") { return refusal }
        guard let body = request.body else { return .readBody(as: .problem) }
        do throws(GrantFormError) {
            let report = try RefusalReport(json: body)
            let found = try token(report.asked, for: request)
            return .reportRefusal(found.user, generation: report.generation)
        } catch {
            return Self.refuse(error.problem)
        }
    }

    private func decideOAuth(_ request: GrantRequest) -> GrantDecision {
        if let refusal = Self.refusal(of: request, unless: .post, "POST", as: .oauth) { return refusal }
        guard let body = request.body else { return .readBody(as: .oauth) }
        do throws(GrantFormError) {
            guard Self.isForm(request) else {
                throw .malformed("the body is no application/x-www-form-urlencoded")
            }
            var asked = try TokenRequest(form: body, secretsAllowed: true)
            try asked.readBasic(request.values(of: "authorization"))
            switch asked.grantType {
            case "client_credentials"?, "urn:ietf:params:oauth:grant-type:token-exchange"?: break
            case nil: throw .malformed("there is no grant_type")
            default: throw .refused(.grantNotSupported)
            }
            return try grant(asked, .oauth2, to: request)
        } catch {
            return .refuse(error.problem, as: .oauth)
        }
    }

    private static func isForm(_ request: GrantRequest) -> Bool {
        let types = request.values(of: "content-type")
        guard types.count == 1, let type = types.first else { return false }
        let end = type.firstIndex(of: UInt8(ascii: ";")) ?? type.count
        return Bytes(rebasing: type[0..<end]).trimmed.equals(lowered: "application/x-www-form-urlencoded")
    }

    private func decideMetadata(_ request: GrantRequest) -> GrantDecision {
        switch MetadataPath(request.path) {
        case nil: return Self.refuse(.unknownGrantPath)
        case let path?:
            if let refusal = Self.refusal(of: request, unless: .get, "GET") { return refusal }
            if let refusal = MetadataPath.refusal(of: request) { return Self.refuse(refusal) }
            return decideMetadata(path, request)
        }
    }

    private func decideMetadata(_ path: MetadataPath, _ request: GrantRequest) -> GrantDecision {
        do throws(GrantFormError) {
            var asked = TokenRequest()
            asked.takesFirstUser = true
            if case .account(let name, _) = path, name != "default" { asked.user = MetadataPath.user(ofEmail: name) }
            let found = try token(asked, for: request)
            switch path {
            case .text(let text): return .respond(MetadataPath.response(text))
            case .account(_, .token):
                return .grant(TokenGrant(of: found.user, by: .gceMetadata, to: found.caller, audience: found.audience))
            case .account(_, let part):
                return .respond(
                    part.response(
                        user: found.name, scopes: known.plainScopes(of: found.name),
                        isRecursive: MetadataPath.isRecursive(request.query)))
            }
        } catch {
            return Self.refuse(error.problem)
        }
    }

    // MARK: Whose token the caller may have

    private func grant(
        _ asked: TokenRequest, _ interface: TokenGrant.Interface, to request: GrantRequest
    ) throws(GrantFormError) -> GrantDecision {
        let found = try token(asked, for: request)
        return .grant(TokenGrant(of: found.user, by: interface, to: found.caller, audience: found.audience))
    }

    private struct Found {
        let user: UserIndex
        let name: String
        let caller: String
        let audience: String
    }

    /// The first row that matches the caller and has the token decides. Words of a refusal do not tell whether a user exists.
    private func token(_ asked: TokenRequest, for request: GrantRequest) throws(GrantFormError) -> Found {
        let secrets = CallerSecrets(
            ofField: request.values(of: "lanyard-capability"), clientSecret: asked.clientSecret)
        var obstacle: GrantFormError?
        for row in rows {
            guard let caller = row.caller(request.client, secrets) else { continue }
            do throws(GrantFormError) {
                let name = try user(asked, of: row)
                let (variant, audience) = try known.variant(asked, of: name, by: row.settings)
                guard let user = known.index(of: name, variant, active: request.active) else {
                    throw .refused(name == BrokerSettings.activeUser ? .noActiveUser : .tokenNotAllowed)
                }
                return Found(user: user, name: name, caller: caller, audience: audience)
            } catch {
                // A row that may give a token decides, unless another one has the named user. The token of another user is none that was
                // asked for.
                if asked.user == nil, !error.isOfUser { throw error }
                if obstacle == nil || obstacle?.isOfUser == true { obstacle = error }
            }
        }
        throw obstacle ?? .refused(.tokenNotAllowed)
    }

    private func user(_ asked: TokenRequest, of row: CallerRow) throws(GrantFormError) -> String {
        let users = row.settings.users
        if let user = asked.user {
            guard users.contains(user) else { throw .notOfRow }
            return user
        }
        if users.count == 1 || asked.takesFirstUser { return users[0] }
        if let token = asked.subjectToken {
            guard let user = issued.user(ofToken: token) else {
                throw .malformed("the subject_token is no token of this broker", .invalidRequest)
            }
            guard users.contains(user) else { throw .notOfRow }
            return user
        }
        if let client = asked.clientID, users.contains(client) { return client }
        throw .malformed("it says no user, and the caller may have tokens of several: add user")
    }

    // MARK: The response

    package func respond(
        to grant: TokenGrant, with token: AccessToken, of user: String, at now: Instant
    ) -> GrantResponse {
        let seconds = token.secondsForOthers(at: now)
        issued.record(token, to: grant, of: user, expiresIn: seconds, at: now)
        return TokenResponse.make(grant, token, user: user, expiresIn: seconds)
    }
}
