import LanyardFoundations
import LanyardSessionInterface
import LanyardSettings

/// Calls about accounts (app-services-accounts.md 4).
extension AppServicesIdentity: AccountService {
    package func perform(
        _ call: AccountCall, token: Secret?, reply: @escaping @Sendable (Result<Secret, IdentityError>) -> Void
    ) {
        guard let exchange = AppServicesAccountCall(call, client: Self.client, appID: appID) else {
            return reply(.failure(IdentityError(.callRefused, message: "a text in the call is not UTF-8")))
        }
        let progress = transport.watch.begin(call.kind)
        let end: @Sendable (Result<Secret, IdentityError>) -> Void = { [watch = transport.watch] result in
            watch.end(progress)
            reply(result)
        }
        begin(progress, fail: { end(.failure($0)) }) { [self] origin, deadline, _ in
            var request = CurlRequest(
                method: exchange.method, url: origin.text + exchange.path, fields: Self.fields, bearer: token,
                body: exchange.body, kind: .login, deadline: deadline)
            request.responseBytesMax = exchange.responseBytesMax
            progress.wait(for: request.url)
            http.send(request) { [self] outcome in
                noteLocation(outcome)
                end(AppServicesAccountResult.read(outcome, of: call, exchange, token: token, appID: appID))
            }
        }
    }

    /// A link is a login with `link=true` and the access token (app-services-accounts.md 4.3).
    package func link(
        _ credential: LoginMethod<Secret>, accessToken: Secret,
        reply: @escaping @Sendable (Result<Grant, IdentityError>) -> Void
    ) {
        let prepared: AppServicesLogin
        switch AppServicesLogin.prepare(
            .given(credential), content: nil, guarded: nil, at: fingerprint, device: device)
        {
        case .failure(let error): return reply(.failure(error))
        case .success(let login): prepared = login
        }
        let path = "\(Self.client)/app/\(appID)/auth/providers/\(prepared.provider)/login?link=true"
        let progress = transport.watch.begin(.link)
        let end: @Sendable (Result<Grant, IdentityError>) -> Void = { [watch = transport.watch] result in
            watch.end(progress)
            reply(result)
        }
        begin(progress, fail: { end(.failure($0)) }) { [self] origin, deadline, _ in
            // Only now: the location response has shown the service's clock.
            if let error = prepared.expiryError(at: clock.time()) { return end(.failure(error)) }
            let request = CurlRequest(
                method: .post, url: origin.text + path, fields: Self.fields, bearer: accessToken, body: prepared.body,
                kind: .login, deadline: deadline)
            progress.wait(for: request.url)
            http.send(request) { [self] outcome in
                clock.update(from: outcome)
                noteLocation(outcome)
                end(
                    AppServicesAccountResult.readLink(
                        outcome, secrets: [accessToken] + prepared.secrets, appID: appID))
            }
        }
    }

    package func customData(in accessToken: Secret) -> Result<Secret, IdentityError> {
        guard let data = JWTClaims.customData(in: accessToken) else {
            let message = "the identity service's access token carries custom data that is not a JSON object"
            return .failure(IdentityError(.transient(retryAfter: nil), message: message))
        }
        return .success(data)
    }
}
