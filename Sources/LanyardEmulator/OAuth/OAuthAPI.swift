import FlyingFox

/// The OAuth side, `/oauth/…` and its metadata: an authorization server (RFC 6749) and OpenID provider.
struct OAuthAPI {
    /// One call, with what was read of it before its planned faults are looked up: the grant decides which route it is.
    struct Call: Sendable {
        let endpoint: OAuthEndpoint
        let route: Route
        /// The client that it names, for the journal.
        let clientID: String?
        let form: Result<OAuthForm, OAuthError>

        init(_ endpoint: OAuthEndpoint, _ request: HTTPRequest) async {
            self.endpoint = endpoint
            do throws(OAuthError) {
                let form = try await OAuthForm.read(request)
                self.form = .success(form)
                route = endpoint.route(form)
                let basic = try? ClientCredentials.basic(request.headers[.authorization])
                clientID = form["client_id"] ?? basic?.id ?? request.query["client_id"]
            } catch {
                form = .failure(error)
                route = endpoint.route(nil)
                clientID = nil
            }
        }
    }

    let state: ServiceState
    let request: HTTPRequest

    /// - Parameter number: the call's in the journal.
    func reply(to call: Call, _ number: Int?) async -> ClientAPI.Reply {
        if request.method == .OPTIONS { return (Self.response(204, nil, request), nil) }
        let endpoint = call.endpoint
        do throws(OAuthError) {
            guard endpoint != .unknown else {
                throw OAuthError(
                    404, "invalid_request",
                    "this stand-in has no \(request.path); it has authorize, token, device_authorization, device, revoke, "
                        + "introspect, userinfo, jwks and the metadata")
            }
            guard endpoint.methods.contains(request.method) else {
                throw OAuthError(
                    405, "invalid_request",
                    "\(request.path) takes \(endpoint.methods.map(\.rawValue).joined(separator: ", "))")
            }
            return try await reply(call, try call.form.get(), try issuer(), number)
        } catch {
            return (failure(error, endpoint), nil)
        }
    }

    private func reply(
        _ call: Call, _ form: OAuthForm, _ issuer: String, _ number: Int?
    ) async throws(OAuthError) -> ClientAPI.Reply {
        let authorization = request.headers[.authorization]
        switch call.endpoint {
        case .metadata: return (Self.response(200, await state.oauthMetadata(issuer), request), nil)
        case .keys: return (Self.response(200, await state.oauthKeys(), request), nil)
        case .token:
            let reply = try await state.oauthToken(form, authorization, issuer, number)
            return (Self.response(200, reply.body, request), reply.subject)
        case .device:
            let reply = try await state.beginDeviceLogin(form, authorization, issuer)
            return (Self.response(200, reply.body, request), reply.subject)
        case .revoke:
            let subject = try await state.oauthRevoke(form, authorization, number)
            return (Self.response(200, nil, request), subject)
        case .introspect:
            let reply = try await state.oauthIntrospect(form, authorization, issuer)
            return (Self.response(200, reply.body, request), reply.subject)
        case .userInfo: return await userInfo(authorization)
        case .authorize where request.method == .POST:
            return try await OAuthPages(state: state, request: request, issuer: issuer).authorize(form)
        case .authorize:
            let query = try OAuthForm(request.target.query())
            return try await OAuthPages(state: state, request: request, issuer: issuer).showAuthorize(query)
        case .verify where request.method == .POST:
            return await OAuthPages(state: state, request: request, issuer: issuer).verify(form)
        case .verify:
            let query = try OAuthForm(request.target.query())
            return await OAuthPages(state: state, request: request, issuer: issuer).showVerify(query)
        case .unknown: throw OAuthError(404, "invalid_request", "not found")
        }
    }

    /// `http://HOST/oauth`, as the client sees the service, so that it is reachable from a container and behind a relay.
    private func issuer() throws(OAuthError) -> String {
        let scheme = request.headers[HTTPHeader("X-Forwarded-Proto")] == "https" ? "https" : "http"
        let host = request.headers[HTTPHeader("X-Forwarded-Host")] ?? request.headers[.host] ?? "localhost"
        let known = host.utf8.allSatisfy { byte in
            switch byte {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "."), UInt8(ascii: "-"), UInt8(ascii: "_"),
                UInt8(ascii: ":"), UInt8(ascii: "["), UInt8(ascii: "]"):
                true
            default: false
            }
        }
        guard known, !host.isEmpty else { throw .invalidRequest("Host is no host and port") }
        return scheme + "://" + host + "/oauth"
    }

    /// OpenID Connect Core 1.0 §5.3; refusals as in RFC 6750 §3.
    private func userInfo(_ authorization: String?) async -> ClientAPI.Reply {
        let token: ServiceState.IssuedToken
        do throws(ServiceError) {
            token = try await state.oauthAccess(authorization)
        } catch {
            let isMissing = error == .unauthenticated || error == .emptyBearer
            let detail = isMissing ? "" : #", error="invalid_token", error_description="\#(error.text)""#
            return (
                Self.response(
                    401, .members(["error": "invalid_token", "error_description": .string(error.text)]), request,
                    fields: [("WWW-Authenticate", #"Bearer realm="lanyard-emulator""# + detail)]), nil
            )
        }
        guard token.scopes.contains("openid") else {
            return (
                Self.response(
                    403,
                    .members([
                        "error": "insufficient_scope", "error_description": "the token has not the scope openid",
                    ]), request,
                    fields: [
                        (
                            "WWW-Authenticate",
                            #"Bearer realm="lanyard-emulator", error="insufficient_scope", scope="openid""#
                        )
                    ]), token.userID
            )
        }
        let claims = await state.userClaims(of: token.userID, token.scopes)
        return (Self.response(200, .object(claims), request), token.userID)
    }

    // MARK: Responses

    /// An error, or a planned fault of the service.
    func failure(_ error: OAuthError, _ endpoint: OAuthEndpoint, retryAfter: Int? = nil) -> EmulatorResponse {
        var fields: [(name: String, value: String)] = []
        if let retryAfter { fields.append(("Retry-After", String(retryAfter))) }
        // RFC 6749 §5.2: with the scheme that the client has used.
        if error.code == "invalid_client", request.headers[.authorization] != nil {
            fields.append(("WWW-Authenticate", #"Basic realm="lanyard-emulator""#))
        }
        if error.status == 405 {
            fields.append(("Allow", (endpoint.methods + [.OPTIONS]).map(\.rawValue).joined(separator: ", ")))
        }
        return Self.response(error.status, error.json, request, fields: fields)
    }

    /// A response that no cache keeps (RFC 6749 §5.1) and pages of every origin may read.
    static func response(
        _ status: Int, _ body: JSONValue?, _ request: HTTPRequest, fields: [(name: String, value: String)] = []
    ) -> EmulatorResponse {
        let asked = request.headers[HTTPHeader("Access-Control-Request-Headers")]
        let all =
            fields + [
                ("Cache-Control", "no-store"), ("Pragma", "no-cache"), ("Access-Control-Allow-Origin", "*"),
                ("Access-Control-Allow-Headers", asked ?? "Authorization, Content-Type, Accept"),
                ("Access-Control-Allow-Methods", "GET, POST, OPTIONS"),
            ]
        return body.map { .json(status, $0, fields: all) } ?? EmulatorResponse(status, fields: all)
    }
}
