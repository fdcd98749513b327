import FlyingFox
import Foundation

/// The OAuth flow of realm-web: a browser opens the login URL with GET and comes back to the app's own page, with the tokens in the hash.
///
/// There is no page of Google, Apple or Facebook in between: the configured `browser_user` is logged in at once.
struct BrowserLogin {
    let state: ServiceState
    let app: Int
    let appID: String
    let provider: String

    func response(_ request: HTTPRequest, _ number: Int?) async throws(ServiceError) -> ClientAPI.Reply {
        guard let provider = Provider(rawValue: provider), provider.isOAuth else {
            throw ServiceError(404, nil, "'\(self.provider)' has no login with a browser")
        }
        _ = try await state.enabledProvider(provider.rawValue, app)
        guard let redirect = request.query["redirect"] else { throw .missing("redirect") }
        guard await state.apps[app].settings.redirectURIs.contains(redirect) else {
            throw ServiceError(400, "BadRequest", "redirect URI is not in redirect_uris: \(redirect)")
        }
        var hash = [("_baas_client_app_id", appID)]
        var userID: String?
        do throws(ServiceError) {
            let login = try await login(request, provider, number)
            userID = login.userID
            hash += login.hash
        } catch {
            hash.append(("_baas_error", error.text))
        }
        if let state = request.query["state"] { hash.append(("_baas_state", state)) }
        let target = redirect + "#" + hash.map { $0.0 + "=" + Self.encoded($0.1) }.joined(separator: "&")
        // A linking browser has to send its token in a field, which it cannot do with a redirect.
        let isHeader = request.query["providerRedirectHeader"] == "true"
        var response = ClientAPI.success(isHeader ? 200 : 302, nil, request)
        response.fields.append((isHeader ? "x-baas-location" : "Location", target))
        return (response, userID)
    }

    private func login(
        _ request: HTTPRequest, _ provider: Provider, _ number: Int?
    ) async throws(ServiceError) -> (userID: String, hash: [(String, String)]) {
        guard let user = await state.apps[app].settings.providers.browserUsers[provider] else {
            throw ServiceError(401, "AuthError", "no browser_user is configured for \(provider.rawValue)")
        }
        let claimant = ServiceState.Claimant.external(provider, user)
        if request.query["link"] == "true" {
            let token = try await state.access(request.headers[.authorization], app)
            let linked = try await state.link(claimant, to: token, app, number)
            return (linked.userID, [("_baas_link", "ok")])
        }
        let device = request.query["device"].flatMap { TokenIssuer.decode($0[...]) }
        let login = try await state.startSession(
            of: claimant, provider, app,
            deviceID: ServiceState.deviceID(device.flatMap { try? JSONReader.read($0) }), number)
        let parts = ["access_token", "refresh_token", "user_id", "device_id"].map { login.response[$0]?.string ?? "" }
        return (login.userID, [("_baas_ua", parts.joined(separator: "$"))])
    }

    private static func encoded(_ text: String) -> String {
        let kept = CharacterSet(charactersIn: "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~$")
        return text.addingPercentEncoding(withAllowedCharacters: kept) ?? ""
    }
}
