/// Verifying credentials (app-services.md 2).
extension ServiceState {
    /// What the credential in a login's body stands for.
    func claimant(_ provider: Provider, _ body: JSONValue, _ app: Int) throws(ServiceError) -> Claimant {
        switch provider {
        case .anonymous: return .anonymous
        case .emailPassword: return .email(try email(body, app))
        case .apiKey:
            guard let text = body["key"]?.string else { throw .missing("key") }
            guard let key = apps[app].accounts.keys.first(where: { $0.key == text }), !key.isDisabled else {
                throw .refusedKey
            }
            return .key(key.id)
        case .customFunction: return .external(provider, try functionUser(body, app))
        case .customToken:
            guard let token = body["token"]?.string else { throw .missing("token") }
            let settings = apps[app].settings.providers.customToken
            return .external(
                provider,
                try Self.verified { () throws(ForeignToken.RefusalError) in
                    try settings.user(of: token, at: now)
                })
        case .google: return .external(provider, try googleUser(body, app))
        case .apple:
            guard let token = body["id_token"]?.string else { throw .missing("id_token") }
            let settings = apps[app].settings.providers.apple
            return .external(
                provider,
                try Self.verified { () throws(ForeignToken.RefusalError) in
                    try settings.user(of: token, at: now)
                })
        case .facebook:
            guard let token = body["accessToken"]?.string else { throw .missing("accessToken") }
            guard let user = apps[app].settings.providers.facebookTokens[token] else {
                throw .refusedByProvider("error validating access token")
            }
            return .external(provider, user)
        }
    }

    private func email(_ body: JSONValue, _ app: Int) throws(ServiceError) -> String {
        guard let email = body["username"]?.string else { throw .missing("username") }
        guard let password = body["password"]?.string else { throw .missing("password") }
        guard let account = emailAccount(email, app), account.password == password else { throw .wrongPassword }
        guard account.isConfirmed else { throw .pendingAccount }
        return email
    }

    private func googleUser(_ body: JSONValue, _ app: Int) throws(ServiceError) -> ExternalUser {
        let providers = apps[app].settings.providers
        if let code = body["authCode"]?.string {
            let isUsed = providers.areCodesUsedUp && apps[app].accounts.usedCodes.contains(code)
            guard let user = providers.googleCodes[code], !isUsed else {
                throw .refusedByProvider("invalid authorization code")
            }
            apps[app].accounts.usedCodes.insert(code)
            return user
        }
        guard let token = body["id_token"]?.string else { throw .missing("id_token") }
        return try Self.verified { () throws(ForeignToken.RefusalError) in
            try providers.google.user(of: token, at: now)
        }
    }

    private static func verified(
        _ read: () throws(ForeignToken.RefusalError) -> ExternalUser
    ) throws(ServiceError) -> ExternalUser {
        do throws(ForeignToken.RefusalError) { return try read() } catch { throw .refusedToken(error.reason) }
    }

    /// The function gets the whole body without `options`. It returns an id, or an object with `id` and maybe `name`.
    private func functionUser(_ body: JSONValue, _ app: Int) throws(ServiceError) -> ExternalUser {
        guard let function = apps[app].settings.providers.loginFunction else { throw .refusedByProvider("no function") }
        var payload = body.object ?? JSONObject()
        payload["options"] = nil
        let outcome: FunctionOutcome
        do throws(ServiceError) {
            outcome = try run(function, service: nil, [.object(payload)], caller: nil, app)
        } catch {
            throw .refusedByProvider(error.text)
        }
        guard case .value(let value) = outcome, let id = value.string ?? value["id"]?.string, !id.isEmpty else {
            throw .refusedByProvider("the function has returned no id")
        }
        let name = value["name"]?.string
        return ExternalUser(id: id, data: JSONObject([("name", name.map { .string($0) })]))
    }
}
