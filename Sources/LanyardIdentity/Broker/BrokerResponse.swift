import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// What the broker of another Lanyard responds to `GET /v1/token` (fleet.md 1).
enum BrokerResponse {
    private static let lifetimeMin: Int64 = 2
    /// Ten years, in seconds, as for other services (refresh.md 1).
    private static let lifetimeMax: Int64 = 315_360_000

    /// A token with its generation there.
    struct Token {
        let grant: Grant
        let generation: UInt64
    }

    /// There is no token. A type of its own: what follows may be another address.
    struct NoTokenError: Error {
        var error: IdentityError
        /// Another address may give one.
        var leadsToNext = false
    }

    /// - Parameters:
    ///   - user: the one that was asked for.
    ///   - secrets: what the call has sent. The broker's words are not shown with one of them.
    ///   - arrival: when the response came.
    static func token(
        in outcome: Result<CurlResponse, CurlError>, of user: String, without secrets: [Secret],
        at arrival: ClockReading
    ) -> Result<Token, NoTokenError> {
        switch outcome {
        case .failure(let failure):
            var error = failure.identityError(of: "the request for a token")
            error.message = error.message.replacing("the identity service", with: "the other Lanyard")
            return .failure(NoTokenError(error: error, leadsToNext: leadsToNext(failure.kind)))
        case .success(let response) where response.status == 200: return success(response, user, arrival)
        case .success(let response):
            var failure = refusal(response, user, arrival.wall)
            failure.error = failure.error.with(wordsOf: response, without: secrets)
                .withRetryAfter(of: response, now: arrival.wall)
            return .failure(failure)
        }
    }

    /// No response, or none that can be trusted. What this machine lacks, it lacks for the next address, too.
    private static func leadsToNext(_ kind: CurlError.Kind) -> Bool {
        switch kind {
        case .timedOut, .unreachable, .untrusted, .handshake, .certificateRefused, .prohibited, .broken: true
        case .tooLarge, .late, .stopped, .local: false
        }
    }

    private static func success(
        _ response: CurlResponse, _ user: String, _ arrival: ClockReading
    ) -> Result<Token, NoTokenError> {
        let body = response.body.withBytes { Body($0) }
        func fail(_ reason: String, _ cause: IdentityCause = .unusableToken) -> Result<Token, NoTokenError> {
            var error = IdentityError(
                .transient(retryAfter: nil), status: response.status,
                message: "the other Lanyard's response to the request for a token cannot be used: \(reason)")
            error.cause = cause
            return .failure(NoTokenError(error: error))
        }
        guard let body else { return fail("not a JSON object; does a broker listen there?", .unusableResponse) }
        guard let token = body.token else { return fail("there is no access_token that a header can carry") }
        guard body.tokenType?.lowercased() == "bearer" else { return fail("its token_type is not Bearer") }
        guard let holder = body.user, ConfiguredName.isValid(holder) else { return fail("there is no user") }
        // The active user has a name of its own.
        guard holder == user || user == BrokerSettings.activeUser else {
            return fail("it is the token of another user than \(user)")
        }
        guard let generation = body.generation else { return fail("there is no generation") }
        guard let seconds = body.expiresIn else {
            return fail(
                "there is no expires_in in whole seconds; a token of a static identity has no known end, and cannot be passed on so"
            )
        }
        guard seconds >= lifetimeMin else { return fail("the token lives for less than \(lifetimeMin) s") }
        // The broker may have let the request wait, and has deducted the time of the way back: the life counts from the arrival.
        var grant = Grant(
            accessToken: token, refreshToken: nil, userID: nil, lifetime: .seconds(min(seconds, lifetimeMax)),
            refreshTokenExpiry: nil, serverDate: response.serverDate, requestStartedAt: arrival)
        grant.account = .broker(user: holder)
        return .success(Token(grant: grant, generation: generation))
    }

    // MARK: Refusals

    private static func refusal(_ response: CurlResponse, _ user: String, _ now: WallTime) -> NoTokenError {
        let body = response.body.withBytes { Body($0) }
        let problem = body?.problem
        var failure = NoTokenError(
            error: IdentityError(
                .transient(retryAfter: response.retryAfter(now: now)), status: response.status,
                message: "the other Lanyard responded with \(response.status)"
                    + (problem.map { " \($0.rawValue)" } ?? "") + " to the request for a token of its user \(user)"))
        failure.error.isServiceError = problem != nil
        switch response.status {
        case 503: passOn(problem, body?.action, user, &failure)
        // Of a gateway before it.
        case 502, 504: (failure.error.cause, failure.leadsToNext) = (.serviceFailure, true)
        case 408, 425, 429: failure.error.cause = .busy
        case 403:
            (failure.error.verdict, failure.error.cause, failure.error.isDenied) = (.clientRefused, .policy, true)
            failure.error.message += ": its broker does not give it to this caller; see callers there"
        case 400:
            (failure.error.verdict, failure.error.cause, failure.error.isDenied) = (.clientRefused, .request, true)
            failure.error.message +=
                ": the request is not one that its broker takes; see login.broker and the routes' token"
        case 300..<400, 404, 405, 410, 421:
            failure.error.cause = .noEndpoint
            failure.error.message += ", as if no broker were there that serves it; check address"
        case 500...599: failure.error.cause = .serviceFailure
        default: failure.error.cause = .unusableResponse
        }
        return failure
    }

