import FlyingFox

/// `/protected/…`: a resource that requires a valid access token and reports the request that it received. A body may have any size.
struct ProtectedResource {
    let state: ServiceState

    /// Fields that are never reported, because they may hold a credential.
    private static let hidden: Set<String> = ["authorization", "proxy-authorization", "cookie", "lanyard-capability"]

    func response(_ request: HTTPRequest) async throws -> (EmulatorResponse, userID: String?) {
        // The token is checked before the body is read, as a server does that reads the head first.
        let verdict = await verdict(request.headers[.authorization])
        let body = try await RequestBody.digest(request)
        switch verdict {
        case .success(let token): return (echo(request, token, body), token.userID)
        case .failure(let refusal): return (Self.refuse(refusal), nil)
        }
    }

    private func verdict(_ authorization: String?) async -> Result<ServiceState.IssuedToken, ServiceError> {
        do throws(ServiceError) {
            let token = try await state.anyAccess(authorization)
            await state.recordUse(of: token)
            return .success(token)
        } catch {
            await state.countRefusal(Self.reason(error))
            return .failure(error)
        }
    }

    private func echo(_ request: HTTPRequest, _ token: ServiceState.IssuedToken, _ body: (count: Int, sha256: String))
        -> EmulatorResponse
    {
        let fields = request.headers.keys.filter { !Self.hidden.contains($0.rawValue.lowercased()) }
        let headers = fields.map { ($0.rawValue.lowercased(), Optional(JSONValue.string(request.headers[$0] ?? ""))) }
        return .json(
            200,
            .members([
                "method": .string(request.method.rawValue), "path": .string(request.target.path()),
                "query": .string(request.target.query()), "headers": .object(JSONObject(headers)),
                "body_bytes": .int(body.count), "body_sha256": .string(body.sha256), "token_id": .string(token.id),
                "user_id": .string(token.userID), "client_id": token.oauth.map { .string($0.clientID) },
                "scope": token.oauth.map { .string($0.scopes.joined(separator: " ")) },
                "audience": token.oauth.map { .array($0.audience.map { .string($0) }) },
            ]))
    }

    /// A 401 with a challenge that gives the reason (RFC 6750 §3). `error` is always `invalid_token`, also without a token, as in
    /// responses of the service's real resource servers.
    private static func refuse(_ error: ServiceError) -> EmulatorResponse {
        .json(
            401, .members(["error": .string(error.text)]),
            fields: [
                (
                    "WWW-Authenticate",
                    #"Bearer realm="lanyard-emulator", error="invalid_token", error_description="\#(reason(error))""#
                )
            ])
    }

    private static func reason(_ error: ServiceError) -> String {
        switch error {
        case .unauthenticated, .emptyBearer: "missing"
        case .accessExpired: "expired"
        case .accessRevoked: "revoked"
        case .accessBadSignature: "foreign"
        case .refreshWhereAccess: "wrong_type"
        default: "malformed"
        }
    }
}