    /// 503: the other Lanyard has no token now. Why not is passed on.
    private static func passOn(
        _ problem: Problem?, _ action: ResponsibleParty?, _ user: String, _ failure: inout NoTokenError
    ) {
        failure.leadsToNext = true
        failure.error.cause = .serviceFailure
        switch problem {
        case .loginRequired:
            (failure.error.passedOn, failure.error.cause) = (.loginRequired, .user)
            failure.error.responsible = .user
            failure.error.message = "the user \(user) of the other Lanyard must log in there (login-required)"
        case .noActiveUser:
            (failure.error.passedOn, failure.error.cause) = (.loginRequired, .user)
            failure.error.responsible = .user
            failure.error.message =
                "the other Lanyard has no active user (no-active-user): log a user in there, or activate one"
        case .credentialRefused:
            (failure.error.passedOn, failure.error.cause) = (.credentialRefused, .credential)
            failure.error.message =
                "the other Lanyard cannot log its user \(user) in (credential-refused); its status says why"
        case .identityUnreachable:
            failure.error.message =
                "the other Lanyard has no token of its user \(user) for now (identity-unreachable)"
            if action == .operator { failure.error.responsible = .operator }
        case .storeUnreachable, .overloaded, .shuttingDown: break
        case nil: failure.error.message += ", and not why"
        }
    }

    /// The problems that are told apart (errors.md 1). Another name of a response is never shown.
    private enum Problem: String, CaseIterable {
        case loginRequired = "login-required"
        case noActiveUser = "no-active-user"
        case credentialRefused = "credential-refused"
        case identityUnreachable = "identity-unreachable"
        case storeUnreachable = "store-unreachable"
        case overloaded
        case shuttingDown = "shutting-down"
    }

    /// The members that count, of a token or a problem.
    private struct Body {
        var token: Secret?
        var tokenType: String?
        var user: String?
        var generation: UInt64?
        var expiresIn: Int64?
        var problem: Problem?
        var action: ResponsibleParty?

        private static let names: [StaticString] = [
            "access_token", "token_type", "user", "generation", "expires_in", "type", "action",
        ]
        private static let problemPrefix = "urn:lanyard:problem:"
        private static let textBytesMax = 128

        /// nil: not an object.
        init?(_ bytes: UnsafeRawBufferPointer) {
            var reader = JSONReader(bytes)
            do throws(JSONError) {
                guard try reader.next() == .objectStart else { return nil }
                while case .name(let name) = try reader.next() {
                    guard let known = Self.names.first(where: { JSONText.matches(name, of: bytes, $0) }) else {
                        try reader.skipValue()
                        continue
                    }
                    switch try reader.next() {
                    case .string(let text): read(text, bytes, known.description)
                    case .number(let range): read(number: bytes[range], known.description)
                    case .objectStart, .arrayStart: try OAuthResponse.skipRest(of: &reader)
                    default: break
                    }
                }
                guard try reader.next() == .end else { return nil }
            } catch {
                return nil
            }
        }

        private mutating func read(_ text: JSONReader.Text, _ bytes: UnsafeRawBufferPointer, _ name: String) {
            guard name != "access_token" else {
                let secret = JSONText.secret(text, of: bytes, countMax: TokenReader.tokenBytesMax)
                return token = secret.flatMap { $0.count > 0 && $0.isVisibleASCII ? $0 : nil }
            }
            guard text.range.count <= Self.textBytesMax else { return }
            let value = String(decoding: bytes[text.range], as: UTF8.self)
            switch name {
            case "token_type": tokenType = value
            case "user": user = value
            case "type" where value.hasPrefix(Self.problemPrefix):
                problem = Problem(rawValue: String(value.dropFirst(Self.problemPrefix.count)))
            case "action": action = ResponsibleParty(rawValue: value)
            default: break
            }
        }

        private mutating func read(number: Slice<UnsafeRawBufferPointer>, _ name: String) {
            let text = String(decoding: number, as: UTF8.self)
            switch name {
            case "generation": generation = UInt64(text)
            case "expires_in": expiresIn = Int64(text)
            default: break
            }
        }
    }
}
